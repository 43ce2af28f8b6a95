"""Who speaks: the GE2E speaker encoder of the package `resemblyzer`, whose wheel has the weights.

Wan et al., "Generalized End-to-End Loss for Speaker Verification" (ICASSP 2018), in Resemblyzer's
training. Size 256, of length 1, no number below 0. As the package does it: the volume is raised to
-30 dBFS where it is lower, long silences are cut out by WebRTC's detector, and the vectors of spans
of 1.6 s are averaged. Clips of one speaker have cosines around .9, of others around .7.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.embed.devices import on_device
from curation.embed.vectors import embedding_field
from curation.embed.waveforms import Unembeddable, Waveform, WaveformEmbedding
from datalake.errors import MissingPackageError
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["Speaker"]

_SIZE: Final = 256
_RATE_HZ: Final = 16_000


@dataclass(frozen=True)
class Speaker:
    """Embeds encoded audio by its speaker; an `Annotator`. Some 10 ms a second of audio.

    Args:
        column: encoded audio. Clips are mixed down and resampled to 16 kHz.
        device: `auto` is CUDA where there is one.

    Raises:
        MissingPackageError: resemblyzer, or what it needs, is not installed.
    """

    column: str = "audio"
    device: str = "auto"

    def __post_init__(self) -> None:
        _package()

    @property
    def num_gpus(self) -> float:
        """The share of a GPU that a worker asks for: the model is small."""
        return 0.0 if self.device == "cpu" else 0.25

    @property
    def reads(self) -> tuple[str, ...]:
        """The audio."""
        return (self.column,)

    @property
    def adds(self) -> pa.Schema:
        """`speaker`, of 256 numbers."""
        return pa.schema([embedding_field("speaker", _SIZE, self.settings)])

    @property
    def settings(self) -> Mapping[str, object]:
        """The package, and a digest of the weights that it has."""
        return {
            "embedder": "speaker",
            "model": f"resemblyzer {version('resemblyzer')}",
            "model_digest": hashlib.sha256(_weights().read_bytes()).hexdigest(),
            "column": self.column,
        }

    def open(self) -> Annotate:
        """Load the model.

        Raises:
            MissingPackageError: resemblyzer, or what it needs, is not installed.
        """
        package = _package()
        encoder = package.VoiceEncoder(on_device(self.device), verbose=False)
        encoder.eval()

        def embed(waveform: Waveform) -> npt.NDArray[np.float32]:
            if not waveform.any():
                raise Unembeddable("no speech: digital silence")
            # Resampling may overshoot full scale, which would wrap round in the package.
            spoken = package.preprocess_wav(np.clip(waveform, -1, 1))
            if not len(spoken):
                raise Unembeddable("no speech: all of it was taken for silence")
            embedding: npt.NDArray[np.float32] = encoder.embed_utterance(spoken)
            return embedding

        return WaveformEmbedding(self.column, _RATE_HZ, self.adds.field(0), embed)


def _package() -> Any:
    try:
        return import_module("resemblyzer")
    except ImportError as error:
        raise MissingPackageError(
            "Speaker embeddings need the packages resemblyzer, webrtcvad, librosa and torch",
            found=str(error),
            fix="Install them with: pip install --no-deps resemblyzer; "
            "pip install webrtcvad-wheels librosa torch",
        ) from error


def _weights() -> Path:
    return Path(_package().__file__).parent / "pretrained.pt"
