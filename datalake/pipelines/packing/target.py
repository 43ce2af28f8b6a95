"""The table that a packing run fills: made by it, or filled anew, in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from datalake.episodes import episode_sets
from datalake.errors import ExistsError
from datalake.lake import Lake, Lineage
from datalake.tables import Piece, Table

__all__ = ["Target"]

_OPERATION = "pack"


class Target:
    """A table by name, whether or not it is there."""

    def __init__(self, lake: Lake, name: str) -> None:
        """Look whether the name can be had.

        Raises:
            ExistsError: something that no packing made has it.
            InputError: it is no name.
        """
        self._lake = lake
        self.name = name
        self._found: Table | None = None
        if name in episode_sets(lake):
            raise ExistsError(
                f"The name {name!r} is taken", found="an episode set", fix="Choose another name"
            )
        if name not in lake:
            lake.check_free(name)
            return
        self._found = lake[name]
        made_by = {entry.operation for entry in lake.log(name)}
        if _OPERATION not in made_by:
            raise ExistsError(
                f"The name {name!r} is taken",
                where=self._found.uri,
                found="a table that no packing made",
                fix="Choose another name",
            )

    @contextmanager
    def opened(self, schema: pa.Schema, *, format: str, lineage: Lineage) -> Iterator[Table]:  # noqa: A002
        """The table to stage for; one made here and left empty goes again.

        Raises:
            ExistsError: it is there with other columns.
        """
        if self._found is not None:
            if self._found.schema != schema:
                raise ExistsError(
                    f"The table {self.name} has other columns",
                    where=self._found.uri,
                    expected=f"those of this budget and these features: {', '.join(schema.names)}",
                    found=", ".join(self._found.schema.names),
                    fix=f"Choose another name, or remove it with: datalake rm {self.name}",
                )
            yield self._found
            return
        table = self._lake.create(self.name, schema, format=format, lineage=lineage)
        try:
            yield table
        except BaseException:
            if self._lake[self.name].version == table.version:
                self._lake.drop(self.name)
            raise

    def fill(self, table: Table, pieces: list[Piece], lineage: Lineage) -> Table:
        """Publish rows in place of those that were there.

        Raises:
            ConflictError: another writer was at the table.
        """
        return table.commit(
            pieces,
            mode="overwrite",
            expected_version=table.version,
            properties=lineage.properties(),
        )
