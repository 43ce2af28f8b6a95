"""The episode set that a table of episodes belongs to, as annotators need it: by episode id."""

from __future__ import annotations

from dataclasses import dataclass

from datalake.episodes import EpisodeSet, open_episodes, set_of
from datalake.errors import InputError
from datalake.lake import Lake

__all__ = ["SetAddress", "SetReader"]


@dataclass(frozen=True)
class SetAddress:
    """Where an episode set is. Picklable and small."""

    lake: Lake
    name: str

    @classmethod
    def of_table(cls, lake: Lake, table: str) -> SetAddress:
        """The set whose episodes a table holds.

        Raises:
            InputError: it holds no episodes.
        """
        name = set_of(lake, table)
        if name is None or table != f"{name}.episodes":
            raise InputError(
                "This takes episodes, and these rows are none",
                where=table,
                expected="a table of episodes: <set>.episodes",
                found="another table",
            )
        return cls(lake, name)

    def open(self) -> EpisodeSet:
        """The set's latest version."""
        return open_episodes(self.lake, self.name)

    def __str__(self) -> str:
        return f"{self.lake.location}: {self.name}"


class SetReader:
    """Finds episodes by id in the latest version of a set. Some 200 bytes an episode.

    Episodes that come in while it is open are found too: the set is opened again for them.
    """

    def __init__(self, address: SetAddress) -> None:
        self._address = address
        self._open()

    def _open(self) -> None:
        self.set = self._address.open()
        """The version that rows refer to."""
        ids = self.set.index.episode_ids.to_pylist()
        self._rows = {episode_id: row for row, episode_id in enumerate(ids)}

    def row_of(self, episode_id: str) -> int | None:
        """The episode's row in `set`; None where it is gone."""
        if episode_id not in self._rows:
            self.renew()
        return self._rows.get(episode_id)

    def renew(self) -> None:
        """Open the set's latest version, if it is another one."""
        if self._address.open().version != self.set.version:
            self._open()
