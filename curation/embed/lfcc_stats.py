"""Mean and standard deviation over time of LFCC and their first and second differences.

Size 120: the means of 20 coefficients, of their first and of their second differences, then the
standard deviations (of the population) likewise. The front end is that of the ASVspoof baselines
(`curation.embed.lfcc`); taking its moments for a clip's embedding is ours. Says what a channel, a
codec or a vocoder does to the spectrum, and little of what is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.embed.devices import on_device
from curation.embed.vectors import embedding_field
from curation.embed.waveforms import Unembeddable, Waveform, WaveformEmbedding
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["LfccStats"]

_SIZE: Final = 120
_RATE_HZ: Final = 16_000
_AT_ONCE: Final = 4096
"""Frames that are transformed at once: 41 s, some 30 MB."""
_VERSION: Final = 1


@dataclass(frozen=True)
class LfccStats:
    """Embeds encoded audio by its LFCC; an `Annotator`.

    Memory: a decoded clip twice, its LFCC, and the spectra of 41 s.

    Args:
        column: encoded audio. Clips are mixed down and resampled to 16 kHz.
        device: `cpu`, `cuda`, or `auto`. A GPU gains little here, so `auto` asks for none.
    """

    column: str = "audio"
    device: str = "cpu"

    @property
    def reads(self) -> tuple[str, ...]:
        """The audio."""
        return (self.column,)

    @property
    def adds(self) -> pa.Schema:
        """`lfcc_stats`, of 120 numbers."""
        return pa.schema([embedding_field("lfcc_stats", _SIZE, self.settings)])

    @property
    def settings(self) -> Mapping[str, object]:
        """The front end's version."""
        return {"embedder": "lfcc_stats", "version": _VERSION, "column": self.column}

    def open(self) -> Annotate:
        """Make the front end.

        Raises:
            MissingPackageError: torch is not installed.
        """
        device = on_device(self.device)
        import torch

        from curation.embed.lfcc import Lfcc

        front_end = Lfcc().to(device).eval()
        shortest = front_end.settings.window_samples

        def embed(waveform: Waveform) -> npt.NDArray[np.float64]:
            if len(waveform) < shortest:
                raise Unembeddable(
                    f"too short: {len(waveform)} samples, and a window has {shortest}"
                )
            with torch.inference_mode():
                samples = torch.from_numpy(waveform).to(device)
                features = front_end.in_pieces(samples, _AT_ONCE).double()
                found = torch.cat([features.mean(1), features.std(1, correction=0)])
            embedding: npt.NDArray[np.float64] = found.cpu().numpy()
            return embedding

        return WaveformEmbedding(self.column, _RATE_HZ, self.adds.field(0), embed)
