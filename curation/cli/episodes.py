"""Sets of episodes by their own name, where a command takes a table."""

from __future__ import annotations

from datalake.episodes import episode_sets
from datalake.lake import Lake

__all__ = ["table_of"]


def table_of(lake: Lake, name: str) -> str:
    """The table of that name; for a set of episodes that of its episodes."""
    if name not in lake and name in episode_sets(lake):
        return f"{name}.episodes"
    return name
