"""One encoded clip, of which any span can be had."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from datalake.audio.buffers import Buffer, Samples, opened
from datalake.audio.decoding import decode
from datalake.audio.flac import FlacHeader, parse_flac
from datalake.audio.pcm import is_pcm, mixed_down, pcm_span
from datalake.audio.riff import WaveHeader, parse_wave
from datalake.audio.streams import read_flac
from datalake.errors import InputError

__all__ = ["Clip", "DecodedClip", "decode_span", "open_clip"]


class Clip(ABC):
    """Mono samples at one rate. `num_samples` is what `decode` would give.

    What `write` gives is what `decode` gives there, bit for bit; damage elsewhere may stay unseen.
    """

    num_samples: int
    sample_rate_hz: int

    @abstractmethod
    def write(self, out: Samples, start: int) -> None:
        """Fill `out`, (size,), with the samples from `start` on; they must lie within the clip.

        Raises:
            BadAudio: they cannot be decoded.
        """


def open_clip(data: Buffer, sample_rate_hz: int | None = None) -> Clip:
    """Look into an audio file and decode no more than has to be.

    PCM in WAV is read in place, and FLAC from where the span begins, if the rate is their own. All
    else is decoded whole: no other container can be entered in the middle without a trace, and a
    resampler needs all of a clip.

    Args:
        data: all bytes of a file of any supported kind.
        sample_rate_hz: resample to this rate; None: the file's own.

    Raises:
        BadAudio: as `decode`.
        InputError: `sample_rate_hz` is not positive.
        MissingPackageError: the extra `audio` is needed and not installed.
    """
    whole, kind = opened(data)
    if kind == "wav":
        header = parse_wave(whole)
        own = sample_rate_hz in (None, header.sample_rate_hz)
        if own and is_pcm(header) and header.num_samples:
            return _Wave(whole, header)
    elif kind == "flac":
        flac = parse_flac(bytes(whole))
        if flac.num_samples and sample_rate_hz in (None, flac.sample_rate_hz):
            return _Flac(bytes(whole), flac)
    return DecodedClip(*decode(whole, sample_rate_hz=sample_rate_hz))


def decode_span(
    data: Buffer, from_s: float, to_s: float, sample_rate_hz: int | None = None
) -> Samples:
    """The samples of one clip between two times; zeros before its beginning and after its end.

    Sample k stands at k / rate seconds. The span begins at the sample nearest to `from_s` and
    holds as many as the time between takes, so that spans which follow each other neither overlap
    nor leave a gap.

    Args:
        data: all bytes of a file of any supported kind.
        from_s: seconds from the clip's beginning; may be negative.
        to_s: seconds; not before `from_s`.
        sample_rate_hz: resample to this rate; None: the file's own.

    Returns:
        float32, (round(to_s * rate) - round(from_s * rate),), mono, full scale at 1: what `decode`
        gives there, bit for bit.

    Raises:
        BadAudio: the bytes are no audio, or damaged; damage outside of the span may stay unseen.
        InputError: the times are not finite or in the wrong order, or the rate is not positive.
        MissingPackageError: the extra `audio` is needed and not installed.
    """
    if not (np.isfinite(from_s) and np.isfinite(to_s) and from_s <= to_s):
        raise InputError(
            "A span of audio is impossible",
            expected="two times in seconds, the earlier one first",
            found=f"{from_s} to {to_s}",
        )
    clip = open_clip(data, sample_rate_hz)
    first, last = (_nearest(time_s, clip.sample_rate_hz) for time_s in (from_s, to_s))
    out = np.zeros(last - first, np.float32)
    start, stop = max(first, 0), min(last, clip.num_samples)
    if start < stop:
        clip.write(out[start - first : stop - first], start)
    return out


class _Wave(Clip):
    def __init__(self, data: bytes | memoryview, header: WaveHeader) -> None:
        self._data, self._header = data, header
        self.num_samples, self.sample_rate_hz = header.num_samples, header.sample_rate_hz

    def write(self, out: Samples, start: int) -> None:
        out[:] = mixed_down(pcm_span(self._data, self._header, start, start + len(out)))


class _Flac(Clip):
    def __init__(self, data: bytes, header: FlacHeader) -> None:
        self._data, self._header = data, header
        self.num_samples, self.sample_rate_hz = header.num_samples, header.sample_rate_hz

    def write(self, out: Samples, start: int) -> None:
        out[:] = mixed_down(read_flac(self._data, self._header, start, start + len(out)))


class DecodedClip(Clip):
    """A clip that is decoded already."""

    def __init__(self, samples: Samples, sample_rate_hz: int) -> None:
        self._samples = samples
        self.num_samples, self.sample_rate_hz = len(samples), sample_rate_hz

    def span(self, start: int, length: int) -> Samples:
        """The samples from `start` on, (length,), where they lie."""
        return self._samples[start : start + length]

    def write(self, out: Samples, start: int) -> None:
        """Fill `out` with the samples from `start` on."""
        out[:] = self.span(start, len(out))


def _nearest(time_s: float, rate_hz: int) -> int:
    # Halves go up, whatever the parity, so that spans of equal length hold equally many samples.
    return int(np.floor(time_s * rate_hz + 0.5))
