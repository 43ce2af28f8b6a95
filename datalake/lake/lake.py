"""A lake: a folder or prefix that holds named tables and selections."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import pyarrow as pa

from datalake import tables
from datalake.errors import ExistsError, InputError, NotFoundError, nearest
from datalake.lake import listing, storage
from datalake.lake import selection as stored
from datalake.lake.lineage import Lineage, LogEntry
from datalake.lake.listing import Entry
from datalake.lake.names import check_name
from datalake.lake.selection import SELECTION_ROWS, Selection
from datalake.tables import Table
from datalake.uri import Location, StorageOptions, locate

__all__ = ["Lake", "open_lake"]

_TABLES: Final = "tables"
_SELECTIONS: Final = "selections"
_LEDGERS: Final = "ledgers"
_CALLED: Final = {_TABLES: "table", _SELECTIONS: "selection"}


def open_lake(
    uri: str | os.PathLike[str] | Location,
    *,
    options: StorageOptions | None = None,
    create: bool = True,
) -> Lake:
    """Open the lake at a path or a uri.

    Opening writes nothing: a missing or empty folder becomes a lake at the first write.

    Args:
        uri: a local path, or `s3://`, `gs://`, `az://` or `memory://`.
        options: how to reach the store; what is not given comes from the environment.
        create: whether a missing or empty folder will do.

    Raises:
        NotFoundError: there is no lake and `create` is false.
        InputError: the path is a file, a folder with other things in it, or a later format.
        StoreError: the store refused or did not answer.
    """
    location = locate(uri, options)
    if storage.marked(location):
        return Lake(location)
    if not create:
        raise NotFoundError(
            "There is no lake here",
            where=str(location),
            fix="Name the lake by --lake or DATALAKE_URI, or make one by ingesting into it",
        )
    present = storage.children(location)
    # Hidden files (.DS_Store, .snapshot, …) make no folder somebody's.
    if taken := [name for name in present if not name.startswith(".")]:
        raise InputError(
            "The folder is no lake and not empty",
            where=str(location),
            expected="a lake, or a missing or empty folder to make one",
            found=", ".join(taken[:5]) + (", …" if len(taken) > 5 else ""),
            fix="Name a folder of its own for the lake",
        )
    return Lake(location)


class Lake:
    """Named tables and selections at one location. Picklable; holds no connection and no cache.

    A name is a table or a selection, never both.
    """

    def __init__(self, location: Location) -> None:
        self.location = location

    def __repr__(self) -> str:
        return f"Lake({self.location.uri!r})"

    # Tables -------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """The names of the tables, sorted. Opens none of them."""
        return self._names(_TABLES)

    def contents(self) -> dict[str, list[Entry]]:
        """The tables and the selections, under these two names. Opens none of them."""
        return {kind: listing.entries(self.location.join(kind)) for kind in _CALLED}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(_TABLES, name) is not None

    def __getitem__(self, name: str) -> Table:
        """The latest version of a table.

        Raises:
            NotFoundError: there is no such table (names the nearest).
        """
        return _open(self._require(name, _TABLES))

    def create(
        self,
        name: str,
        schema: pa.Schema,
        *,
        format: str = "lance",  # noqa: A002
        lineage: Lineage,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Create an empty table.

        Args:
            name: its name.
            schema: its columns.
            format: `lance` or `delta`.
            lineage: what makes it.
            properties: recorded with its first version beside the lineage.

        Raises:
            ExistsError: a table or selection has the name.
            InputError: the name or the format is none.
        """
        self.check_free(name)
        location = self.location_of(name, format)
        storage.mark(self.location)
        return tables.create_table(
            location,
            schema,
            format=self._format(format),
            properties={**lineage.properties(), **(properties or {})},
        )

    def check_free(self, name: str) -> None:
        """See that a new table may have this name.

        Raises:
            ExistsError: a table or selection has it.
            InputError: the name is none.
        """
        check_name(name, "table")
        self._refuse_taken(name, _TABLES, _SELECTIONS)

    def drop(self, name: str) -> None:
        """Remove a table and its ledger, all versions. Selections from it can no longer be loaded.

        Raises:
            NotFoundError: there is no such table.
        """
        location = self._require(name, _TABLES)
        # The ledger goes first: without a table it would make the next ingest skip rows.
        if ledger := self._find(_LEDGERS, name):
            tables.drop_table(ledger)
        tables.drop_table(location)

    def location_of(self, name: str, format: str) -> Location:  # noqa: A002
        """Where a table of that name and format lies, or would."""
        return self._place(_TABLES, name, self._format(format))

    def internal(self, kind: str, name: str, schema: pa.Schema) -> Table:
        """A table the lake keeps for itself at `<lake>/<kind>/<name>`, made if it is not there."""
        return self._ensure(kind, name, schema, properties={})

    # Selections ---------------------------------------------------------------------------------

    def selections(self) -> list[str]:
        """The names of the selections, sorted. Opens none of them."""
        return self._names(_SELECTIONS)

    def save_selection(self, selection: Selection, lineage: Lineage) -> int:
        """Save a selection under its name and return the version this made.

        Rows, method, parameters and manifest become one version, all or nothing. The version that
        was selected from gets the tag `selection.<name>.<version>`, which keeps clean-up from
        removing it.

        Raises:
            NotFoundError: the table or the version selected from is not there.
            ExistsError: a table has the name.
            SchemaError: the rows are not `SELECTION_ROWS`.
            ConflictError: another writer saved under this name at the same moment.
        """
        check_name(selection.name, "selection")
        properties = {**lineage.properties(), **stored.to_properties(selection)}
        self._refuse_taken(selection.name, _TABLES)
        source = self[selection.table].at(selection.table_version)
        # The tag comes first: a crash may leave a version kept for nothing, never a selection
        # whose rows can be cleaned away.
        source.tag(stored.pin(selection.name, selection.table_version))
        created = Lineage("create", run_id=lineage.run_id).properties()
        table = self._ensure(_SELECTIONS, selection.name, SELECTION_ROWS, properties=created)
        return table.overwrite(selection.rows, properties=properties).version

    def selection(self, name: str, version: int | None = None) -> Selection:
        """Load a selection, the latest or a version of it.

        Raises:
            NotFoundError: there is no such selection or version, or what it was selected from is
                gone (says what differs).
            StoreError: the rows are not the ones that were saved.
        """
        table = self.selection_table(name).at(version)
        info = next(info for info in table.versions() if info.version == table.version)
        loaded = stored.from_stored(name, info.properties, table.scan().read_all())
        self._check_pinned(loaded)
        return loaded

    def selection_table(self, name: str) -> Table:
        """The table that holds a selection's rows, at its latest version.

        Raises:
            NotFoundError: there is no such selection (names the nearest).
        """
        return _open(self._require(name, _SELECTIONS))

    def selections_of(self, table: str) -> list[str]:
        """The names of the selections that some version of was made from `table`."""
        return [name for name in self.selections() if table in self._sources(name)]

    def drop_selection(self, name: str) -> None:
        """Remove a selection, all versions, and let go of the table versions it kept.

        Raises:
            NotFoundError: there is no such selection.
        """
        location = self._require(name, _SELECTIONS)
        sources = self._sources(name)
        tables.drop_table(location)
        for source, versions in sources.items():
            for version in versions:
                # The table may be gone, or be another one of that name.
                with suppress(NotFoundError):
                    self[source].untag(stored.pin(name, version))

    # Lineage ------------------------------------------------------------------------------------

    def log(self, name: str) -> list[LogEntry]:
        """What made each version of a table or selection, oldest first.

        Raises:
            NotFoundError: there is neither a table nor a selection of that name.
        """
        return [LogEntry.of(info) for info in self.open(name).versions()]

    def open(self, name: str) -> Table:
        """The table of that name, or the table that holds the selection of that name.

        Raises:
            NotFoundError: there is neither (names the nearest).
        """
        return _open(self._require(name, _TABLES, _SELECTIONS))

    # Where things lie ---------------------------------------------------------------------------

    def _place(self, kind: str, name: str, suffix: str) -> Location:
        return self.location.join(kind, f"{name}.{suffix}")

    def _find(self, kind: str, name: str) -> Location | None:
        return listing.find(self.location.join(kind), name)

    def _names(self, kind: str) -> list[str]:
        return listing.names(self.location.join(kind))

    def _format(self, asked: str) -> str:
        """The format of a new table: a lake in memory keeps all of its tables there."""
        if self.location.scheme == "memory":
            return "memory"
        if asked in listing.STORED_FORMATS:
            return asked
        raise InputError(
            f"A lake cannot keep a table as {asked!r}",
            where=str(self.location),
            expected=" or ".join(listing.STORED_FORMATS),
        )

    def _ensure(
        self, kind: str, name: str, schema: pa.Schema, *, properties: Mapping[str, str]
    ) -> Table:
        if found := self._find(kind, name):
            return _open(found)
        storage.mark(self.location)
        kept_as = self._format("lance")
        location = self._place(kind, name, kept_as)
        try:
            return tables.create_table(location, schema, format=kept_as, properties=properties)
        except ExistsError:
            # Another process was first.
            return _open(location)

    def _sources(self, selection: str) -> dict[str, set[int]]:
        """The versions a selection's versions were made from, by the table's name."""
        sources: dict[str, set[int]] = {}
        for info in self.selection_table(selection).versions():
            if stored.TABLE in info.properties:
                versions = sources.setdefault(info.properties[stored.TABLE], set())
                versions.add(int(info.properties[stored.TABLE_VERSION]))
        return sources

    def _require(self, name: str, *kinds: str) -> Location:
        """Where the table or selection of that name lies.

        Raises:
            NotFoundError: none of `kinds` has it (names the nearest, or says what it is instead).
        """
        for kind in kinds:
            if found := self._find(kind, name):
                return found
        called = " or ".join(_CALLED[kind] for kind in kinds)
        others = [kind for kind in _CALLED if kind not in kinds and self._find(kind, name)]
        if others:
            hint = f"There is a {_CALLED[others[0]]} of that name"
        else:
            hint = nearest(name, [known for kind in kinds for known in self._names(kind)])
        raise NotFoundError(f"There is no {called} {name!r}", where=str(self.location), fix=hint)

    def _refuse_taken(self, name: str, *kinds: str) -> None:
        for kind in kinds:
            if found := self._find(kind, name):
                raise ExistsError(
                    f"The name {name!r} is taken",
                    where=str(found),
                    found=f"a {_CALLED[kind]} of that name",
                    fix="Choose another name, or remove it with: datalake rm " + name,
                )

    def _check_pinned(self, selection: Selection) -> None:
        """Raise unless the version that a selection was made from is there and is the same one."""
        wanted = selection.table_version
        problem = ""
        if selection.table not in self:
            problem = "the table is gone"
        else:
            source = self[selection.table]
            versions = {info.version: info for info in source.versions()}
            if wanted not in versions:
                problem = f"the table has versions {_ranges(versions)}"
            elif stored.pin(selection.name, wanted) not in versions[wanted].tags:
                # A table that was dropped and made again counts its versions anew.
                problem = (
                    f"version {wanted} lacks the tag {stored.pin(selection.name, wanted)}, "
                    "so it may be of a table that was made anew"
                )
        if problem:
            raise NotFoundError(
                f"What the selection {selection.name!r} was made from is gone",
                where=str(self.location),
                expected=f"version {wanted} of table {selection.table}",
                found=problem,
                fix="Select again, or bring the table back",
            )


def _open(place: Location) -> Table:
    return tables.open_table(place, format=listing.format_of(place))


def _ranges(versions: Iterable[int]) -> str:
    known = sorted(versions)
    return f"{known[0]} to {known[-1]}" if known else "none"
