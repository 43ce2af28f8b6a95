"""The items of a corpus: the protocol's rows meet the files.

An item is one protocol row, or one file that no row claims. All faults that need no look into the
file are known here. The first good row with an id keeps it; the later ones are refused with the
path of the winner.

The join happens in DuckDB, on disk and within a fixed memory, so a hundred million files cost disk
and no more memory than a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from datalake.connector import FILES, ROWS, Corpus
from datalake.errors import InputError
from datalake.pipelines.columns import Columns
from datalake.pipelines.settings import Settings
from datalake.quarantine import Reason

if TYPE_CHECKING:
    import duckdb

__all__ = ["MAX_FILE_BYTES", "collect_items", "load", "quoted", "refuse_taken"]

MAX_FILE_BYTES: Final = 1 << 30
"""A larger file is refused: a worker holds one whole file in memory."""


def quoted(identifier: str) -> str:
    """An identifier as SQL writes it."""
    return '"' + identifier.replace('"', '""') + '"'


def load(
    db: duckdb.DuckDBPyConnection,
    name: str,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    columns: str = "*",
    where: str = "true",
) -> None:
    """Create the table `name` and fill it from `batches`, one at a time.

    A reader over a generator would be shorter, but an error of the connector would then arrive as
    DuckDB's and not as itself.
    """
    db.register("incoming", schema.empty_table())
    db.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM incoming")
    for batch in batches:
        db.register("incoming", pa.Table.from_batches([batch]))
        db.execute(f"INSERT INTO {name} SELECT {columns} FROM incoming WHERE {where}")
    db.unregister("incoming")


def collect_items(
    db: duckdb.DuckDBPyConnection, corpus: Corpus, columns: Columns, settings: Settings
) -> int:
    """Create the table `items` from what `corpus` says and holds. Returns the number of items.

    Its columns: position (of the protocol row), path, utt_id, size_bytes, stamp, the text columns,
    refused (a reason code or null) and detail.

    Raises:
        InputError: the corpus has neither rows nor files.
    """
    extra = "".join(f", {quoted(name)} AS {quoted(to)}" for name, to in columns.extra)
    load(
        db,
        "protocol",
        corpus.rows(),
        pa.schema([*ROWS, *corpus.extra]),
        columns=f"{', '.join(ROWS.names)}{extra}",
    )
    load(db, "files", corpus.files(), FILES)
    text = ", ".join(f"row.{quoted(name)}" for name in columns.text)
    side = "FULL" if corpus.claims_every_file else "LEFT"
    db.execute(f"""
        CREATE TABLE items AS
        SELECT
            row.rowid AS position,
            coalesce(nullif(row.path, ''), file.path, row.origin, '') AS path,
            CASE WHEN row.file_id <> '' THEN row.source || '/' || row.file_id END AS utt_id,
            coalesce(file.size_bytes, 0) AS size_bytes,
            file.size_bytes || '|' || file.stamp || '|{settings.encoding}' AS stamp,
            {text},
            CASE
                WHEN row.refused IS NOT NULL THEN row.refused
                WHEN row.path IS NULL THEN '{Reason.NO_PROTOCOL_ROW}'
                WHEN row.file_id = '' OR row.source = '' THEN '{Reason.BAD_ROW}'
                WHEN file.path IS NULL THEN '{Reason.NO_FILE}'
                WHEN file.size_bytes IS NULL THEN '{Reason.UNREADABLE}'
                WHEN file.size_bytes = 0 THEN '{Reason.EMPTY}'
                WHEN file.size_bytes > {MAX_FILE_BYTES} THEN '{Reason.TOO_LONG}'
            END AS refused,
            CASE
                WHEN row.refused IS NOT NULL THEN row.refused_detail
                WHEN row.path IS NULL THEN 'no protocol row names the file'
                WHEN row.file_id = '' OR row.source = '' THEN 'the row has no id or no source'
                WHEN file.path IS NULL THEN 'there is no such file'
                WHEN file.size_bytes IS NULL THEN file.stamp
                WHEN file.size_bytes = 0 THEN 'a file of 0 bytes'
                WHEN file.size_bytes > {MAX_FILE_BYTES}
                    THEN file.size_bytes || ' bytes; the bound is {MAX_FILE_BYTES}'
            END AS detail,
            row.origin AS origin
        FROM protocol AS row {side} JOIN files AS file ON row.path = file.path""")
    db.execute("DROP TABLE protocol; DROP TABLE files")
    num_items: int = db.execute("SELECT count(*) FROM items").fetchall()[0][0]
    if num_items == 0:
        raise InputError(
            "The corpus is empty",
            where=str(corpus.root),
            expected="protocol rows or audio files",
        )
    _refuse_repeated(db)
    return num_items


def _refuse_repeated(db: duckdb.DuckDBPyConnection) -> None:
    db.execute(f"""
        UPDATE items
        SET refused = '{Reason.DUPLICATE_ID}', detail = 'the id belongs to ' || first_path
        FROM (
            SELECT utt_id AS id, min(position) AS first, arg_min(path, position) AS first_path
            FROM items WHERE refused IS NULL
            GROUP BY utt_id HAVING count(*) > 1
        )
        WHERE utt_id = id AND position > first AND refused IS NULL""")


def refuse_taken(db: duckdb.DuckDBPyConnection) -> None:
    """Refuse items whose id is in the table `taken` (utt_id, holder): another corpus has it."""
    db.execute(f"""
        UPDATE items
        SET refused = '{Reason.DUPLICATE_ID}',
            detail = 'the table holds the id already, from ' || coalesce(holder, 'elsewhere')
        FROM taken
        WHERE items.utt_id = taken.utt_id AND refused IS NULL""")
