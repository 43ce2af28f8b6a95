"""Audio files as bytes in memory: verify, decode (all of it or a span), re-encode.

Reads WAV (PCM, float, A-law, µ-law), FLAC, Ogg Vorbis and Opus, MP3, M4A/AAC and AIFF. Functions
are pure and may run in many threads. The extra `audio` brings the decoders; plain WAV needs none.
"""

from __future__ import annotations

from datalake.audio.buffers import Buffer
from datalake.audio.clip import Clip, decode_span, open_clip
from datalake.audio.decoding import decode
from datalake.audio.encoding import Preset, encode_flac, transcode
from datalake.audio.info import AudioInfo, BadAudio
from datalake.audio.inspection import inspect

__all__ = [
    "AudioInfo",
    "BadAudio",
    "Buffer",
    "Clip",
    "Preset",
    "decode",
    "decode_span",
    "encode_flac",
    "inspect",
    "open_clip",
    "transcode",
]
