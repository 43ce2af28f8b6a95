"""Plug-ins by entry point: connectors, selectors and commands are found here, built-ins included.

A package adds one by declaring an entry point in a group such as `datalake.connectors`; there is no
other registry.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from datalake.errors import ConfigError, LakeError, NotFoundError, nearest

__all__ = ["load", "names"]


def names(group: str) -> list[str]:
    """The plug-ins of `group`, sorted. Imports none of them."""
    return sorted({point.name for point in entry_points(group=group)})


def load(group: str, name: str) -> object:
    """Import the plug-in `name` of `group` and return what its entry point names.

    Raises:
        NotFoundError: no installed package has it (names the nearest).
        ConfigError: two packages claim the name for different objects.
        LakeError: it is there and cannot be imported.
    """
    point = _find(group, name)
    try:
        return point.load()
    except LakeError:
        raise
    except Exception as error:
        # Importing runs a stranger's code: anything may come out of it.
        raise LakeError(
            f"The plug-in {name} cannot be loaded",
            where=f"{group}: {point.value}",
            found=f"{type(error).__name__}: {error}",
            fix="Install what it needs, or remove the package that brings it",
        ) from error


def _find(group: str, name: str) -> EntryPoint:
    found = {point.value: point for point in entry_points(group=group, name=name)}
    if not found:
        # `datalake.connectors` holds connectors.
        kind = group.rpartition(".")[2].removesuffix("s")
        raise NotFoundError(f"There is no {kind} {name!r}", fix=nearest(name, names(group)))
    if len(found) > 1:
        raise ConfigError(
            f"Several installed packages claim the plug-in {name!r}",
            where=group,
            found=" and ".join(sorted(found)),
            fix="Uninstall all but one",
        )
    return next(iter(found.values()))
