"""Hugging Face models of waveforms, on tiny ones made here with random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers import (
    HubertConfig,
    HubertModel,
    Wav2Vec2Config,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2Model,
    WavLMConfig,
    WavLMModel,
)

from curation.embed.hf_audio import HfAudio, shortest_input
from datalake.audio import decode
from datalake.errors import InputError, LakeError, NotFoundError
from tests.curation.embed.rows import as_files, audio_rows, check_promises, clips, vectors

MODELS = {
    "wavlm": (WavLMConfig, WavLMModel),
    "wav2vec2": (Wav2Vec2Config, Wav2Vec2Model),
    "hubert": (HubertConfig, HubertModel),
}
TINY = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16,
    "conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}  # fmt: skip


def write_model(folder: Path, kind: str = "wavlm", seed: int = 0, **changes: object) -> Path:
    transformers.utils.logging.disable_progress_bar()
    config, model = MODELS[kind]
    torch.manual_seed(seed)
    model(config(**TINY, **changes)).save_pretrained(folder)
    Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", MODELS)
def test_each_row_is_the_mean_of_a_layer(kind: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / kind, kind)
    files = [*as_files(clips(0.5, 0.9, 0.2)), b"no audio", *as_files(clips(0.002))]
    embedder = HfAudio(str(path), layer=1)
    made = check_promises(embedder, audio_rows(files))
    assert [str(error).partition(":")[0] for error in made["error"].to_pylist()[3:]] == [
        "not_audio", "too short",
    ]  # fmt: skip
    # The same by the model alone, one clip at a time.
    network = MODELS[kind][1].from_pretrained(path).eval()
    for found, file in zip(vectors(made), files, strict=False):
        samples = decode(file)[0].astype(np.float64)
        normal = (samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)
        with torch.no_grad():
            states = network(
                torch.from_numpy(normal.astype(np.float32))[None], output_hidden_states=True
            ).hidden_states
        np.testing.assert_allclose(found, states[1][0].mean(0), atol=1e-5)


def test_layers_are_counted_from_either_end(tmp_path: Path) -> None:
    path = str(write_model(tmp_path / "m"))
    rows = audio_rows(as_files(clips(0.4)))
    by_layer = {layer: vectors(HfAudio(path, layer).open()(rows)) for layer in (None, 0, 1, 2, -1)}
    np.testing.assert_array_equal(by_layer[2], by_layer[-1])
    np.testing.assert_allclose(by_layer[None], by_layer[2], atol=1e-6)
    assert np.abs(by_layer[0] - by_layer[1]).max() > 1e-3
    with pytest.raises(InputError, match="no such layer"):
        HfAudio(path, 3)


def test_a_long_clip_is_the_mean_over_the_frames_of_its_windows(tmp_path: Path) -> None:
    path = str(write_model(tmp_path / "m"))
    [wave] = clips(2.5)
    parts = [wave[:16_000], wave[16_000:32_000], wave[32_000:]]
    long = vectors(HfAudio(path, window_s=1.0).open()(audio_rows(as_files([wave]))))[0]
    alone = vectors(HfAudio(path).open()(audio_rows(as_files(parts))))
    sizes = [1 + (len(part) - 45) // 20 for part in parts]
    np.testing.assert_allclose(long, np.average(alone, axis=0, weights=sizes), atol=1e-5)


def test_the_shortest_clip_makes_one_frame(tmp_path: Path) -> None:
    embedder = HfAudio(str(write_model(tmp_path / "m", do_stable_layer_norm=True)))
    shortest = shortest_input(embedder.checkpoint.config)
    assert shortest == (8 - 1) * 5 + 10
    wave = clips(0.1)[0]
    made = embedder.open()(audio_rows(as_files([wave[:shortest], wave[: shortest - 1]])))
    assert made["hf_audio"].is_valid().to_pylist() == [True, False]


def test_the_digest_is_of_the_weights(tmp_path: Path) -> None:
    one, same = write_model(tmp_path / "a"), write_model(tmp_path / "b")
    other = write_model(tmp_path / "c", seed=1)
    digests = [HfAudio(str(path)).settings["model_digest"] for path in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]
    embedder = HfAudio(str(one))
    write_model(one, seed=2)
    with pytest.raises(LakeError, match="another one than when the work began"):
        embedder.open()


def test_what_is_no_model_of_waveforms_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="There is no model here"):
        HfAudio(str(tmp_path / "nothing"))
    transformers.BertConfig().save_pretrained(tmp_path / "bert")
    with pytest.raises(InputError, match="no model of waveforms"):
        HfAudio(str(tmp_path / "bert"))
    path = write_model(tmp_path / "m")
    (path / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(LakeError, match="cannot be loaded"):
        HfAudio(str(path)).open()


def test_missing_weights_are_never_random_ones(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = write_model(tmp_path / "m")
    weights = load_file(path / "model.safetensors")
    name = next(name for name in weights if "k_proj" in name)
    save_file(
        {key: value for key, value in weights.items() if key != name},
        path / "model.safetensors",
        metadata={"format": "pt"},
    )
    with pytest.raises(LakeError, match="lacks weights"):
        HfAudio(str(path)).open()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same(tmp_path: Path) -> None:
    path = str(write_model(tmp_path / "m"))
    rows = audio_rows(as_files(clips(0.5, 1.5)))
    here, there = (vectors(HfAudio(path, device=d).open()(rows)) for d in ("cpu", "cuda"))
    np.testing.assert_allclose(here, there, atol=1e-4)
