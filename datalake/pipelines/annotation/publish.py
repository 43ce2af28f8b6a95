"""From ranges of annotated rows to columns of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from datalake.errors import ConflictError
from datalake.lake import Lineage
from datalake.pipelines.annotation.settings import Asked
from datalake.pipelines.annotation.units import Folder, Range
from datalake.tables import Table

__all__ = ["carried", "goes_on", "publish", "without_unfinished"]

_UNFINISHED: Final = "__unfinished"
_COMPARED_ROWS: Final = 4096
_COMPARED_BYTES: Final = 8 << 20


def publish(
    table: Table, asked: Asked, folder: Folder, ranges: Sequence[Range], lineage: Lineage
) -> Table:
    """Add the columns in one commit; the outcome is the table's latest version.

    Columns that are there are replaced in two commits: the new ones are added under names of their
    own, then take the place of the old ones at once. There is no moment without a column.

    Raises:
        ConflictError: the table is not at this version any more.
    """
    properties = {**carried(table), **lineage.properties()}
    there = set(asked.there(table))
    schema = pa.schema(
        field.with_name(field.name + _UNFINISHED) if field.name in there else field
        for field in asked.schema
    )
    reader = pa.RecordBatchReader.from_batches(schema, folder.batches(ranges, schema))
    made = table.add_columns(reader, properties=properties)
    if there:
        kept = {name: name for name in made.schema.names if name not in there}
        renamed = {name + _UNFINISHED: name for name in asked.names if name in there}
        made = made.project({**kept, **renamed}, properties=properties)
    return made


def without_unfinished(table: Table, asked: Asked, lineage: Lineage) -> Table:
    """The table without what a replacement left behind that died between its two commits."""
    left = {name + _UNFINISHED for name in asked.names} & set(table.schema.names)
    if not left:
        return table
    kept = {name: name for name in table.schema.names if name not in left}
    return table.project(kept, properties={**carried(table), **lineage.properties()})


def carried(table: Table) -> Mapping[str, str]:
    """What the version says besides its lineage: for episodes, which frames and videos are theirs.

    A version that lacked it could not be opened as an episode set.
    """
    own = Lineage("").properties()
    return {key: text for key, text in table.info().properties.items() if key not in own}


def goes_on(old: Table, new: Table, asked: Asked) -> bool:
    """Whether the rows of `old` are the first of `new`, as far as the annotation hangs on them.

    Reads the columns that it hangs on of both versions, some rows at a time.

    Raises:
        ConflictError: the columns were added by another run meanwhile.
    """
    if (there := asked.there(new)) != asked.there(old):
        raise ConflictError(
            "Another writer changed the columns to be added; nothing was published",
            where=new.uri,
            found=", ".join(there) or "none of them",
            fix="Look at what is there; replace it, or add the columns under other names",
        )
    columns = asked.deciding(old)
    num_rows = old.count_rows()
    if new.count_rows() < num_rows or any(
        name not in new.schema.names or new.schema.field(name).type != old.schema.field(name).type
        for name in columns
    ):
        return False
    start, size = 0, 1
    while start < num_rows and columns:
        stop = min(start + size, num_rows)
        rows = old.read(start, stop, columns)
        if not rows.equals(new.read(start, stop, columns)):
            return False
        start = stop
        fitting = _COMPARED_BYTES * rows.num_rows // max(1, rows.nbytes)
        size = max(1, min(fitting, 2 * size, _COMPARED_ROWS))
    return True
