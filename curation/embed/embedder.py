"""Embedders by name: annotators of the entry point group `datalake.embedders`, and their options.

An entry point names an `Annotator` that is ready, or a class (or function) that makes one and takes
some of the options of `load_embedder` by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from datalake import plugins
from datalake.errors import ConfigError, InputError
from datalake.lake import Lake
from datalake.pipelines.annotation.annotator import Annotator

__all__ = ["GROUP", "load_embedder"]

GROUP: Final = "datalake.embedders"

_GIVEN: Final = ("lake", "table")


def load_embedder(
    name: str,
    lake: Lake,
    table: str,
    *,
    model: str | None = None,
    layer: int | None = None,
    column: str | None = None,
    device: str | None = None,
) -> Annotator:
    """The embedder of that name, built-in or of an installed package.

    Args:
        name: as registered.
        lake: where the table is; for embedders that read more than the row.
        table: what is to be embedded.
        model: a folder with a model.
        layer: which of the model's layers.
        column: the column, or the camera, that is embedded.
        device: where the model runs.

    Raises:
        NotFoundError: there is none of that name (names the nearest).
        InputError: it does not take an option that is given, or needs one that is not.
        ConfigError: what is registered makes no annotator.
        MissingPackageError: it needs a package that is not installed.
        LakeError: it cannot be imported, or refuses its options.
    """
    found = plugins.load(GROUP, name)
    options = {"model": model, "layer": layer, "column": column, "device": device}
    given = {key: value for key, value in options.items() if value is not None}
    # A class has the attributes of its instances, and is none.
    if isinstance(found, type) or not isinstance(found, Annotator):
        found = _made(name, found, {"lake": lake, "table": table}, given)
    elif given:
        raise _untaken(name, sorted(given)[0], [])
    if not isinstance(found, Annotator):
        raise ConfigError(
            f"The embedder {name} cannot be used",
            where=GROUP,
            expected="an Annotator (reads, adds, settings, open), or what makes one",
            found=type(found).__name__,
        )
    return found


def _made(
    name: str, maker: Any, there: Mapping[str, object], given: Mapping[str, object]
) -> object:
    try:
        known = inspect.signature(maker).parameters
    except (TypeError, ValueError):
        return maker
    if unknown := sorted(set(given) - set(known)):
        raise _untaken(name, unknown[0], [key for key in known if key not in _GIVEN])
    arguments = {key: there[key] for key in _GIVEN if key in known} | dict(given)
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in arguments:
            raise InputError(f"The embedder {name} needs the option {key}", fix=f"Give --{key}")
    made: object = maker(**arguments)
    return made


def _untaken(name: str, option: str, known: list[str]) -> InputError:
    options = [key for key in ("model", "layer", "column", "device") if key in known]
    return InputError(
        f"The embedder {name} takes no option {option}",
        expected=", ".join(f"--{key}" for key in options) or "no option",
        found=f"--{option}",
    )
