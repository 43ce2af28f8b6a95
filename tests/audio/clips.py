"""Small real audio files of every kind, made in memory."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import av
import numpy as np
import numpy.typing as npt
import soundfile

RATE_HZ = 16_000
NUM_SAMPLES = 8_000


@cache
def samples(num_channels: int = 1, num_samples: int = NUM_SAMPLES) -> npt.NDArray[np.float32]:
    """Noise over a tone, (num_samples, num_channels), within -0.5 and 0.5."""
    rng = np.random.default_rng(7)
    time = np.arange(num_samples)[:, None] / RATE_HZ
    tone = np.sin(2 * np.pi * 220 * time * np.arange(1, num_channels + 1))
    noise = rng.uniform(-1, 1, (num_samples, num_channels))
    return (0.3 * tone + 0.1 * noise).astype(np.float32)


def by_soundfile(file_format: str, subtype: str, num_channels: int = 1) -> bytes:
    target = io.BytesIO()
    soundfile.write(target, samples(num_channels), RATE_HZ, format=file_format, subtype=subtype)
    return target.getvalue()


def by_libav(container: str, codec: str, num_channels: int = 1) -> bytes:
    target = io.BytesIO()
    layout = {1: "mono", 2: "stereo"}[num_channels]
    with av.open(target, "w", format=container) as output:
        track = output.add_stream(codec, rate=RATE_HZ, layout=layout)
        planes = np.ascontiguousarray(samples(num_channels).T)
        frame = av.AudioFrame.from_ndarray(planes, format="fltp", layout=layout)
        frame.sample_rate = RATE_HZ
        output.mux(track.encode(frame))
        output.mux(track.encode(None))
    return target.getvalue()


@dataclass(frozen=True)
class Clip:
    """How to make a file, and what must be found in it."""

    suffix: str
    codec: str
    make: Callable[[int], bytes]
    """Takes the number of channels."""
    exact: bool = True
    """Whether the file keeps the number of samples."""

    @cache  # noqa: B019 - clips live as long as the module
    def data(self, num_channels: int = 1) -> bytes:
        return self.make(num_channels)


def _soundfile(suffix: str, codec: str, file_format: str, subtype: str, exact: bool = True) -> Clip:
    return Clip(suffix, codec, lambda n: by_soundfile(file_format, subtype, n), exact)


def _libav(suffix: str, codec: str, container: str, encoder: str, exact: bool = True) -> Clip:
    return Clip(suffix, codec, lambda n: by_libav(container, encoder, n), exact)


CLIPS = {
    "wav_u8": _soundfile(".wav", "pcm_u8", "WAV", "PCM_U8"),
    "wav_s16": _soundfile(".wav", "pcm_s16le", "WAV", "PCM_16"),
    "wav_s24": _soundfile(".wav", "pcm_s24le", "WAV", "PCM_24"),
    "wav_s32": _soundfile(".wav", "pcm_s32le", "WAV", "PCM_32"),
    "wav_f32": _soundfile(".wav", "pcm_f32le", "WAV", "FLOAT"),
    "wav_f64": _soundfile(".wav", "pcm_f64le", "WAV", "DOUBLE"),
    "wav_alaw": _soundfile(".wav", "alaw", "WAV", "ALAW"),
    "wav_mulaw": _soundfile(".wav", "mulaw", "WAV", "ULAW"),
    "wav_adpcm": _soundfile(".wav", "ima_adpcm", "WAV", "IMA_ADPCM", exact=False),
    "wavex_s24": _soundfile(".wav", "pcm_s24le", "WAVEX", "PCM_24"),
    "wavex_f32": _soundfile(".WAV", "pcm_f32le", "WAVEX", "FLOAT"),
    "rf64": _soundfile(".wav", "pcm_s16le", "RF64", "PCM_16"),
    "w64": _soundfile(".w64", "pcm_s16le", "W64", "PCM_16"),
    "aiff": _soundfile(".aiff", "pcm_s16be", "AIFF", "PCM_16"),
    "flac_s8": _soundfile(".flac", "flac", "FLAC", "PCM_S8"),
    "flac_s16": _soundfile(".flac", "flac", "FLAC", "PCM_16"),
    "flac_s24": _soundfile(".flac", "flac", "FLAC", "PCM_24"),
    "flac_libav": _libav(".flac", "flac", "flac", "flac"),
    "vorbis": _soundfile(".ogg", "vorbis", "OGG", "VORBIS"),
    "opus": _soundfile(".opus", "opus", "OGG", "OPUS"),
    "opus_libav": _libav(".ogg", "opus", "ogg", "libopus", exact=False),
    "mp3": _soundfile(".mp3", "mp3", "MP3", "MPEG_LAYER_III"),
    "mp3_libav": _libav(".mp3", "mp3", "mp3", "libmp3lame"),
    "m4a": _libav(".m4a", "aac", "ipod", "aac", exact=False),
    "mp4": _libav(".mp4", "aac", "mp4", "aac", exact=False),
    "alac": _libav(".m4a", "alac", "ipod", "alac"),
    "aac": _libav(".aac", "aac", "adts", "aac", exact=False),
}
"""Every kind of file that is read, by a short name."""
