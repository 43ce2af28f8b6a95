"""The plan of an ingest: which items must be read, once the table's own rows are known.

Items fall into buckets by a hash of their id, hence into parts whose ids and contents depend
neither on the order nor on the number of files. A part whose fingerprint the ledger has is done.
The others are compared with the rows that the table holds: an item that the table has as it is
costs nothing more, one whose file may have changed is read again, and only what differs is written.

The table is the truth. A part of which it holds another number of rows than the ledger says is
compared as well, so a table that was dropped, restored or thinned out is filled up again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from datalake.connector import Corpus
from datalake.pipelines.columns import Columns
from datalake.pipelines.items import collect_items, load, quoted, refuse_taken
from datalake.pipelines.ledger import Finished
from datalake.pipelines.part_ids import count_by_part, num_parts_of, part_id_of
from datalake.pipelines.refused import Refused
from datalake.pipelines.settings import Settings
from datalake.pipelines.units import UnitWriter
from datalake.schema import BONAFIDE, SPOOF
from datalake.tables import Table
from datalake.uri import Location

if TYPE_CHECKING:
    import duckdb

__all__ = ["Part", "Plan", "Planner"]

_UNIT_BYTES: Final = 128 << 20
_MIN_UNIT_ROWS: Final = 64
_UNITS_PER_WORKER: Final = 8
_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True)
class Part:
    """One bucket of a corpus as the protocol and the files have it now."""

    part_id: str
    fingerprint: str
    num_items: int
    num_held: int
    """Rows of this part that the table holds."""


@dataclass(frozen=True)
class Plan:
    """What an ingest has to do. Parts are named by their bucket."""

    num_items: int
    """Items of the whole corpus."""
    num_parts: int
    """Parts of the whole corpus."""
    parts: Mapping[int, Part]
    """The parts that the ledger does not know as they are now."""
    num_pending: int
    """Items of these parts that workers must look at."""
    num_bytes: int
    """Bytes of the files of those items."""
    known_refusals: Mapping[str, int]
    """Items among them that are refused already, by reason."""
    num_vanished: int
    """Rows of these parts that the table holds and the corpus no longer names."""

    @property
    def num_to_do(self) -> int:
        """Items of the parts to do."""
        return sum(part.num_items for part in self.parts.values())

    @property
    def num_kept(self) -> int:
        """Items of these parts that the table holds as they are."""
        return self.num_to_do - self.num_pending


class Planner:
    """Builds a plan in a DuckDB database of its own, below `folder`. A context manager.

    Call `read_corpus`, then `compare`; then `first_refusals` and `write_units` as you need.
    """

    def __init__(self, corpus: Corpus, columns: Columns, settings: Settings, folder: Path) -> None:
        import duckdb

        self._corpus = corpus
        self._columns = columns
        self._settings = settings
        self._num_items = 0
        self._db: duckdb.DuckDBPyConnection = duckdb.connect(
            str(folder / "plan.duckdb"),
            config={"memory_limit": "1GB", "temp_directory": str(folder / "spill")},
        )

    def __enter__(self) -> Planner:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the memory; the planner is of no more use. May be repeated."""
        self._db.close()

    def read_corpus(self, table: Table | None) -> int:
        """Stream the corpus in and find the faults of its rows. Returns the number of items.

        Args:
            table: where the rows go, if it is there: ids that it holds from elsewhere are refused.

        Raises:
            InputError: the corpus has neither rows nor files.
        """
        self._num_items = collect_items(self._db, self._corpus, self._columns, self._settings)
        if table is not None:
            self._refuse_taken(table)
        return self._num_items

    def _refuse_taken(self, table: Table) -> None:
        sources = self._db.execute("SELECT DISTINCT source FROM items WHERE utt_id IS NOT NULL")
        among = ", ".join(_text(source) for (source,) in sources.fetchall())
        if not among:
            return
        ours = self._is_ours("part_id")
        load(
            self._db,
            "taken",
            _scan(table, ["utt_id", "part_id"], where=f"source IN ({among})"),
            pa.schema([("utt_id", pa.string()), ("part_id", pa.string())]),
            columns="utt_id, part_id AS holder",
            where=f"part_id IS NULL OR NOT {ours}",
        )
        refuse_taken(self._db)

    def _is_ours(self, column: str) -> str:
        """SQL: whether a part id belongs to this corpus (and not to one whose name goes on)."""
        prefix = f"{self._corpus.source}/"
        return (
            f"(starts_with({column}, {_text(prefix)})"
            f" AND NOT contains(substr({column}, {len(prefix) + 1}), '/'))"
        )

    def compare(self, finished: Mapping[str, Finished], table: Table | None) -> Plan:
        """Cut the items into parts and compare those that are not finished with the table.

        Args:
            finished: what the ledger says, by part id.
            table: the table if it is there.
        """
        held = () if table is None else self._scan_ours(table, ["part_id"])
        self._held = count_by_part(held, self._corpus.source)
        self._num_parts = self._choose_num_parts([*finished, *self._held])
        self._db.execute(f"""
            CREATE TABLE bucketed AS
            SELECT *, ('0x' || substr(md5(coalesce(utt_id, path)), 1, 8))::UINTEGER
                % {self._num_parts} AS bucket
            FROM items;
            DROP TABLE items;
            ALTER TABLE bucketed RENAME TO items""")
        self._pending: dict[int, tuple[str, int]] = {}
        settled: list[str] = []
        for bucket, fingerprint, num_items in self._fingerprints():
            name = self._part_id(bucket)
            if finished.get(name) == Finished(fingerprint, self._held[name]):
                settled.append(name)
            else:
                self._pending[bucket] = (fingerprint, num_items)
        self._num_finished = len(settled)
        for name, column in (
            ("settled", pa.array(settled, pa.string())),
            ("pending", pa.array(list(self._pending), pa.uint32())),
        ):
            rows = pa.record_batch({"key": column})
            load(self._db, name, [rows], rows.schema)
        self._read_known(table if self._pending else None)
        self._decide()
        return self._plan()

    def _part_id(self, bucket: int) -> str:
        return part_id_of(self._corpus.source, bucket, self._num_parts)

    def _choose_num_parts(self, known: Sequence[str]) -> int:
        """The number of buckets that this corpus had before, or a power of two that suits it.

        Rows carry it in their part id; so part ids stay the same when a corpus grows, and parts
        grow with it.
        """
        if known:
            return max(num_parts_of(name) for name in known)
        wanted = self._num_items / self._settings.part_rows
        return 1 << max(0, math.ceil(math.log2(wanted)))

    def _scan_ours(self, table: Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of this corpus, and of any whose name goes on after a slash."""
        if "part_id" not in table.schema.names:
            return iter(())
        # '0' follows '/': a range that every format can evaluate, and skip files by.
        source = self._corpus.source
        where = f"part_id >= {_text(source + '/')} AND part_id < {_text(source + '0')}"
        return _scan(table, names, where=where)

    def _fingerprints(self) -> list[tuple[int, str, int]]:
        """(bucket, fingerprint, number of items) of each part.

        The fingerprint hashes items one by one and adds the hashes up, so it needs neither order
        nor memory.
        """
        fields = ["path", "utt_id", "stamp", "refused", *self._columns.text]
        item = ", ".join(f"coalesce({quoted(name)}, chr(1))" for name in fields)
        found = self._db.execute(f"""
            SELECT bucket, count(*), sum(md5_number_lower(item)::HUGEINT),
                   bit_xor(md5_number_upper(item))
            FROM (SELECT bucket, concat_ws(chr(2), {item}) AS item FROM items)
            GROUP BY bucket ORDER BY bucket""").fetchall()
        options = self._settings.fingerprint
        return [
            (bucket, f"{count}|{int(total):x}|{mixed:x}|{options}", count)
            for bucket, count, total, mixed in found
        ]

    def _read_known(self, table: Table | None) -> None:
        """Load the table's rows of this corpus, less those of finished parts.

        Rows of parts that the corpus no longer has at all are among them: they have vanished.
        """
        names = ["utt_id", "part_id", "stamp", "sha256", *self._columns.text]
        load(
            self._db,
            "known",
            [] if table is None else self._scan_ours(table, names),
            pa.schema([(name, pa.string()) for name in names]),
            where=f"{self._is_ours('part_id')} AND part_id NOT IN (SELECT key FROM settled)",
        )

    def _decide(self) -> None:
        """Create the table `work`: the items of unfinished parts, and what to do with each."""
        same = " AND ".join(
            f"items.{quoted(name)} IS NOT DISTINCT FROM known.{quoted(name)}"
            for name in self._columns.text
        )
        self._db.execute(f"""
            CREATE TABLE work AS
            SELECT items.*, known.sha256 AS known_sha256,
                CASE
                    WHEN items.refused IS NOT NULL THEN 'refuse'
                    WHEN known.utt_id IS NULL THEN 'add'
                    WHEN NOT ({same}) OR split_part(items.stamp, '|', -1)
                        IS DISTINCT FROM split_part(known.stamp, '|', -1) THEN 'replace'
                    WHEN items.stamp IS DISTINCT FROM known.stamp THEN 'check'
                    ELSE 'keep'
                END AS action
            FROM items JOIN pending ON items.bucket = pending.key
            LEFT JOIN known ON items.utt_id = known.utt_id""")

    def _plan(self) -> Plan:
        pending, num_bytes = self._db.execute(
            "SELECT count(*), coalesce(sum(size_bytes) FILTER (action <> 'refuse'), 0)"
            " FROM work WHERE action <> 'keep'"
        ).fetchall()[0]
        refused = self._db.execute(
            "SELECT refused, count(*) FROM work WHERE action = 'refuse' GROUP BY 1 ORDER BY 1"
        ).fetchall()
        vanished = self._db.execute("SELECT count(*) FROM known ANTI JOIN items USING (utt_id)")
        parts = {}
        for bucket, (fingerprint, num_items) in self._pending.items():
            name = self._part_id(bucket)
            parts[bucket] = Part(name, fingerprint, num_items, self._held[name])
        return Plan(
            num_items=self._num_items,
            num_parts=self._num_finished + len(parts),
            parts=parts,
            num_pending=pending,
            num_bytes=int(num_bytes),
            known_refusals=dict(refused),
            num_vanished=vanished.fetchall()[0][0],
        )

    def first_refusals(self, limit: int) -> list[Refused]:
        """Some items that are refused already, in the order of the protocol."""
        found = self._db.execute(
            "SELECT path, utt_id, refused, concat_ws('; ', detail, origin) FROM work"
            " WHERE action = 'refuse' ORDER BY position, path LIMIT ?",
            [limit],
        )
        return [Refused(*row) for row in found.fetchall()]

    def write_units(self, location: Location, num_workers: int) -> list[int]:
        """Write the file of units. Returns the bucket of each.

        Args:
            location: where the file goes.
            num_workers: how many tasks run at once; small corpora are cut finer for more of them.
        """
        num_pending = self._db.execute(
            "SELECT count(*) FROM work WHERE action <> 'keep'"
        ).fetchall()[0][0]
        unit_rows = num_pending // (_UNITS_PER_WORKER * num_workers)
        unit_rows = min(max(unit_rows, _MIN_UNIT_ROWS), self._settings.part_rows)
        text = ", ".join(quoted(name) for name in self._columns.text)
        reader: pa.RecordBatchReader = self._db.sql(f"""
            SELECT
                bucket,
                -- Even shares: no unit is a small rest.
                ((row_number() OVER run - 1) * ceil(count(*) OVER part / {unit_rows})::BIGINT)
                    // count(*) OVER part AS by_rows,
                (sum(size_bytes) OVER run // {_UNIT_BYTES})::BIGINT AS by_bytes,
                action, size_bytes, known_sha256, refused, detail, origin,
                utt_id, path, stamp, {_text(self._corpus.source + "/")} || bucket
                    || 'of{self._num_parts}' AS part_id,
                CASE label
                    WHEN '{BONAFIDE}' THEN source
                    WHEN '{SPOOF}' THEN source || '/' || generator
                END AS domain,
                {text}
            FROM work WHERE action <> 'keep'
            WINDOW
                part AS (PARTITION BY bucket),
                run AS (PARTITION BY bucket ORDER BY utt_id, path, position)
            ORDER BY bucket, utt_id, path, position""").to_arrow_reader(_BATCH_ROWS)
        items = pa.schema(list(reader.schema)[3:])
        with UnitWriter(location, items) as units:
            for batch in reader:
                keys = np.stack([batch.column(i).to_numpy(zero_copy_only=False) for i in range(3)])
                units.write(keys.T, batch.select(items.names))
        return units.buckets


def _scan(table: Table, names: Sequence[str], *, where: str) -> Iterator[pa.RecordBatch]:
    """Text columns of a table; one that the table has yet to get is null."""
    present = [name for name in names if name in table.schema.names]
    for batch in table.scan(present, where=where):
        columns = dict(zip(present, batch.columns, strict=True))
        absent = pa.nulls(batch.num_rows, pa.string())
        yield pa.record_batch({name: columns.get(name, absent) for name in names})


def _text(value: str) -> str:
    """A string as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
