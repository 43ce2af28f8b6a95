"""The architecture-agnostic detection cost (a-DCF) of spoofing-robust speaker verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from curation.metrics.trials import ascending, check_detects
from datalake.errors import InputError, nearest

__all__ = ["AGNOSTIC_COSTS", "AgnosticCosts", "a_dcf"]


@dataclass(frozen=True)
class AgnosticCosts:
    """Shares of the three kinds of trials, and what each error costs."""

    p_target: float
    p_nontarget: float
    p_spoof: float
    c_miss: float
    c_false_alarm_nontarget: float
    c_false_alarm_spoof: float


AGNOSTIC_COSTS: Final[Mapping[str, AgnosticCosts]] = {
    "asvspoof5": AgnosticCosts((1 - 0.05) * 0.99, (1 - 0.05) * 0.01, 0.05, 1, 10, 10),
    "original": AgnosticCosts(0.9, 0.05, 0.05, 1, 10, 20),
}
"""Parameters by name: of the ASVspoof 5 challenge, and the defaults of the metric's authors."""


def a_dcf(
    target_scores: npt.ArrayLike,
    nontarget_scores: npt.ArrayLike,
    spoof_scores: npt.ArrayLike,
    *,
    costs: AgnosticCosts | str = "asvspoof5",
) -> float:
    """The least normalised cost of one system that is to accept bona fide target trials only.

    Shim et al., Odyssey 2024; the value of the official code to the last bit. Among equal scores
    target trials are rejected first, then non-target ones, then spoofs.

    Args:
        target_scores: shape (num_target,), higher for trials to accept.
        nontarget_scores: shape (num_nontarget,), bona fide speech of another speaker.
        spoof_scores: shape (num_spoof,).
        costs: a name of `AGNOSTIC_COSTS`, or parameters of your own.

    Raises:
        InputError: scores are none, not finite, or all one value; or the name is not known.
    """
    if isinstance(costs, str):
        if costs not in AGNOSTIC_COSTS:
            raise InputError(
                f"The a-DCF parameters {costs} are not known",
                expected=" or ".join(AGNOSTIC_COSTS),
                fix=nearest(costs, AGNOSTIC_COSTS),
            )
        costs = AGNOSTIC_COSTS[costs]
    target = ascending(target_scores, "target")
    nontarget = ascending(nontarget_scores, "nontarget")
    spoof = ascending(spoof_scores, "spoof")
    check_detects(target, nontarget, spoof)
    # The cost falls with every trial rejected but the targets, so it is least before a target or
    # at the end. Those equal to a target come after it.
    misses = np.arange(target.size + 1)
    nontarget_rejected = np.append(np.searchsorted(nontarget, target, "left"), nontarget.size)
    spoof_rejected = np.append(np.searchsorted(spoof, target, "left"), spoof.size)
    weight_miss = costs.c_miss * costs.p_target
    weight_nontarget = costs.c_false_alarm_nontarget * costs.p_nontarget
    weight_spoof = costs.c_false_alarm_spoof * costs.p_spoof
    cost = (
        weight_miss * (misses / target.size)
        + weight_nontarget * ((nontarget.size - nontarget_rejected) / nontarget.size)
        + weight_spoof * ((spoof.size - spoof_rejected) / spoof.size)
    )
    return float(cost.min() / min(weight_nontarget + weight_spoof, weight_miss))
