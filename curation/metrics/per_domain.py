"""The equal error rate by domain, pooled, and on average."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.metrics.bootstrap import interval_of
from curation.metrics.equal_error_rate import eer_of
from curation.metrics.trials import Trials
from datalake.errors import InputError
from datalake.schema import BONAFIDE, SPOOF

__all__ = ["BREAKDOWN", "eer_by"]

BREAKDOWN: Final = pa.schema(
    [
        # `domain` for one spoof domain, `pooled` for all of them at once, `macro` for the mean.
        pa.field("scope", pa.string(), nullable=False),
        # The spoof domain; null for `pooled` and `macro`.
        pa.field("domain", pa.string()),
        pa.field("num_bonafide", pa.int64(), nullable=False),
        pa.field("num_spoof", pa.int64(), nullable=False),
        pa.field("eer", pa.float64(), nullable=False),
        # Bounds of the bootstrap interval; null for `macro` and where none was asked for.
        pa.field("eer_low", pa.float64()),
        pa.field("eer_high", pa.float64()),
    ]
)
"""The columns of `eer_by`."""


def eer_by(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    domains: npt.ArrayLike,
    *,
    num_resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> pa.Table:
    """Break the equal error rate of a test down by spoof domain.

    Each spoof domain is held against all bona fide trials of the test, whatever their source, as
    the ASVspoof challenges do for their attacks. `pooled` takes all trials at once; `macro` is the
    mean over the spoof domains, in which a small domain weighs as much as a large one.

    Args:
        scores: shape (num_trials,), higher for bona fide.
        labels: shape (num_trials,), `bonafide` or `spoof`.
        domains: shape (num_trials,), the domain of each trial.
        num_resamples: bootstrap replicates an interval; 0 for no intervals.
        seed: seed of the bootstrap.
        level: level of the intervals.

    Returns:
        A table with columns `BREAKDOWN`: the spoof domains by name, then `pooled`, then `macro`.

    Raises:
        InputError: see `Trials.of`; or lengths differ, or a label is neither of the two.
    """
    score, label, domain = np.asarray(scores), np.asarray(labels), np.asarray(domains)
    if not score.shape == label.shape == domain.shape:
        raise InputError(
            "Scores, labels and domains do not belong together",
            expected="arrays of one length",
            found=f"shapes {score.shape}, {label.shape} and {domain.shape}",
        )
    is_bonafide, is_spoof = label == BONAFIDE, label == SPOOF
    strange = ~(is_bonafide | is_spoof)
    if strange.any():
        raise InputError(
            f"{int(strange.sum())} trials have no label that can be scored",
            expected=f"{BONAFIDE} or {SPOOF}",
            found=f"{label[strange.argmax()]} at position {int(strange.argmax())}",
        )
    unnamed = is_spoof & pa.array(domain).is_null().to_numpy(zero_copy_only=False)
    if unnamed.any():
        raise InputError(
            f"{int(unnamed.sum())} spoof trials have no domain",
            expected="a domain for every spoof trial",
            found=f"null at position {int(unnamed.argmax())}",
        )
    pooled = Trials.of(score[is_bonafide], score[is_spoof])

    def trials_of(name: str) -> Trials:
        spoof = np.sort(score[is_spoof & (domain == name)].astype(np.float64))
        return Trials(pooled.bonafide, spoof)

    def row(scope: str, name: str | None, trials: Trials) -> dict[str, object]:
        found = (
            interval_of(trials, "eer", num_resamples=num_resamples, seed=seed, level=level)
            if num_resamples
            else None
        )
        return {
            "scope": scope,
            "domain": name,
            "num_bonafide": trials.bonafide.size,
            "num_spoof": trials.spoof.size,
            "eer": eer_of(trials),
            "eer_low": found.low if found else None,
            "eer_high": found.high if found else None,
        }

    rows = [row("domain", str(name), trials_of(name)) for name in np.unique(domain[is_spoof])]
    macro = {
        "scope": "macro",
        "num_bonafide": pooled.bonafide.size,
        "num_spoof": pooled.spoof.size,
        "eer": float(np.mean([found["eer"] for found in rows])),
    }
    return pa.Table.from_pylist([*rows, row("pooled", None, pooled), macro], schema=BREAKDOWN)
