"""Labels as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from datalake.quarantine import Reason, Refusal
from datalake.schema import BONAFIDE, SPOOF

__all__ = ["LABELS", "label_numbers"]

LABELS: Final[dict[str | None, int]] = {BONAFIDE: 1, SPOOF: 0, None: -1}
"""A higher number means bona fide; -1 where the corpus does not say."""


def label_numbers(
    labels: Sequence[str | None],
) -> tuple[npt.NDArray[np.int64], dict[int, Refusal]]:
    """The number of each label, (n,), and which of them are none, by their place."""
    try:
        return np.array([LABELS[label] for label in labels], np.int64), {}
    except KeyError:
        refused = {
            index: Refusal(Reason.BAD_LABEL, f"{label!r} is no {BONAFIDE}, {SPOOF} or null")
            for index, label in enumerate(labels)
            if label not in LABELS
        }
        return np.zeros(len(labels), np.int64), refused
