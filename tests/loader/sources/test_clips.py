"""Crop and pad: every beginning that fits, by the example's word; the rest filled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.loader.order.hashing import mix
from datalake.loader.sources.clips import Pad, crop_start, crop_starts, pad_all, pad_behind

unhurried = settings(deadline=None)
WORDS = st.integers(0, 2**64 - 1)


@unhurried
@given(st.integers(1, 2**32 - 1), st.integers(1, 2**32), WORDS)
def test_a_crop_lies_within_the_clip(length: int, num_samples: int, word: int) -> None:
    start = crop_start(length, num_samples, word, "random")
    assert 0 <= start <= max(length - num_samples, 0)


@unhurried
@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), WORDS), max_size=9), st.integers(1, 2**20))
def test_many_crops_are_one_by_one(clips: list[tuple[int, int]], num_samples: int) -> None:
    lengths = np.array([length for length, _ in clips], np.int64)
    words = np.array([word for _, word in clips], np.uint64)
    for crop in ("random", "head"):
        found = crop_starts(lengths, num_samples, words, crop)  # type: ignore[arg-type]
        assert found.dtype == np.int64
        assert found.tolist() == [
            crop_start(length, num_samples, word, crop)  # type: ignore[arg-type]
            for length, word in clips
        ]


def test_every_beginning_is_equally_likely() -> None:
    words = mix(np.arange(7000, dtype=np.uint64), np.uint64(3))
    starts = crop_starts(np.full(7000, 10), 4, words, "random")
    counts = np.bincount(starts, minlength=7)
    assert len(counts) == 7
    assert ((counts - 1000) ** 2 / 1000).sum() < 6 + 4 * np.sqrt(12)


@pytest.mark.parametrize("pad", ["repeat", "zeros"])
@unhurried
@given(length=st.integers(1, 40), size=st.integers(1, 200))
def test_padding(pad: Pad, length: int, size: int) -> None:
    length = min(length, size)
    row = np.full(size, np.nan, np.float32)
    row[:length] = clip = np.arange(1, length + 1)
    pad_behind(row, length, pad)
    expected = np.resize(clip, size) if pad == "repeat" else np.pad(clip, (0, size - length))
    np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize("pad", ["repeat", "zeros"])
@unhurried
@given(lengths=st.lists(st.integers(0, 12), max_size=5), size=st.integers(1, 40))
def test_many_paddings_are_one_by_one(pad: Pad, lengths: list[int], size: int) -> None:
    rows = np.arange(len(lengths) * size, dtype=np.float32).reshape(-1, size)
    expected = rows.copy()
    for row, length in zip(expected, lengths, strict=True):
        if length:
            pad_behind(row, length, pad)
    pad_all(zip(rows, lengths, strict=True), pad)
    np.testing.assert_array_equal(rows, expected)
