"""Which connector reads a corpus, when nobody says."""

from __future__ import annotations

import os
from typing import Final

from datalake import plugins
from datalake.connector import Evidence
from datalake.detection import CONNECTORS, detect
from datalake.errors import InputError
from datalake.uri import Location

__all__ = ["recognise"]

_MARGIN: Final = 0.05
"""Two connectors whose confidences are closer than this are both as likely."""


def recognise(path: str | os.PathLike[str] | Location) -> Evidence:
    """The evidence of the one connector that recognises the corpus at `path` best.

    Raises:
        InputError: no connector does, or several do equally well (lists them).
        NotFoundError: nothing is there.
    """
    found = detect(path)
    if not found:
        raise InputError(
            "The format of the corpus is not recognised",
            where=str(path),
            expected=f"one of {', '.join(plugins.names(CONNECTORS))}",
            fix="Name the format with --connector",
        )
    best = found[0]
    rivals = [other for other in found if best.confidence - other.confidence < _MARGIN]
    if len(rivals) > 1:
        raise InputError(
            "The corpus could be of several formats",
            where=str(path),
            found="; ".join(f"{rival.connector} ({', '.join(rival.found)})" for rival in rivals),
            fix="Name the format with --connector",
        )
    return best
