"""The technical conditions of a source, imposed on what generators make.

Within a source both labels have the same sample rate, coding and distribution of levels; otherwise
a detector would learn file formats instead of synthesis. Between sources conditions differ.
"""

from __future__ import annotations

import io
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt
import soundfile

from datalake.audio import decode
from datalake.audio.decoding import resample
from demo_corpus.recordings import Recording, Source

__all__ = ["Samples", "encode", "load", "transmit", "with_fixed_serial"]

Samples = npt.NDArray[np.float32]

_PEAK: Final = 0.99


def load(recording: Recording, sample_rate_hz: int) -> Samples:
    """A recording, mono, at a rate; shape (num_samples,)."""
    samples, _ = decode(recording.path.read_bytes(), sample_rate_hz=sample_rate_hz)
    return samples


def transmit(samples: Samples, rate_hz: int, source: Source, like: Recording) -> bytes:
    """Samples as a file of the source, at the level of one of its recordings."""
    if rate_hz != source.sample_rate_hz:
        samples = resample(samples, rate_hz, source.sample_rate_hz)
    samples = samples * (_rms(load(like, source.sample_rate_hz)) / max(_rms(samples), 1e-6))
    return encode(samples * min(1.0, _PEAK / max(float(np.abs(samples).max()), 1e-6)), source)


def encode(samples: Samples, source: Source) -> bytes:
    """Samples at the source's rate in the source's coding; the same bytes each time."""
    file = io.BytesIO()
    if source.suffix == ".wav":
        soundfile.write(file, samples, source.sample_rate_hz, format="WAV", subtype="PCM_16")
        return file.getvalue()
    soundfile.write(file, samples, source.sample_rate_hz, format="OGG", subtype="VORBIS")
    return with_fixed_serial(file.getvalue())


def with_fixed_serial(ogg: bytes) -> bytes:
    """An Ogg file whose stream has the serial number 0. Encoders draw it by lot."""
    out = bytearray(ogg)
    start = 0
    while start < len(out):
        num_segments = out[start + 26]
        end = start + 27 + num_segments + sum(out[start + 27 : start + 27 + num_segments])
        out[start + 14 : start + 18] = bytes(4)
        out[start + 22 : start + 26] = bytes(4)
        out[start + 22 : start + 26] = _ogg_checksum(out[start:end]).to_bytes(4, "little")
        start = end
    return bytes(out)


_MIRRORED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def _ogg_checksum(page: bytes | bytearray) -> int:
    """Ogg's CRC-32: zlib's polynomial with all bits mirrored, and without its two inversions."""
    mirrored = zlib.crc32(page.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{mirrored:032b}"[::-1], 2)


def _rms(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
