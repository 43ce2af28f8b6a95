"""Augmentation by name and epoch: the same in any order and any number of threads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from curation.probe import CODECS, Augmenter
from curation.probe.codec_pass import check_codecs, codec_library, through_codec
from datalake.errors import InputError

WAVES = (0.2 * np.random.default_rng(0).standard_normal((6, 4000))).astype(np.float32)
NAMES = [f"utt-{number}" for number in range(6)]
BOTH = Augmenter(3, 16_000, rawboost=5, codecs=("mp3", "ulaw", "gsm"), share=0.7)


def test_a_wave_follows_from_seed_name_and_epoch() -> None:
    every = BOTH.apply(WAVES, NAMES, [0, 1, 2, 3, 4, 5])
    turned = BOTH.apply(WAVES[::-1], NAMES[::-1], [5, 4, 3, 2, 1, 0])[::-1]
    alone = BOTH.apply(WAVES[2:3], NAMES[2:3], [2])
    np.testing.assert_array_equal(every, turned)
    np.testing.assert_array_equal(every[2], alone[0])
    assert (BOTH.apply(WAVES, NAMES, [1] * 6) != BOTH.apply(WAVES, NAMES, [2] * 6)).any()
    assert (replace(BOTH, seed=4).apply(WAVES, NAMES, [0] * 6) != every).any()


@pytest.mark.parametrize("num_threads", [2, 5])
def test_threads_change_nothing(num_threads: int) -> None:
    one, many = Counter[str](), Counter[str]()
    expected = BOTH.apply(WAVES, NAMES, [0] * 6, one)
    found = replace(BOTH, num_threads=num_threads).apply(WAVES, NAMES, [0] * 6, many)
    np.testing.assert_array_equal(found, expected)
    assert one == many


def test_numpys_global_state_is_neither_read_nor_moved() -> None:
    np.random.seed(0)
    one, state = BOTH.apply(WAVES, NAMES, [0] * 6), np.random.get_state()[1].copy()
    np.random.seed(1)
    np.testing.assert_array_equal(one, BOTH.apply(WAVES, NAMES, [0] * 6))
    np.random.seed(0)
    assert (np.random.get_state()[1] == state).all()


def test_what_was_done_is_counted() -> None:
    record = Counter[str]()
    waves, names = np.zeros((300, 100), np.float32), [str(number) for number in range(300)]
    Augmenter(0, 8000, rawboost=2, codecs=("ulaw", "alaw"), share=0.5).apply(
        waves, names, [0] * 300, record
    )
    assert record["rawboost 2"] == pytest.approx(150, abs=40)
    codecs = sum(count for name, count in record.items() if name.startswith(("ulaw", "alaw")))
    assert codecs == pytest.approx(150, abs=40)
    assert record["none"] == pytest.approx(75, abs=30)


def test_a_share_of_nothing_is_idle() -> None:
    assert Augmenter(0, 16_000).is_idle
    assert replace(BOTH, share=0.0).is_idle
    assert not BOTH.is_idle


@pytest.mark.parametrize("name", CODECS)
def test_codecs_keep_length_and_place(name: str) -> None:
    time = np.arange(16_000) / 16_000
    # A tone that comes and goes, so that a delay would show.
    envelope = np.exp(-((time - 0.5) ** 2) / 0.01)
    wave = (0.5 * envelope * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
    heard = through_codec(wave, 16_000, name)
    assert heard.shape == wave.shape
    assert heard.dtype == np.float32
    np.testing.assert_array_equal(heard, through_codec(wave, 16_000, name))
    assert (heard != wave).any()
    assert np.corrcoef(heard, wave)[0, 1] > 0.95


def test_telephony_has_no_treble() -> None:
    heard = through_codec(WAVES[0], 16_000, "ulaw")
    power = np.abs(np.fft.rfft(heard)) ** 2
    assert power[1050:].sum() < 0.01 * power.sum()  # above 4.2 kHz


def test_fewer_bits_do_more() -> None:
    time = np.arange(16_000) / 16_000
    wave = (0.2 * np.sin(2 * np.pi * 300 * time) + 0.1 * np.sin(2 * np.pi * 5000 * time)).astype(
        np.float32
    )
    best, worst = (through_codec(wave, 16_000, "vorbis", level) for level in (0.0, 1.0))
    assert np.abs(best - wave).mean() < np.abs(worst - wave).mean()


def test_a_codec_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="opus"):
        check_codecs(("opu",))
    assert codec_library()
