"""Selections: ordered rows of one version of a table, and how a lake keeps them.

A selection is stored as a table: its rows, and beside them, as properties of the same commit, the
method, its parameters, the version selected from and the manifest. Storing and loading hold the
selected rows in memory (about 60 bytes a row plus the ids), whatever the table's size.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from datalake.errors import ConfigError, NotFoundError, SchemaError, StoreError

__all__ = ["SELECTION_ROWS", "Selection", "from_stored", "pin", "to_properties"]

SELECTION_ROWS: Final = pa.schema(
    [
        # The position in the version that was selected from.
        pa.field("row_index", pa.uint64(), nullable=False),
        pa.field("utt_id", pa.string(), nullable=False),
        pa.field("domain", pa.string(), nullable=False),
        # The position in the domain's order, from 0.
        pa.field("rank", pa.uint64(), nullable=False),
        pa.field("weight", pa.float64(), nullable=False),
    ]
)
"""The columns of a selection's rows."""

TABLE: Final = "datalake.selection.table"
TABLE_VERSION: Final = "datalake.selection.table_version"
_METHOD: Final = "datalake.selection.method"
_PARAMETERS: Final = "datalake.selection.parameters"
_MANIFEST: Final = "datalake.selection.manifest"
DIGEST: Final = "datalake.selection.digest"


@dataclass(frozen=True, eq=False)
class Selection:
    """Ordered rows of one version of a table, with a weight each."""

    name: str
    table: str
    """The name of the table that was selected from."""
    table_version: int
    rows: pa.Table
    """One row a selected row, in order: `SELECTION_ROWS`."""
    manifest: pa.Table
    """One row a domain: what there was and what was taken."""
    method: str
    parameters: Mapping[str, object]
    """What the method was given, as JSON values."""

    @cached_property
    def digest(self) -> str:
        """The sha256, in hexadecimal, of the ids and weights in order.

        Equal digests mean the same examples in the same order, whatever the selection is called and
        however its table was compacted since.
        """
        digest = hashlib.sha256(len(self).to_bytes(8, "little"))
        if len(self):
            ids = self.rows["utt_id"].cast(pa.large_string()).combine_chunks()
            _, offsets, text = ids.buffers()
            ends = np.frombuffer(offsets, "<i8", len(ids) + 1, ids.offset * 8)
            digest.update(np.diff(ends).tobytes())
            digest.update(text[ends[0] : ends[-1]])
        digest.update(self.rows["weight"].to_numpy().astype("<f8").tobytes())
        return digest.hexdigest()

    def __len__(self) -> int:
        return int(self.rows.num_rows)


def pin(selection: str, table_version: int) -> str:
    """The tag that keeps the version a selection was made from. Known before anything is saved."""
    return f"selection.{selection}.{table_version}"


def to_properties(selection: Selection) -> dict[str, str]:
    """All of a selection but its name and rows, as properties of a commit.

    Raises:
        SchemaError: its rows are not `SELECTION_ROWS`.
        ConfigError: its parameters are no JSON values.
    """
    if not selection.rows.schema.equals(SELECTION_ROWS):
        raise SchemaError(
            "A selection cannot be saved",
            where=selection.name,
            expected=_columns(SELECTION_ROWS),
            found=_columns(selection.rows.schema),
        )
    try:
        parameters = json.dumps(dict(selection.parameters), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            "The parameters of a selection cannot be recorded",
            where=selection.name,
            expected="JSON values",
            found=str(error),
        ) from error
    return {
        TABLE: selection.table,
        TABLE_VERSION: str(selection.table_version),
        _METHOD: selection.method,
        _PARAMETERS: parameters,
        _MANIFEST: _encode(selection.manifest),
        DIGEST: selection.digest,
    }


def from_stored(name: str, properties: Mapping[str, str], rows: pa.Table) -> Selection:
    """The selection that a version of a stored table holds.

    Raises:
        NotFoundError: the version was never finished.
        StoreError: the rows are not the ones that were saved.
    """
    if DIGEST not in properties:
        raise NotFoundError(
            "A selection was never finished",
            where=name,
            found="its writer stopped between creating it and saving its rows",
            fix="Select again under this name",
        )
    selection = Selection(
        name=name,
        table=properties[TABLE],
        table_version=int(properties[TABLE_VERSION]),
        rows=rows.cast(SELECTION_ROWS),
        manifest=_decode(properties[_MANIFEST]),
        method=properties[_METHOD],
        parameters=json.loads(properties[_PARAMETERS]),
    )
    if selection.digest != properties[DIGEST]:
        raise StoreError(
            "The rows of a selection are not the ones that were saved",
            where=name,
            expected=f"digest {properties[DIGEST]}",
            found=f"digest {selection.digest}",
            fix="Load an earlier version, or select again",
        )
    return selection


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _encode(manifest: pa.Table) -> str:
    """A table as text that keeps its types: a compressed Arrow stream in base 64."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, manifest.schema, options=options) as stream:
        stream.write_table(manifest)
    return base64.b64encode(sink.getvalue()).decode()


def _decode(text: str) -> pa.Table:
    return pa.ipc.open_stream(base64.b64decode(text)).read_all()
