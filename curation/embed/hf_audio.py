"""Any Hugging Face model of waveforms by local path: wav2vec 2.0, HuBERT, WavLM, XLS-R, data2vec.

Baevski et al., "wav2vec 2.0" (2020), and the models that share its shape: a stack of convolutions
over the waveform and a transformer. The embedding is the mean over time of one layer's output; its
size is the model's `hidden_size`.

Clips longer than `window_s` go through the model in windows that follow each other, since attention
takes memory as the square of time; the mean is over the frames of all windows. Each window is
normalised by itself where the checkpoint asks for it. Clips are never padded to the length of
others: models with group normalisation (wav2vec 2.0 base, HuBERT base) have no exact mask for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.embed.checkpoints import Checkpoint
from curation.embed.devices import on_device
from curation.embed.vectors import embedding_field
from curation.embed.waveforms import Unembeddable, Waveform, WaveformEmbedding
from datalake.errors import InputError
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["HfAudio"]

_VERSION: Final = 1


@dataclass(frozen=True)
class HfAudio:
    """Embeds encoded audio by a Hugging Face model; an `Annotator`.

    Args:
        model: the folder that has it.
        layer: which layer's output: 0 is what goes into the first transformer layer, n what comes
            out of the n-th, negative numbers count from the last. None: the model's output.
        column: encoded audio. Clips are mixed down and resampled to the model's rate.
        window_s: seconds that go through the model at once.
        device: `auto` is CUDA where there is one.

    Raises:
        NotFoundError: there is no model at the path.
        InputError: it is no model of waveforms, it has no such layer, or a window is too short.
        MissingPackageError: transformers or torch is not installed.
    """

    model: str
    layer: int | None = None
    column: str = "audio"
    window_s: float = 30.0
    device: str = "auto"
    checkpoint: Checkpoint = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checkpoint = Checkpoint.at(self.model)
        object.__setattr__(self, "checkpoint", checkpoint)
        config = checkpoint.config
        if not {"conv_kernel", "conv_stride", "hidden_size", "num_hidden_layers"} <= config.keys():
            raise InputError(
                "This is no model of waveforms",
                where=self.model,
                expected="a model such as WavLM, XLS-R, wav2vec 2.0 or HuBERT",
                found=f"one of the type {config.get('model_type')}",
            )
        check_layer(self.layer, int(config["num_hidden_layers"]), self.model)
        if self.window_s < 1:
            raise InputError(
                "A window is too short", expected="1 s or more", found=str(self.window_s)
            )

    num_gpus = 1.0
    """GPUs that a worker asks for, where a cluster has some."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The audio."""
        return (self.column,)

    @property
    def adds(self) -> pa.Schema:
        """`hf_audio`, of the model's hidden size."""
        size = int(self.checkpoint.config["hidden_size"])
        return pa.schema([embedding_field("hf_audio", size, self.settings)])

    @property
    def settings(self) -> Mapping[str, object]:
        """The model's kind and digest, and how it is used."""
        return {
            "embedder": "hf_audio",
            "version": _VERSION,
            "model": self.checkpoint.config.get("model_type"),
            "model_digest": self.checkpoint.digest,
            "layer": self.layer,
            "column": self.column,
            "window_s": self.window_s,
        }

    def open(self) -> Annotate:
        """Load the model.

        Raises:
            LakeError: it cannot be loaded.
        """
        network, extractor = self.checkpoint.load("AutoFeatureExtractor")
        rate_hz = int(extractor.sampling_rate)
        embedding = _Embedding(
            network.to(on_device(self.device)),
            extractor,
            self.layer,
            round(self.window_s * rate_hz),
            shortest_input(self.checkpoint.config),
        )
        return WaveformEmbedding(self.column, rate_hz, self.adds.field(0), embedding)


class _Embedding:
    def __init__(
        self, network: Any, extractor: Any, layer: int | None, window: int, shortest: int
    ) -> None:
        self._network, self._extractor, self._layer = network, extractor, layer
        self._window, self._shortest = window, shortest

    def __call__(self, waveform: Waveform) -> npt.NDArray[np.float64]:
        if len(waveform) < self._shortest:
            raise Unembeddable(
                f"too short: {len(waveform)} samples, and the model takes {self._shortest} or more"
            )
        import torch

        total: Any = 0.0
        num_frames = 0
        with torch.inference_mode():
            for start in range(0, len(waveform), self._window):
                part = waveform[start : start + self._window]
                if len(part) < self._shortest:
                    break  # The rest of the last window, of some milliseconds.
                states = self._states(part)
                # Summed in float64, so that a long clip's mean loses nothing.
                total = total + states.double().sum(0)
                num_frames += states.shape[0]
        embedding: npt.NDArray[np.float64] = (total / num_frames).cpu().numpy()
        return embedding

    def _states(self, samples: Waveform) -> Any:
        """The layer's output for one window: (num_frames, hidden_size)."""
        # One clip has no padding, so it needs no mask.
        values = self._extractor(
            samples,
            sampling_rate=self._extractor.sampling_rate,
            return_tensors="pt",
            return_attention_mask=False,
        )["input_values"]
        found = self._network(
            values.to(self._network.device), output_hidden_states=self._layer is not None
        )
        states = (
            found.last_hidden_state if self._layer is None else found.hidden_states[self._layer]
        )
        return states[0]


def shortest_input(config: Mapping[str, Any]) -> int:
    """The samples that make one frame of a stack of convolutions."""
    samples = 1
    for kernel, stride in zip(
        reversed(config["conv_kernel"]), reversed(config["conv_stride"]), strict=True
    ):
        samples = (samples - 1) * stride + kernel
    return samples


def check_layer(layer: int | None, num_layers: int, where: str) -> None:
    """See that a model has a layer.

    Raises:
        InputError: it has not.
    """
    if layer is not None and not -num_layers - 1 <= layer <= num_layers:
        raise InputError(
            "The model has no such layer",
            where=where,
            expected=f"0 (what goes into the first) to {num_layers}, or negative from the last",
            found=str(layer),
        )
