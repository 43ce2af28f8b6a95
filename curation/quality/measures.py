"""Measures by name: annotators of the entry point group `datalake.measures`.

An entry point names an `Annotator` that is ready, or a class (or function) that makes one and takes
some of the options of `load_measure` by name.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from datalake import plugins
from datalake.errors import ConfigError, InputError
from datalake.lake import Lake
from datalake.pipelines.annotation.annotator import Annotator

__all__ = ["GROUP", "load_measure"]

GROUP: Final = "datalake.measures"


def load_measure(
    name: str, lake: Lake | None = None, table: str | None = None, *, column: str | None = None
) -> Annotator:
    """The annotator of that name, built-in or of an installed package.

    Args:
        name: as registered.
        lake: where the table is; for measures that read more than the row.
        table: what is to be measured.
        column: the column, or the camera, that is measured.

    Raises:
        NotFoundError: there is none (names the nearest).
        InputError: it takes no column and one is given, or needs a table and none is.
        ConfigError: what is registered is no annotator.
        LakeError: it cannot be imported, or refuses the table.
    """
    found = plugins.load(GROUP, name)
    # A class has the attributes of its instances, and is none.
    if isinstance(found, type) or not isinstance(found, Annotator):
        found = _made(name, found, {"lake": lake, "table": table, "column": column})
    elif column is not None:
        raise _no_column(name, column)
    if not isinstance(found, Annotator):
        raise ConfigError(
            f"The measure {name} cannot be used",
            where=GROUP,
            expected="an Annotator (reads, adds, settings, open), or what makes one",
            found=type(found).__name__,
        )
    return found


def _made(name: str, maker: Any, options: dict[str, object]) -> object:
    try:
        known = inspect.signature(maker).parameters
    except (TypeError, ValueError):
        return maker
    given = {key: value for key, value in options.items() if value is not None}
    if "column" in given and "column" not in known:
        raise _no_column(name, given["column"])
    arguments = {key: value for key, value in given.items() if key in known}
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in arguments:
            raise InputError(f"The measure {name} needs {key}", expected="a lake and a table in it")
    made: object = maker(**arguments)
    return made


def _no_column(name: str, column: object) -> InputError:
    return InputError(f"The measure {name} takes no column", expected="none", found=str(column))
