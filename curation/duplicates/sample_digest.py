"""A digest of what a file decodes to: files of one sound in two containers have the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from datalake.audio import BadAudio, decode
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["SAMPLES", "SampleDigest", "samples_digest"]

_COLUMN: Final = "samples_sha256"


def samples_digest(data: memoryview) -> str:
    """The sha256 of rate, channels and decoded float32 samples, in hexadecimal.

    16-bit WAV and the FLAC made of it agree. Lossy files agree where they are decoded by the same
    version of the decoder only.

    Raises:
        BadAudio: the bytes are no audio, damaged or cut.
    """
    samples, rate_hz = decode(data, mono=False)
    digest = hashlib.sha256(f"{rate_hz}/{samples.shape[0]}/".encode())
    # Adding 0 makes -0 the 0 that it equals.
    digest.update(np.ascontiguousarray(samples + np.float32(0), "<f4").data)
    return digest.hexdigest()


@dataclass(frozen=True)
class SampleDigest:
    """Adds the column `samples_sha256`; an `Annotator`.

    Args:
        audio: the column of encoded audio.
    """

    audio: str = "audio"

    @property
    def reads(self) -> tuple[str, ...]:
        """The audio."""
        return (self.audio,)

    @property
    def adds(self) -> pa.Schema:
        """The digest."""
        return pa.schema([pa.field(_COLUMN, pa.string())])

    @property
    def settings(self) -> Mapping[str, object]:
        """The version of the digest."""
        return {"samples_digest": 1, "audio": self.audio}

    def open(self) -> Annotate:
        """Nothing is loaded."""
        return self._annotate

    def _annotate(self, rows: pa.Table) -> pa.Table:
        digests: list[str | None] = []
        errors: list[str | None] = []
        for data in rows[self.audio]:
            digest, error = None, None
            try:
                if data.is_valid:
                    digest = samples_digest(memoryview(data.as_buffer()))
                else:
                    error = "there is no audio"
            except BadAudio as bad:
                error = f"{bad.refusal.reason}: {bad.refusal.detail}"
            digests.append(digest)
            errors.append(error)
        return pa.table(
            {_COLUMN: pa.array(digests, pa.string()), "error": pa.array(errors, pa.string())}
        )


SAMPLES: Final = SampleDigest()
