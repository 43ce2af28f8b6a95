"""Names on the command line that stand for episode sets, and for parts of them."""

from __future__ import annotations

from datalake.episodes.episode_set import PARTS, episode_sets, set_of
from datalake.errors import InputError, NotFoundError, nearest
from datalake.lake import Lake
from datalake.tables import Table

__all__ = ["everything", "is_set", "refuse_part", "table_name", "table_of"]


def is_set(lake: Lake, name: str) -> bool:
    """Whether an episode set, and no table, has the name."""
    return name not in lake and name in episode_sets(lake)


def everything(lake: Lake) -> list[str]:
    """The names of all there is, the parts of a set under the set's."""
    sets = episode_sets(lake)
    parts = {f"{name}.{part}" for name in sets for part in PARTS}
    return [*sets, *(name for name in lake.tables() if name not in parts), *lake.selections()]


def table_name(lake: Lake, name: str) -> str:
    """The table that has the versions and rows of what is named: for a set its episodes.

    Raises:
        NotFoundError: there is nothing of that name (names the nearest).
    """
    if is_set(lake, name):
        return f"{name}.episodes"
    if name not in lake and name not in lake.selections():
        raise NotFoundError(
            f"There is no table, episode set or selection {name!r}",
            where=str(lake.location),
            fix=nearest(name, everything(lake)),
        )
    return name


def table_of(lake: Lake, name: str) -> Table:
    """That table, opened.

    Raises:
        NotFoundError: there is nothing of that name (names the nearest).
    """
    return lake.open(table_name(lake, name))


def refuse_part(lake: Lake, name: str, command: str) -> None:
    """See that a table is no part of an episode set.

    Raises:
        InputError: it is, and has to stay in step with the others.
    """
    if (whole := set_of(lake, name)) is not None:
        raise InputError(
            f"{name} is a part of the episode set {whole}, whose tables go together",
            where=str(lake.location),
            fix=f"Name the set: datalake {command} {whole}",
        )
