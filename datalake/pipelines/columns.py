"""The columns of a table that an ingest fills, and how they meet a corpus's own columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from datalake.errors import SchemaError
from datalake.schema import UTTERANCES
from datalake.tables import Table

__all__ = ["PROVENANCE", "TEXT_COLUMNS", "Columns", "widen"]

PROVENANCE: Final = pa.schema(
    [
        # `<corpus>/<bucket>of<buckets>`: the part of the ingest that wrote the row.
        pa.field("part_id", pa.string()),
        # Relative to the corpus's root.
        pa.field("path", pa.string()),
        # What the stored bytes were made of: `<size>|<the store's stamp>|<transcode or original>`.
        pa.field("stamp", pa.string()),
    ]
)
"""The columns an ingest adds to `UTTERANCES`: where a row came from and whether it is still so."""

TEXT_COLUMNS: Final = ("source", "generator", "label", "speaker_id", "language", "split")
"""The canonical columns that a protocol states as text; `domain` follows from them."""

_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True)
class Columns:
    """How the protocol columns of one corpus are named in the table."""

    extra: tuple[tuple[str, str], ...]
    """(name in the corpus, name in the table) of each protocol column beyond the canonical."""

    @classmethod
    def of(cls, extra: Sequence[pa.Field]) -> Columns:
        """Names for `extra`; one that is taken already gets the prefix `protocol_`."""
        taken = {*UTTERANCES.names, *PROVENANCE.names}
        pairs = []
        for field in extra:
            name = f"protocol_{field.name}" if field.name in taken else field.name
            taken.add(name)
            pairs.append((field.name, name))
        return cls(tuple(pairs))

    @property
    def text(self) -> tuple[str, ...]:
        """All columns that the protocol fills with text, by their names in the table."""
        return (*TEXT_COLUMNS, *(name for _, name in self.extra))

    @property
    def schema(self) -> pa.Schema:
        """The schema of a table made for this corpus alone."""
        extra = [pa.field(name, pa.string()) for _, name in self.extra]
        return pa.schema([*UTTERANCES, *PROVENANCE, *extra])

    def missing_from(self, schema: pa.Schema) -> pa.Schema:
        """The columns to add to a table of `schema` so that it can hold this corpus.

        Raises:
            SchemaError: the table cannot hold utterances: a canonical column is absent or of
                another type, or a column that the corpus cannot fill must not be null.
        """
        for field in self.schema:
            index = schema.get_field_index(field.name)
            if index < 0:
                if field.name in UTTERANCES.names:
                    raise _unfit(field.name, f"a column {field.name} of type {field.type}", "none")
            elif schema.field(index).type != field.type:
                found = schema.field(index).type
                raise _unfit(field.name, f"type {field.type}", f"type {found}")
        for field in schema:
            if field.name not in self.schema.names and not field.nullable:
                raise _unfit(
                    field.name, "a column that may be null", "one that may not, and no value for it"
                )
        return pa.schema([field for field in self.schema if field.name not in schema.names])


def _unfit(column: str, expected: str, found: str) -> SchemaError:
    return SchemaError(
        f"The table's column {column} does not fit an ingest",
        expected=expected,
        found=found,
        fix="Ingest into another table",
    )


def _nulls(schema: pa.Schema, num_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of `schema` that hold `num_rows` rows of nulls; at least one batch."""
    start = 0
    while start < num_rows or start == 0:
        size = min(_BATCH_ROWS, num_rows - start)
        yield pa.record_batch([pa.nulls(size, field.type) for field in schema], schema=schema)
        start += _BATCH_ROWS


def widen(table: Table, missing: pa.Schema, properties: dict[str, str]) -> Table:
    """The table with the columns `missing` added as nulls; the table itself if there are none."""
    if not missing.names:
        return table
    return table.add_columns(
        pa.RecordBatchReader.from_batches(missing, _nulls(missing, table.count_rows())),
        properties=properties,
    )
