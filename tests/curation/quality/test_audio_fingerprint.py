"""The fingerprint of one recording under other names, and of other recordings."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import soundfile
import soxr

from curation.audit.recordings import bits_apart
from curation.quality.audio_fingerprint import FINGERPRINT, fingerprint_of, words_of
from datalake.pipelines.annotation.annotator import Annotator

RATE_HZ = 22_050


def babble(seed: int, seconds: float = 3.0, rate_hz: int = RATE_HZ) -> np.ndarray:
    """Noise whose bands come and go, as those of speech do."""
    rng = np.random.default_rng(seed)
    size = round(seconds * rate_hz)
    bins = np.fft.rfft(rng.normal(0, 1, size))
    wave = np.zeros(size)
    edges = np.geomspace(100, 8000, 13)
    frequencies = np.fft.rfftfreq(size, 1 / rate_hz)
    knots = np.linspace(0, size, round(seconds * 8))
    for low, high in pairwise(edges):
        band = np.fft.irfft(np.where((frequencies >= low) & (frequencies < high), bins, 0), size)
        wave += band * np.interp(np.arange(size), knots, rng.uniform(0, 1, knots.size) ** 3)
    return (0.3 * wave / np.abs(wave).max()).astype("float32")


def mp3(wave: np.ndarray) -> np.ndarray:
    buffer = io.BytesIO()
    how = {"bitrate_mode": "CONSTANT", "compression_level": 0.7}
    soundfile.write(buffer, wave, RATE_HZ, format="MP3", subtype="MPEG_LAYER_III", **how)
    return soundfile.read(io.BytesIO(buffer.getvalue()), dtype="float32")[0]


@pytest.mark.parametrize(
    ("change", "rate_hz", "most"),
    [
        (lambda wave: wave, RATE_HZ, 0.0),
        (lambda wave: 0.05 * wave, RATE_HZ, 0.01),
        (lambda wave: soxr.resample(wave, RATE_HZ, 8000), 8000, 0.02),
        (lambda wave: soxr.resample(wave, RATE_HZ, 48_000), 48_000, 0.02),
        (mp3, RATE_HZ, 0.12),
        (lambda wave: np.round(wave * 127) / 127, RATE_HZ, 0.15),
    ],
    ids=["same", "softer", "8 kHz", "48 kHz", "mp3", "8 bit"],
)
def test_a_copy_is_near(change, rate_hz: int, most: float) -> None:
    for seed in range(3):
        wave = babble(seed)
        whole = fingerprint_of(wave, RATE_HZ)
        copy = fingerprint_of(change(wave).astype("float32"), rate_hz)
        assert abs(len(whole) - len(copy)) <= 8
        assert min(bits_apart(whole, copy, offset) for offset in range(-8, 9)) <= most


def test_others_are_far_and_a_cut_shifts() -> None:
    prints = [fingerprint_of(babble(seed), RATE_HZ) for seed in range(6)]
    apart = [
        bits_apart(prints[i], prints[j], offset)
        for i in range(6)
        for j in range(i)
        for offset in range(-20, 21)
    ]
    assert min(apart) > 0.38
    cut = fingerprint_of(babble(0)[round(0.8 * RATE_HZ) :], RATE_HZ)
    # .8 s are 50 words.
    assert bits_apart(prints[0], cut, 50) < 0.1


def test_words_by_the_definition() -> None:
    """A slow twin: band by band, frame by frame."""
    rate_hz = 8000
    wave = babble(1, 0.6, rate_hz)
    size, hop = 512, 128
    padded = np.pad(wave, size // 2).astype(np.float64)
    edges = np.geomspace(300, 2000, 34)
    num_frames = (padded.size - size) // hop + 1
    energies = np.zeros((num_frames, 33))
    for frame in range(num_frames):
        bins = np.fft.rfft(padded[frame * hop : frame * hop + size] * np.hanning(size))
        for number, value in enumerate(np.abs(bins) ** 2):
            low, high = (number - 0.5) * rate_hz / size, (number + 0.5) * rate_hz / size
            for band in range(33):
                shared = min(high, edges[band + 1]) - max(low, edges[band])
                energies[frame, band] += max(shared, 0) * value
    shape = np.hanning(18)[1:-1]
    words = []
    previous = None
    for frame in range(num_frames):
        mean = sum(
            shape[k] * energies[frame - 8 + k] for k in range(16) if 0 <= frame - 8 + k < num_frames
        )
        steps = mean[1:] - mean[:-1]
        if previous is not None:
            words.append(sum(1 << m for m in range(32) if steps[m] > previous[m]))
        previous = steps
    found = fingerprint_of(wave, rate_hz)
    assert len(found) == len(words)
    bits = np.bitwise_count(found ^ np.array(words, np.uint32)).sum()
    assert bits <= 0.001 * 32 * len(words)  # float32 against float64


@pytest.mark.parametrize("num_samples", [1, 100, 1000])
def test_the_shortest_clips_have_few_words(num_samples: int) -> None:
    assert len(fingerprint_of(babble(0)[:num_samples], RATE_HZ)) <= num_samples / RATE_HZ * 63 + 1


def test_annotates_rows() -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, babble(0), RATE_HZ, format="FLAC")
    low = io.BytesIO()
    soundfile.write(low, babble(0)[:3000], 2000, format="WAV")
    files = [buffer.getvalue(), b"none", None, low.getvalue()]
    assert isinstance(FINGERPRINT, Annotator)
    made = FINGERPRINT.open()(pa.table({"audio": pa.array(files, pa.large_binary())}))
    assert made.drop_columns(["error"]).schema == FINGERPRINT.adds
    assert 185 <= len(words_of(made["fingerprint"][0])) <= 188
    assert made["fingerprint"].null_count == 3
    assert len(words_of(made["fingerprint"][1])) == 0
    assert [str(error)[:9] for error in made["error"]] == [
        "None", "not_audio", "there is ", "a rate of",
    ]  # fmt: skip
