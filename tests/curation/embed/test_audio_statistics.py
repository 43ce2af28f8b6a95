"""Embeddings of audio that need no model: against slow twins and what they promise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

from curation.embed.lfcc import Lfcc
from curation.embed.lfcc_stats import LfccStats
from curation.embed.logmel_stats import LogmelStats, log_mel
from datalake.audio import decode
from tests.curation.embed.rows import RATE_HZ, as_files, audio_rows, check_promises, clips, vectors

EMBEDDERS = [LfccStats(), LogmelStats()]


@pytest.mark.parametrize("embedder", EMBEDDERS, ids=lambda each: each.settings["embedder"])
def test_rows_are_embedded_one_by_one(embedder: LfccStats | LogmelStats) -> None:
    files = [*as_files(clips(0.7, 0.3, 1.1)), b"no audio", None, *as_files(clips(0.01))]
    made = check_promises(embedder, audio_rows(files))
    errors = [str(error).partition(":")[0] for error in made["error"].to_pylist()]
    assert errors == ["None"] * 3 + ["not_audio", "there is no audio", "too short"]
    assert len(np.unique(vectors(made), axis=0)) == 3


@pytest.mark.parametrize("embedder", EMBEDDERS, ids=lambda each: each.settings["embedder"])
def test_digital_silence_and_offsets_are_finite(embedder: LfccStats | LogmelStats) -> None:
    waves = [np.zeros(RATE_HZ), np.full(RATE_HZ, 0.5)]
    made = embedder.open()(audio_rows(as_files(waves)))
    assert made["error"].null_count == 2
    silent = vectors(made)[0]
    # Nothing varies in silence.
    assert np.abs(silent[len(silent) // 2 :]).max() < 1e-6


def test_lfcc_moments_are_those_of_the_front_end() -> None:
    [wave] = clips(2.0)
    [file] = as_files([wave])
    samples, _ = decode(file)
    with torch.inference_mode():
        features = Lfcc()(torch.from_numpy(samples)[None])[0].double().numpy()
    found = vectors(LfccStats().open()(audio_rows([file])))[0]
    assert found.shape == (120,)
    expected = np.concatenate([features.mean(axis=1), features.std(axis=1)])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_long_clips_go_through_the_front_end_in_pieces() -> None:
    front_end = Lfcc()
    wave = torch.from_numpy(clips(1.0)[0])
    with torch.inference_mode():
        whole = front_end(wave[None])[0]
        for size in (1, 7, 98, 99, 1000):
            torch.testing.assert_close(front_end.in_pieces(wave, size), whole, rtol=1e-5, atol=1e-4)


def test_log_mel_is_that_of_librosa() -> None:
    time = np.arange(8000) / RATE_HZ
    chirp = 0.3 * np.sin(2 * np.pi * (200 * time + 3000 * time * time))
    # librosa 0.11: melspectrogram(n_fft=512, win_length=400, hop_length=160, center=False,
    # n_mels=80, htk=True, norm=None), which centres the window within 512 points.
    found = log_mel(chirp[56:].astype(np.float64))
    golden = {(0, 0): -7.101097, (0, 10): 6.452319, (20, 30): -7.564677, (46, 79): -22.038150}
    for (frame, band), expected in golden.items():
        assert found[frame, band] == pytest.approx(expected, abs=1e-5)


def test_log_mel_moments_of_long_clips_are_those_of_all_frames() -> None:
    wave = np.concatenate(clips(15.0, 15.0))
    [file] = as_files([wave])
    frames = log_mel(decode(file)[0])
    assert len(frames) > 2048
    found = vectors(LogmelStats().open()(audio_rows([file])))[0]
    np.testing.assert_allclose(
        found, np.concatenate([frames.mean(axis=0), frames.std(axis=0)]), rtol=1e-5, atol=1e-5
    )


def test_other_rates_are_resampled_and_channels_mixed() -> None:
    [wave] = clips(1.0)
    stereo = np.stack([wave, wave], axis=1)
    files = [*as_files([wave]), *as_files([stereo])]
    made = vectors(LogmelStats().open()(audio_rows(files)))
    np.testing.assert_allclose(made[0], made[1], atol=1e-4)
    assert pa.types.is_fixed_size_list(LogmelStats().adds.field(0).type)
