"""What one annotation is asked to do, and what tells it from another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from datalake.errors import ConfigError, ExistsError, InputError, LakeError, nearest
from datalake.pipelines.annotation.annotator import Annotator
from datalake.schema import is_media
from datalake.tables import Table
from datalake.tables.predicate import Node, columns_of, parse

__all__ = ["ERROR", "Asked"]

ERROR = "error"
"""The column by which an annotator says why a row has nulls; it does not enter the table."""

_CONTENT_KEY = "sha256"


@dataclass(frozen=True)
class Asked:
    """An annotator, and what its columns are called and which rows get values. Picklable."""

    annotator: Annotator
    names: tuple[str, ...]
    """The columns in the table, in the order of `annotator.adds`."""
    where: str | None
    replace: bool

    @classmethod
    def of(
        cls,
        table: Table,
        annotator: Annotator,
        *,
        columns: Mapping[str, str] | None,
        where: str | None,
        replace: bool,
    ) -> Asked:
        """What is asked of a table, seen to fit it.

        Raises:
            InputError: a new name is one of nothing that the annotator adds, or is there twice; or
                rows that `where` leaves alone hold values of another type, or of another origin
                by the field's metadata.
            SchemaError: a column that is read is not there, or `where` names one that is not.
            PredicateError: `where` does not parse.
            ExistsError: a column is there already and `replace` is false.
        """
        renames = dict(columns or {})
        own = annotator.adds.names
        if unknown := sorted(set(renames) - set(own)):
            raise InputError(
                f"The annotator adds no column {unknown[0]!r}", fix=nearest(unknown[0], own)
            )
        names = tuple(renames.get(name, name) for name in own)
        if not names or len(set(names)) < len(names) or ERROR in own:
            raise InputError(
                "Columns cannot be added under these names",
                expected=f"one name or more, each once, and none of an annotator's own {ERROR!r}",
                found=", ".join(names) or "none",
            )
        asked = cls(annotator, names, where, replace)
        # An empty read names what is missing, and what is nearest.
        table.scan([*annotator.reads, *asked.columns_of_where(table)], limit=0)
        if asked.there(table) and not replace:
            raise ExistsError(
                f"The table has a column {asked.there(table)[0]} already",
                where=table.uri,
                fix="Give the new one another name, or replace what is there",
            )
        for name in asked.kept(table):
            if (found := table.schema.field(name).type) != asked.schema.field(name).type:
                raise InputError(
                    f"Rows that are left alone hold values of another type in the column {name}",
                    where=table.uri,
                    expected=str(asked.schema.field(name).type),
                    found=str(found),
                    fix="Replace the column in all rows, or add it under another name",
                )
            wanted = asked.schema.field(name).metadata or {}
            held = table.schema.field(name).metadata or {}
            if differing := [key for key, value in wanted.items() if held.get(key) != value]:
                raise InputError(
                    f"Rows that are left alone hold values that something else made, in {name}",
                    where=table.uri,
                    expected="a column of the same model and settings",
                    found="other metadata: " + ", ".join(key.decode() for key in differing),
                    fix="Replace the column in all rows, or add it under another name",
                )
        return asked

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as the table will have them: nullable, under their names there."""
        return pa.schema(
            field.with_name(name).with_nullable(True)
            for field, name in zip(self.annotator.adds, self.names, strict=True)
        )

    def predicate(self, table: Table) -> Node | None:
        """The tree of `where`."""
        return None if self.where is None else parse(self.where, table.schema)

    def columns_of_where(self, table: Table) -> list[str]:
        """The columns that `where` reads."""
        node = self.predicate(table)
        return [] if node is None else sorted(columns_of(node))

    def there(self, table: Table) -> list[str]:
        """The columns that the table has already."""
        return [name for name in self.names if name in table.schema.names]

    def kept(self, table: Table) -> list[str]:
        """The columns whose values stay in rows for which `where` does not hold."""
        return [] if self.where is None else self.there(table)

    def deciding(self, table: Table) -> list[str]:
        """The columns that the outcome hangs on, by which rows are told to be the same.

        The SHA-256 of a file stands for the audio where a table has both.
        """
        columns = [*self.annotator.reads, *self.columns_of_where(table), *self.kept(table)]
        if _CONTENT_KEY in table.schema.names:
            columns = [
                _CONTENT_KEY if is_media(table.schema.field(name)) else name for name in columns
            ]
        return list(dict.fromkeys(columns))

    def config(self) -> dict[str, object]:
        """What is asked as JSON values, for lineage and reports."""
        return {
            "annotator": dict(self.annotator.settings),
            "columns": dict(zip(self.annotator.adds.names, self.names, strict=True)),
            "where": self.where,
            "replace": self.replace,
        }

    def digest(self, table: Table, unit_rows: int) -> str:
        """Equal where what one run has staged is what another one would, in hexadecimal."""
        facts = [
            self.config(),
            list(self.annotator.reads),
            self.schema.to_string(show_field_metadata=True),
            [table.uri, table.version, table.fingerprint(), table.count_rows(), unit_rows],
        ]
        try:
            text = json.dumps(facts, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                "The settings of an annotator cannot be recorded",
                expected="JSON values",
                found=str(error),
            ) from error
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def checked(self, made: object, num_rows: int, where: str) -> tuple[pa.Table, pa.Array | None]:
        """What an annotator gave, under the table's names, and its errors apart.

        Raises:
            LakeError: it is not what the annotator promised.
        """
        if not isinstance(made, pa.Table) or made.num_rows != num_rows:
            found = f"{made.num_rows} rows" if isinstance(made, pa.Table) else str(type(made))
            raise _broken(where, f"a table of {num_rows} rows", found)
        columns = []
        for promised in self.annotator.adds:
            found_type = (
                made[promised.name].type if made.column_names.count(promised.name) == 1 else None
            )
            if found_type != promised.type:
                expected = f"a column {promised.name} of {promised.type}"
                raise _broken(where, expected, str(found_type or made.column_names))
            columns.append(made[promised.name])
        errors = made[ERROR].combine_chunks() if ERROR in made.column_names else None
        return pa.Table.from_arrays(columns, schema=self.schema), errors


def _broken(where: str, expected: str, found: str) -> LakeError:
    return LakeError(
        "The annotator does not keep its promise", where=where, expected=expected, found=found
    )
