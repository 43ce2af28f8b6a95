"""Audio files as bytes in memory: verify, decode, re-encode.

Reads WAV (PCM, float, A-law, µ-law), FLAC, Ogg Vorbis and Opus, MP3, M4A/AAC and AIFF. Functions
are pure and may run in many threads. The extra `audio` brings the decoders; plain WAV needs none.
"""

from __future__ import annotations

from datalake.audio.decoding import decode
from datalake.audio.encoding import Preset, encode_flac, transcode
from datalake.audio.info import AudioInfo, BadAudio
from datalake.audio.inspection import inspect

__all__ = [
    "AudioInfo",
    "BadAudio",
    "Preset",
    "decode",
    "encode_flac",
    "inspect",
    "transcode",
]
