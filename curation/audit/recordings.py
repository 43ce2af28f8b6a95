"""Finding the same recording under other names, by fingerprints and an inverted index.

Two fingerprints of one recording have some words in common, each as far into the one as into the
other, and differ in few bits where they are laid over each other so. The index finds the former, a
comparison of bits proves the latter. Words that very many rows have (hum, silence) find nothing and
are left out, so the work grows with the number of words and not with the number of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.engine import spilling_engine

__all__ = ["MOST_BITS_APART", "RecordingIndex", "best_match", "bits_apart"]

MOST_BITS_APART: Final = 0.25
"""The share of bits that differ up to which two rows are taken for one recording: some 5 % for a
copy in another codec, 11 to 18 % for the output of a neural vocoder, nearly 50 % by chance."""

_LEAST_WORDS: Final = 40
_LEAST_COMMON: Final = 0.5
_BUCKET: Final = 64
_VOTES: Final = 2
_OFFSET_STEP: Final = 4
_OFFSET_ZERO: Final = 1 << 24  # what makes every offset positive
_MOST_WORDS: Final = 30_000_000
_PAIRS_AT_ONCE: Final = 2_000_000
_ROWS_FETCHED: Final = 10_000

Words = npt.NDArray[np.uint32]
IntArray = npt.NDArray[np.int64]


class RecordingIndex:
    """An index of fingerprints. Memory: some 40 bytes a word indexed, 30 million words at most.

    Where there are more words, a part of all possible words is indexed, the same in every row: long
    clips are still found, and of short ones some are missed. `share_indexed` says how large it is.

    Args:
        num_words: about how many words will be added; 62.5 a second of audio.
    """

    def __init__(self, num_words: int) -> None:
        self.share_indexed = min(1.0, _MOST_WORDS / max(num_words, 1))
        self._below = np.uint64(self.share_indexed * 2**32)
        self._words: list[Words] = []
        self._rows: list[npt.NDArray[np.int32]] = []
        self._places: list[npt.NDArray[np.int32]] = []
        self.num_rows = 0

    def add(self, fingerprint: Words) -> None:
        """Add the next row."""
        words, places = np.unique(fingerprint, return_index=True)
        kept = words != 0
        if self.share_indexed < 1:
            # Words that differ in one bit must not stand together: a multiplicative hash.
            kept &= (words * np.uint32(2654435761)).astype(np.uint64) < self._below
        self._words.append(words[kept])
        self._places.append(places[kept].astype(np.int32))
        self._rows.append(np.full(int(kept.sum()), self.num_rows, np.int32))
        self.num_rows += 1

    def candidates(self, sides: npt.ArrayLike) -> Iterator[tuple[int, int, int]]:
        """Pairs of rows of different sides that share two words or more at one offset.

        Votes are counted by an engine that spills to disk, 16 bytes a shared word.

        Args:
            sides: (num_rows,), which side each row is of, a number.

        Yields:
            Left row, right row (the larger number), offset in words; ascending.
        """
        with spilling_engine() as engine:
            engine.execute("CREATE TEMP TABLE meetings (l INTEGER, r INTEGER, apart INTEGER)")
            for left, right, offset in self._meetings(np.asarray(sides)):
                part = pa.table({"l": left, "r": right, "apart": offset})
                engine.register("part", part)
                engine.execute("INSERT INTO meetings SELECT * FROM part")
                engine.unregister("part")
            # Two series of overlapping spans, so that neighbouring offsets count together.
            rows = engine.execute(
                """SELECT DISTINCT l, r, span * $step - shift + $step // 2 - $zero
                   FROM (SELECT l, r, shift, (apart + $zero + shift) // $step AS span
                         FROM meetings, (SELECT unnest([0, $step // 2]) AS shift))
                   GROUP BY l, r, shift, span HAVING count(*) >= $votes
                   ORDER BY ALL""",
                {"step": _OFFSET_STEP, "zero": _OFFSET_ZERO, "votes": _VOTES},
            )
            while part := rows.fetchmany(_ROWS_FETCHED):
                yield from part

    def _meetings(
        self, side_of: IntArray
    ) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]]:
        """Pairs of rows at the words that they share, and how far apart the words stand."""
        if not self._words:
            return
        words = np.concatenate(self._words)
        order = np.argsort(words, kind="stable")  # stable: rows ascend within a word
        words = words[order]
        rows, places = np.concatenate(self._rows)[order], np.concatenate(self._places)[order]
        starts = np.flatnonzero(np.concatenate([[True], words[1:] != words[:-1]]))
        sizes = np.diff(np.append(starts, len(words)))
        for size in range(2, _BUCKET + 1):
            first = starts[sizes == size]
            one, other = np.triu_indices(size, 1)
            step = max(_PAIRS_AT_ONCE // len(one), 1)
            for begin in range(0, len(first), step):
                at = first[begin : begin + step, None]
                left, right = (at + one).ravel(), (at + other).ravel()
                apart = side_of[rows[left]] != side_of[rows[right]]
                left, right = left[apart], right[apart]
                yield rows[left], rows[right], places[left] - places[right]


def bits_apart(left: Words, right: Words, offset: int) -> float:
    """The share of bits that differ where `right` is laid over `left`, `offset` words later.

    1 where they have fewer than 40 words (.64 s) or half of the shorter one in common. Frames of
    digital silence count on neither side.
    """
    start, stop = max(offset, 0), min(len(left), len(right) + offset)
    if stop - start < max(_LEAST_WORDS, _LEAST_COMMON * min(len(left), len(right))):
        return 1.0
    one, other = left[start:stop], right[start - offset : stop - offset]
    heard = (one != 0) & (other != 0)
    if heard.sum() < _LEAST_WORDS:
        return 1.0
    return float(np.bitwise_count(one[heard] ^ other[heard]).mean() / 32)


def best_match(left: Words, right: Words, around: int) -> tuple[float, int]:
    """The fewest bits apart at an offset near one, and that offset."""
    near = range(around - _OFFSET_STEP, around + _OFFSET_STEP + 1)
    return min((bits_apart(left, right, offset), offset) for offset in near)
