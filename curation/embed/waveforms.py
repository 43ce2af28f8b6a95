"""Embedding audio: rows are decoded one by one, and what cannot be decoded has a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.embed.vectors import Vectors
from datalake.audio import BadAudio, decode

__all__ = ["Unembeddable", "Waveform", "WaveformEmbedding"]

Waveform: TypeAlias = npt.NDArray[np.float32]
"""Mono samples, (num_samples,), full scale at 1."""


class Unembeddable(Exception):  # noqa: N818 - a row's fate, not an error of the run
    """A row has no embedding; the message is the reason, and what follows a colon its detail."""


@dataclass(frozen=True)
class WaveformEmbedding:
    """Embeds the rows of a column of encoded audio; an `Annotate`.

    Args:
        audio: the column.
        sample_rate_hz: what clips are resampled to.
        field: of the embedding.
        embed: from a waveform to its vector, (size,); may raise `Unembeddable`.
    """

    audio: str
    sample_rate_hz: int
    field: pa.Field
    embed: Callable[[Waveform], npt.NDArray[np.floating]]

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The embeddings, and why rows have none."""
        vectors = Vectors(self.field)
        for data in rows[self.audio]:
            if not data.is_valid:
                vectors.fail("there is no audio")
                continue
            try:
                samples, _ = decode(
                    memoryview(data.as_buffer()), sample_rate_hz=self.sample_rate_hz
                )
                vectors.add(self.embed(samples))
            except BadAudio as bad:
                vectors.fail(f"{bad.refusal.reason}: {bad.refusal.detail}")
            except Unembeddable as reason:
                vectors.fail(str(reason))
        return vectors.table()
