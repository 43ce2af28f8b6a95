"""Decoders behind one face: libsndfile first, FFmpeg's libraries for what it cannot read.

Samples arrive in blocks, so that a header which lies about its length costs no memory. Both
libraries let go of the interpreter lock while they decode, and nothing here is shared between
calls: all functions may run in many threads.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.audio.flac import FlacHeader, explain_failure, parse_flac
from datalake.audio.info import BadAudio
from datalake.errors import MissingPackageError
from datalake.quarantine import Reason

__all__ = ["Stream", "open_flac", "open_libav", "open_sndfile", "read_flac"]

Dtype: TypeAlias = Literal["float32", "int16", "int32"]

_BLOCK_SAMPLES: Final = 1 << 16

_SUBTYPES: Final = {
    "PCM_S8": "pcm_s8",
    "PCM_U8": "pcm_u8",
    "PCM_16": "pcm_s16be",
    "PCM_24": "pcm_s24be",
    "PCM_32": "pcm_s32be",
    "FLOAT": "pcm_f32be",
    "DOUBLE": "pcm_f64be",
    "ULAW": "mulaw",
    "MPEG_LAYER_III": "mp3",
    "MPEG_LAYER_II": "mp2",
    "MPEG_LAYER_I": "mp1",
}


class _Memory(io.BytesIO):
    """Bytes as a file. A damaged header makes libsndfile seek before the start: that stays put."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except ValueError:
            return self.tell()


@dataclass(frozen=True)
class Stream:
    """Audio being decoded. `blocks` can be read once; each is (num_samples, num_channels)."""

    sample_rate_hz: int
    num_channels: int
    codec: str
    blocks: Iterator[npt.NDArray[Any]]


def open_sndfile(data: bytes, dtype: Dtype = "float32") -> Stream:
    """Decode with libsndfile: WAV, Ogg Vorbis and Opus, MP3, AIFF.

    Reading `blocks` raises BadAudio (`truncated`) if decoding ends before what the header counts.

    Raises:
        BadAudio: `corrupt`.
        MissingPackageError: soundfile is not installed.
    """
    soundfile = _soundfile()
    try:
        file = soundfile.SoundFile(_Memory(data))
    except soundfile.SoundFileError as error:
        raise BadAudio.of(Reason.CORRUPT, str(error)) from error

    def blocks() -> Iterator[npt.NDArray[Any]]:
        num_read = 0
        with file:
            while num_read < file.frames:
                try:
                    block = file.read(_BLOCK_SAMPLES, dtype=dtype, always_2d=True)
                except soundfile.SoundFileError as error:
                    raise BadAudio.of(Reason.CORRUPT, str(error)) from error
                if not len(block):
                    raise BadAudio.of(
                        Reason.TRUNCATED,
                        f"{file.frames} samples are promised, decoding ends after {num_read}",
                    )
                num_read += len(block)
                yield block

    codec = _SUBTYPES.get(file.subtype, file.subtype.lower())
    return Stream(file.samplerate, file.channels, codec, blocks())


def open_flac(data: bytes, dtype: Dtype = "float32") -> Stream:
    """Decode FLAC with libsndfile, and tell a cut file from a damaged one.

    Reading `blocks` raises BadAudio (`truncated` or `corrupt`).

    Raises:
        BadAudio: as above, or `bad_header`.
        MissingPackageError: soundfile is not installed.
    """
    header = parse_flac(data)
    if header.num_samples == 0:
        # libsndfile needs the number; an encoder that writes to a pipe leaves it out.
        return open_libav(data)
    try:
        stream = open_sndfile(data[header.start :], dtype)
    except BadAudio as error:
        raise explain_failure(data, header, error.refusal.detail) from error

    def blocks() -> Iterator[npt.NDArray[Any]]:
        try:
            yield from stream.blocks
        except BadAudio as error:
            raise explain_failure(data, header, error.refusal.detail) from error

    return replace(stream, codec="flac", blocks=blocks())


def read_flac(data: bytes, header: FlacHeader, start: int, stop: int) -> npt.NDArray[np.float32]:
    """Samples from `start` to `stop` of a FLAC file, (stop - start, num_channels).

    Args:
        data: the file.
        header: what it states.
        start: a sample of the file.
        stop: behind `start`, at most the number of samples that the header states.

    Raises:
        BadAudio: as `open_flac`.
        MissingPackageError: soundfile is not installed.
    """
    soundfile = _soundfile()
    try:
        with soundfile.SoundFile(_Memory(data[header.start :])) as file:
            skipped = start
            # The search for a frame costs about as much as decoding one.
            if start > header.block_samples:
                skipped -= file.seek(start)
            samples: npt.NDArray[np.float32] = file.read(
                stop - start + skipped, dtype="float32", always_2d=True
            )
    except soundfile.SoundFileError as error:
        raise explain_failure(data, header, str(error)) from error
    if len(samples) < stop - start + skipped:
        raise explain_failure(data, header, f"decoding ends before sample {stop}")
    return samples[skipped:]


def open_libav(data: bytes) -> Stream:
    """Decode with FFmpeg's libraries: M4A, AAC and whatever libsndfile cannot read.

    Raises:
        BadAudio: `corrupt`, or `not_audio` if there is no audio track.
        MissingPackageError: av is not installed.
    """
    try:
        import av
    except ImportError as error:
        raise MissingPackageError.of("av", "audio", "Decoding M4A and AAC") from error
    try:
        container = av.open(io.BytesIO(data), mode="r")
    except (av.FFmpegError, ValueError) as error:
        raise BadAudio.of(Reason.CORRUPT, str(error)) from error
    if not container.streams.audio:
        container.close()
        raise BadAudio.of(Reason.NOT_AUDIO, "a container without an audio track")
    track = container.streams.audio[0]
    context: Any = track.codec_context
    if context is None:
        container.close()
        raise BadAudio.of(Reason.CORRUPT, "audio of an unknown codec")

    def blocks() -> Iterator[npt.NDArray[np.float32]]:
        with container:
            try:
                for frame in container.decode(track):
                    yield _float_samples(frame)
            except (av.FFmpegError, ValueError) as error:
                raise BadAudio.of(Reason.CORRUPT, str(error)) from error

    codec = context.name
    # FFmpeg has two decoders for these and names them after the implementation.
    codec = {"mp3float": "mp3", "libopus": "opus", "libvorbis": "vorbis"}.get(codec, codec)
    return Stream(track.rate or 0, context.channels, codec, blocks())


def _soundfile() -> Any:
    try:
        import soundfile
    except ImportError as error:
        raise MissingPackageError.of("soundfile", "audio", "Decoding audio") from error
    return soundfile


def _float_samples(frame: Any) -> npt.NDArray[np.float32]:
    """The samples of an FFmpeg frame, (num_samples, num_channels), full scale at 1."""
    raw: npt.NDArray[Any] = frame.to_ndarray()
    raw = raw.T if frame.format.is_planar else raw.reshape(frame.samples, -1)
    samples = raw.astype(np.float32, copy=False)
    if raw.dtype == np.uint8:
        return (samples - np.float32(128)) / np.float32(128)
    if raw.dtype.kind == "i":
        return samples * np.float32(2.0 ** (1 - 8 * raw.dtype.itemsize))
    return samples
