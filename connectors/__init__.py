"""Foreign corpora: a file or a folder a format, each with its provenance, layout and quirks.

A connector reads a layout and a protocol and no audio. They are found by the entry point group
`datalake.connectors`; `detect` asks all of them.
"""

from __future__ import annotations

from datalake.detection import detect

__all__ = ["detect"]
