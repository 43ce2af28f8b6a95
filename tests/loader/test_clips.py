"""Crop and pad: every beginning that fits, by seed and row; the rest filled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.loader.clips import crop, crop_words, fill

RAMP = np.arange(10, dtype=np.float32)


@given(st.integers(1, 15), st.integers(0, 2**64 - 1))
def test_a_crop_is_a_run_of_the_clip(num_samples: int, word: int) -> None:
    found = crop(RAMP, num_samples, np.uint64(word))
    assert len(found) == min(num_samples, 10)
    assert np.array_equal(found, RAMP[int(found[0]) : int(found[0]) + len(found)])


def test_every_beginning_is_equally_likely() -> None:
    words = crop_words(np.arange(7000), seed=3, epoch=1)
    starts = [int(crop(RAMP, 4, word)[0]) for word in words]
    counts = np.bincount(starts, minlength=7)
    assert len(counts) == 7
    assert ((counts - 1000) ** 2 / 1000).sum() < 6 + 4 * np.sqrt(12)


def test_the_head() -> None:
    assert crop(RAMP, 4, None).tolist() == [0, 1, 2, 3]


def test_words_follow_from_seed_epoch_and_row_alone() -> None:
    words = crop_words(np.arange(100), seed=0, epoch=0)
    assert np.array_equal(crop_words(np.array([42, 7]), seed=0, epoch=0), words[[42, 7]])
    for seed, epoch in [(0, 1), (1, 0)]:
        assert not np.intersect1d(words, crop_words(np.arange(100), seed=seed, epoch=epoch)).size


@pytest.mark.parametrize(
    ("pad", "expected"),
    [("repeat", [1, 2, 3, 1, 2, 3, 1, 2]), ("zeros", [1, 2, 3, 0, 0, 0, 0, 0])],
)
def test_padding(pad: str, expected: list[int]) -> None:
    out = np.full(8, np.nan, np.float32)
    fill(out, np.array([1, 2, 3], np.float32), pad)  # type: ignore[arg-type]
    assert out.tolist() == expected


@pytest.mark.parametrize("pad", ["repeat", "zeros"])
def test_a_clip_that_fits_is_left_alone(pad: str) -> None:
    out = np.full(10, np.nan, np.float32)
    fill(out, RAMP, pad)  # type: ignore[arg-type]
    assert np.array_equal(out, RAMP)
