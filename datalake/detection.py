"""Which format a corpus has: every installed connector is asked for its evidence."""

from __future__ import annotations

import os
import warnings
from typing import Final

from datalake import plugins
from datalake.connector import Connector, Evidence
from datalake.errors import ConfigError, InputError, LakeError, NotFoundError
from datalake.tables.failures import translated
from datalake.uri import Location, locate

__all__ = ["CONNECTORS", "connector", "detect", "recognise"]

CONNECTORS = "datalake.connectors"
"""The entry point group of connectors."""


_MARGIN: Final = 0.05
"""Two connectors whose confidences are closer than this are both as likely."""


def connector(name: str) -> Connector:
    """The connector that is installed under `name`.

    Raises:
        NotFoundError: there is none (names the nearest).
        ConfigError: what is installed under that name is no connector.
    """
    loaded = plugins.load(CONNECTORS, name)
    if not isinstance(loaded, Connector):
        raise ConfigError(
            f"The plug-in {name} is no connector",
            where=CONNECTORS,
            expected="an object with name, options, detect and open",
            found=type(loaded).__name__,
        )
    return loaded


def detect(location: str | os.PathLike[str] | Location) -> list[Evidence]:
    """The evidence of all connectors that recognise `location`, the most confident first.

    A connector that cannot be loaded is left out with a warning: one broken plug-in does not stop
    the others.

    Raises:
        NotFoundError: nothing is there.
        StoreError: the store refused or did not answer.
    """
    root = locate(location)
    with translated(root, "Looking at the corpus"):
        filesystem, path = root.filesystem()
        is_there = filesystem.exists(path)
    if not is_there:
        raise NotFoundError(
            "There is no corpus to look at",
            where=str(root),
            expected="a folder or a file",
            fix="Check the spelling",
        )
    found = [evidence for name in plugins.names(CONNECTORS) if (evidence := _ask(name, root))]
    return sorted(found, key=lambda evidence: (-evidence.confidence, evidence.connector))


def _ask(name: str, root: Location) -> Evidence | None:
    try:
        candidate = connector(name)
    except LakeError as error:
        warnings.warn(f"Detection goes on without {name}. {error}", stacklevel=3)
        return None
    return candidate.detect(root)


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
