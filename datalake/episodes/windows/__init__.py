"""Windows: the frames around a frame, as policies are trained on them."""

from datalake.episodes.windows.windows import Windows

__all__ = ["Windows"]
