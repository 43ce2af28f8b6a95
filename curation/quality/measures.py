"""Measures by name: annotators of the entry point group `datalake.measures`."""

from __future__ import annotations

from typing import Final

from datalake import plugins
from datalake.errors import ConfigError
from datalake.pipelines.annotation.annotator import Annotator

__all__ = ["GROUP", "load_measure"]

GROUP: Final = "datalake.measures"


def load_measure(name: str) -> Annotator:
    """The annotator of that name, built-in or of an installed package.

    Raises:
        NotFoundError: there is none (names the nearest).
        ConfigError: what is registered is no annotator.
        LakeError: it cannot be imported.
    """
    found = plugins.load(GROUP, name)
    if not isinstance(found, Annotator):
        raise ConfigError(
            f"The measure {name} cannot be used",
            where=GROUP,
            expected="an Annotator: reads, adds, settings, open",
            found=type(found).__name__,
        )
    return found
