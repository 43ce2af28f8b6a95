"""Video: what a file holds, and its frames. Knows nothing of episodes or tables.

H.264, H.265, AV1 and VP9 in MP4, Matroska and the like, by PyAV: its wheels bring FFmpeg and
dav1d, it needs no torch, and it lets go of the interpreter lock. torchcodec was weighed: it wants
torch, an FFmpeg of the system, and builds of both that match.
"""

from __future__ import annotations

from datalake.video.converting import Converter
from datalake.video.encoding import CODECS, encode, transcode
from datalake.video.film import Film
from datalake.video.info import BadVideo, VideoInfo
from datalake.video.pool import DecoderPool
from datalake.video.probing import probe
from datalake.video.reading import Pictures, VideoReader
from datalake.video.remuxing import Parameters, concat, cut, parameters
from datalake.video.source import Source

__all__ = [
    "CODECS",
    "BadVideo",
    "Converter",
    "DecoderPool",
    "Film",
    "Parameters",
    "Pictures",
    "Source",
    "VideoInfo",
    "VideoReader",
    "concat",
    "cut",
    "encode",
    "parameters",
    "probe",
    "transcode",
]
