"""Windows: the frames around a frame, as policies are trained on them."""

from datalake.episodes.windows.streams import AudioStream, FrameStream, Stream
from datalake.episodes.windows.windows import Windows

__all__ = ["AudioStream", "FrameStream", "Stream", "Windows"]
