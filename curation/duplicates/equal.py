"""Rows that have the same value in a column, such as the digest of their bytes."""

from __future__ import annotations

import tempfile
from typing import Final

import pyarrow as pa

from curation.order import PLACE_DIGITS
from datalake.errors import SchemaError, nearest
from datalake.tables import Table

__all__ = ["equal_rows"]

_MEMORY_LIMIT: Final = "1GB"


def equal_rows(
    table: Table, column: str = "sha256", *, seed: int = 0, where: str | None = None
) -> pa.Table:
    """The rows to drop so that each value stands once: `sha256` finds files of the same bytes.

    Of equal rows that one is kept which comes first in the order of selections, the hash of seed
    and utt_id. Rows without a value are kept. Memory: 1 GB beyond which the engine spills to disk,
    and the rows returned.

    Returns:
        `row_index`, `utt_id`, `kept_by` (the index of the kept row), `kept_by_id`, `similarity`
        (1) and `reason` (`equal_<column>`), ascending by index.

    Raises:
        SchemaError: the table lacks the column or `utt_id`.
        PredicateError: `where` cannot be evaluated.
    """
    import duckdb

    for name in (column, "utt_id"):
        if name not in table.schema.names:
            raise SchemaError(
                f"There is no column {name}", where=table.uri, fix=nearest(name, table.schema.names)
            )
    rows = table.scan(["utt_id", column], where=where, with_row_index=True)
    rows = pa.RecordBatchReader.from_batches(
        pa.schema([("utt_id", pa.string()), ("same", rows.schema.field(1).type),
                   ("row_index", pa.uint64())]),
        (pa.record_batch(batch.columns, names=["utt_id", "same", "row_index"]) for batch in rows),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="curate-") as spill:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY_LIMIT,
            "temp_directory": spill,
            "autoinstall_known_extensions": False,
        }
        with duckdb.connect(config=settings) as engine:
            engine.register("keys", rows)
            found: pa.Table = engine.sql(
                f"""SELECT row_index, utt_id, kept_by, kept_by_id,
                           1.0::DOUBLE AS similarity, ? AS reason
                    FROM (SELECT row_index, utt_id, row_number() OVER same AS number,
                                 first(row_index) OVER same AS kept_by,
                                 first(utt_id) OVER same AS kept_by_id
                          FROM keys WHERE same IS NOT NULL
                          WINDOW same AS (
                              PARTITION BY same
                              ORDER BY md5(concat(?, '/', utt_id))[:{PLACE_DIGITS}],
                                       utt_id, row_index))
                    WHERE number > 1 ORDER BY row_index""",
                params=[f"equal_{column}", str(seed)],
            ).to_arrow_table()
    return found
