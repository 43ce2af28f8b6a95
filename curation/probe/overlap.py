"""Leakage: what training and test share. A test that was trained on measures memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.errors import InputError

__all__ = ["Overlap", "find_overlaps", "leaked", "refuse_leaks"]

_SAME_UTTERANCE: Final = ("utt_id", "sha256")
_COLUMNS: Final = (*_SAME_UTTERANCE, "generator", "speaker_id")


@dataclass(frozen=True)
class Overlap:
    """Values of one key column on both sides."""

    column: str
    num_values: int
    num_test_rows: int
    """Test rows that have one of them."""
    examples: tuple[str, ...]
    """Up to five of the values, sorted."""

    @property
    def is_leak(self) -> bool:
        """Whether the shared value is an utterance, so that scores are worthless."""
        return self.column in _SAME_UTTERANCE


def find_overlaps(train: pa.Table, test: pa.Table) -> list[Overlap]:
    """What the keys of both sides share, by column: utt_id, sha256, generator, speaker_id."""
    overlaps = []
    for column in _COLUMNS:
        shared = test[column].filter(_seen(test, train, column))
        if len(shared):
            values = sorted(pc.unique(shared).to_pylist())
            overlaps.append(Overlap(column, len(values), len(shared), tuple(values[:5])))
    return overlaps


def leaked(train: pa.Table, test: pa.Table) -> npt.NDArray[np.bool_]:
    """Which training rows are utterances of the test, by id or by bytes; shape (num_train,)."""
    mask = np.zeros(train.num_rows, dtype=np.bool_)
    for column in _SAME_UTTERANCE:
        mask |= np.asarray(_seen(train, test, column))
    return mask


def refuse_leaks(overlaps: list[Overlap]) -> None:
    """Refuse a test that holds utterances of the training.

    Raises:
        InputError: an overlap is a leak.
    """
    if leaks := [overlap for overlap in overlaps if overlap.is_leak]:
        worst = max(leaks, key=lambda overlap: overlap.num_test_rows)
        raise InputError(
            "The test holds utterances that were trained on",
            where=worst.column,
            found=f"{worst.num_test_rows} test rows, among them {', '.join(worst.examples)}",
            fix="Narrow one side with --where or --test-where, or pass --drop-overlap to train "
            "without these rows",
        )


def _seen(rows: pa.Table, others: pa.Table, column: str) -> pa.ChunkedArray:
    """Which of `rows` have a value, not null, that `others` have too."""
    values = pc.unique(others[column].drop_null())
    return pc.is_in(rows[column], value_set=values.cast(rows[column].type))
