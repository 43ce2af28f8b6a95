"""Rows of a protocol, and the record batches they travel in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import pyarrow as pa

from connectors.speech.labels import BadLabelError, generator_of, label_of
from connectors.tree import BATCH_ROWS
from datalake.connector import FILES, ROWS
from datalake.quarantine import Reason
from datalake.schema import QUARANTINE, UTTERANCES

__all__ = ["Row", "bad_row", "extra_fields", "labelled", "to_batches"]


# Column names that a protocol's own columns may not take.
_TAKEN: Final = frozenset(
    name for schema in (UTTERANCES, ROWS, FILES, QUARANTINE) for name in schema.names
)
_NO_NAME: Final = re.compile(r"\W+")


class Row(NamedTuple):
    """One row of `datalake.connector.ROWS`, in its order, and the protocol's own columns."""

    file_id: str
    path: str
    source: str
    generator: str | None = None
    label: str | None = None
    speaker_id: str | None = None
    language: str | None = None
    split: str | None = None
    origin: str | None = None
    refused: str | None = None
    refused_detail: str | None = None
    extra: tuple[str | None, ...] = ()


def labelled(row: Row, own: Mapping[str, str] | None = None) -> Row:
    """The row with `label` as the corpus spells it and `generator` as it names it made canonical.

    A spelling that is none makes it a refused row. `own` is as in `label_of`.
    """
    try:
        label = label_of(row.label, own)
    except BadLabelError as error:
        return row._replace(label=None, refused=Reason.BAD_LABEL.value, refused_detail=str(error))
    return row._replace(label=label, generator=generator_of(label, row.generator))


def bad_row(source: str, protocol: str, line: int, detail: str) -> Row:
    """The row for a line of a protocol that cannot be used; it stands for no file."""
    origin = f"{protocol}:{line}"
    return Row(
        origin,
        protocol,
        source,
        origin=origin,
        refused=Reason.BAD_ROW.value,
        refused_detail=f"line {line}: {detail}",
    )


def extra_fields(names: Sequence[str]) -> tuple[pa.Field, ...]:
    """String fields for the protocol columns `names`.

    A name that a canonical column has is prefixed with `protocol_`; what is no letter, digit or
    underscore becomes an underscore.
    """
    fields: dict[str, pa.Field] = {}
    for name in names:
        clean = _NO_NAME.sub("_", name).strip("_") or "column"
        if clean.lower() in _TAKEN:
            clean = f"protocol_{clean}"
        number = 1
        unique = clean
        while unique.lower() in fields:
            number += 1
            unique = f"{clean}_{number}"
        fields[unique.lower()] = pa.field(unique, pa.string())
    return tuple(fields.values())


def to_batches(rows: Iterable[Row], extra: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
    """Pack rows into batches of `BATCH_ROWS`, one in memory at a time.

    A row whose `extra` is empty has nulls in those columns.
    """
    schema = pa.schema([*ROWS, *extra])
    num_fixed, nothing = len(ROWS), (None,) * len(extra)
    stream = iter(rows)
    while chunk := list(islice(stream, BATCH_ROWS)):
        flat = [row[:num_fixed] + (row.extra or nothing) for row in chunk]
        arrays = [pa.array(values, pa.string()) for values in zip(*flat, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
