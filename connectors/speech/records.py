"""Reads files of records (CSV, TSV, JSON Lines, Parquet) one at a time, with line numbers."""

from __future__ import annotations

import csv
import io
import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias

from connectors.tree import Tree
from datalake.errors import InputError, SchemaError
from datalake.uri import Location

__all__ = ["Record", "RecordFile", "is_record_file"]

Record: TypeAlias = Mapping[str, str | None] | str
"""A row by column, or what is wrong with it."""

_SUFFIXES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
_DELIMITERS: Final = ",;|\t"
# JSON Lines have no header: the columns are those of the first so many rows.
_HEAD_ROWS: Final = 1000


class _LineReader(Protocol):
    """The face of `csv.reader`, whose class has no public name."""

    @property
    def line_num(self) -> int: ...

    def __next__(self) -> list[str]: ...


def is_record_file(name: str) -> bool:
    """Whether the name ends like a file that `RecordFile` reads."""
    return name.lower().endswith(_SUFFIXES)


@dataclass(frozen=True)
class RecordFile:
    """A file with a header and records, read as a stream at each call."""

    location: Location
    quoted: bool = True
    """Whether quotes in delimited text enclose a field, or are text like any other."""

    @property
    def name(self) -> str:
        """The file's name."""
        return self.location.name

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order.

        Raises:
            SchemaError: there is no header, or two columns share a name.
            InputError: the file cannot be read as what its suffix says.
            NotFoundError: it is not there.
        """
        names = self._columns()
        if not any(names):
            raise SchemaError("The file of records is empty", where=str(self.location))
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaError(
                "Two columns share a name",
                where=str(self.location),
                found=", ".join(twice),
            )
        return names

    def records(self) -> Iterator[tuple[int, Record]]:
        """Line numbers from 1 (row numbers in Parquet) and records, in order."""
        if self._suffix == ".parquet":
            return self._parquet()
        return self._json_lines() if self._suffix in (".jsonl", ".ndjson") else self._delimited()

    def first_values(self, column: str) -> list[str | None]:
        """The values of a column in the first 20 rows that can be read."""
        records = (record for _, record in self.records() if not isinstance(record, str))
        return [record[column] for record in islice(records, 20)]

    @property
    def _suffix(self) -> str:
        return posixpath.splitext(self.name)[1].lower()

    @property
    def _tree(self) -> Tree:
        return Tree(Location(posixpath.dirname(self.location.uri), self.location.options))

    def _columns(self) -> tuple[str, ...]:
        if self._suffix == ".parquet":
            with self._tree.open(self.name) as handle:
                return tuple(_parquet_file(handle, self.location).schema_arrow.names)
        if self._suffix in (".jsonl", ".ndjson"):
            names: dict[str, None] = {}
            for _, record in islice(self._json_objects(), _HEAD_ROWS):
                if not isinstance(record, str):
                    names.update(dict.fromkeys(record))
            return tuple(names)
        with self._tree.open_text(self.name) as text:
            try:
                header = next(self._fields(text))
            except StopIteration:
                return ()
            return tuple(name.strip() for name in header)

    def _fields(self, text: io.TextIOWrapper) -> _LineReader:
        """Read from the start of `text`, at the delimiter that its header has most of."""
        header = text.readline()
        text.seek(0)
        delimiter = "\t" if self._suffix == ".tsv" else max(_DELIMITERS, key=header.count)
        return csv.reader(
            text,
            delimiter=delimiter,
            quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE,
        )

    def _delimited(self) -> Iterator[tuple[int, Record]]:
        names = self.columns
        with self._tree.open_text(self.name) as text:
            rows = self._fields(text)
            next(rows)
            while True:
                number = rows.line_num + 1
                try:
                    values = next(rows)
                except StopIteration:
                    return
                except csv.Error as error:
                    yield number, str(error)
                    continue
                if not values:
                    continue
                if len(values) != len(names):
                    yield number, f"{len(values)} fields under a header of {len(names)}"
                elif any("\N{REPLACEMENT CHARACTER}" in value for value in values):
                    yield number, "bytes that are not UTF-8"
                else:
                    yield number, dict(zip(names, values, strict=True))

    def _json_lines(self) -> Iterator[tuple[int, Record]]:
        names = self.columns
        for number, record in self._json_objects():
            if isinstance(record, str):
                yield number, record
            else:
                yield number, {name: _text(record.get(name)) for name in names}

    def _json_objects(self) -> Iterator[tuple[int, dict[str, Any] | str]]:
        with self._tree.open_text(self.name) as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield number, f"no JSON: {error}"
                    continue
                if isinstance(record, dict):
                    yield number, record
                else:
                    yield number, f"JSON that is no object but {type(record).__name__}"

    def _parquet(self) -> Iterator[tuple[int, Record]]:
        number = 0
        with self._tree.open(self.name) as handle:
            for batch in _parquet_file(handle, self.location).iter_batches(4096):
                for record in batch.to_pylist():
                    number += 1
                    yield number, {name: _text(value) for name, value in record.items()}


def _parquet_file(handle: Any, location: Location) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(handle)
    except (pa.ArrowException, OSError) as error:
        raise InputError("The file is no Parquet", where=str(location), found=str(error)) from error


def _text(value: Any) -> str | None:
    """A value as text: as it is, or as JSON if it is no string."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
