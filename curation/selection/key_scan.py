"""Reading a table's keys, twice: once to count domains, once to pick rows.

Both passes stream; nothing is sorted but what is nearly selected. Since a row's place in the order
is uniform, the first k of n rows stand below the place k / n, give or take: the second pass keeps
what stands below that and a margin, and only those candidates are cut exactly. Orders other than
the hash collect candidates of their own (`ordered_rows`), which are cut here too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import pyarrow as pa

from curation.domains import Domain, keys_of
from curation.engine import spilling_engine
from curation.order import PLACE_DIGITS
from curation.selection.amounts import Amount, KeyGroup
from curation.selection.pool_plan import PoolPlan, every_row
from curation.selection.selectors import Pool
from datalake.errors import StoreError
from datalake.tables import Table

__all__ = ["BY_ORDER", "ORDER_KEY", "KeyScan"]

MEMORY_LIMIT: Final = "3GB"
"""What the engine may hold before it spills to disk. The table's own read-ahead comes on top."""

ORDER_KEY: Final = "order_key"
"""A column of candidates: rows of the smallest come first, those without one last."""

BY_ORDER: Final = f"ORDER BY {ORDER_KEY} NULLS LAST, place, utt_id, row_index"
"""The order of candidates."""


class KeyScan:
    """The keys of those rows of a table for which `where` holds, and whose id is among `ids`.

    A context manager: its temporary files go when it closes.
    """

    def __init__(self, table: Table, where: str | None, ids: pa.ChunkedArray | None = None) -> None:
        self.table = table
        """The version that is read."""
        self.where = where
        """Of which rows."""
        self.engine: Any = None
        """A DuckDB connection, while this is open."""
        self._ids = ids
        self.keys = keys_of(table.schema)
        """The columns that are read."""
        self._amounts = [name for name in ("duration_s", "num_bytes") if name in table.schema.names]
        self._resources = ExitStack()

    def __enter__(self) -> KeyScan:
        # A stream has no known length, so the optimizer would take the table's keys for the smaller
        # side of the join and hold all of them in memory.
        self.engine = self._resources.enter_context(
            spilling_engine(MEMORY_LIMIT, disabled_optimizers="join_order,build_side_probe_side")
        )
        if self._ids is not None:
            self.engine.register("allowed", pa.table({self.keys.id_column: self._ids}))
        return self

    def __exit__(self, *exc: object) -> None:
        self._resources.close()

    def groups(self) -> list[KeyGroup]:
        """First pass: how much there is of each combination of keys.

        Raises:
            SchemaError: the table lacks a key column.
            PredicateError: `where` cannot be evaluated.
            StoreError: the table cannot be read.
        """
        return self.counted(self.table.scan(self.counted_columns, where=self.where))

    @property
    def counted_columns(self) -> list[str]:
        """What counting reads."""
        is_cut = self._ids is not None
        wanted = [*self.keys.columns, *self._amounts, *([self.keys.id_column] if is_cut else [])]
        return list(dict.fromkeys(wanted))

    def counted(self, rows: pa.RecordBatchReader) -> list[KeyGroup]:
        """How much there is of each combination of keys among rows with `counted_columns`."""
        columns = self.keys.columns
        listed = ", ".join(columns)
        with self._offering(rows):
            counted = self.engine.sql(
                f"""SELECT {listed}, {_SUMS}
                    FROM (SELECT {listed}, {self._costs} FROM keys)
                    GROUP BY ALL"""
            ).fetchall()
        split = len(columns)
        return [
            KeyGroup(row[:split], self.keys.domain(*row[:split]), Amount(*map(int, row[split:])))
            for row in counted
        ]

    def first(
        self, pools: Sequence[Pool], groups: Sequence[KeyGroup], seed: int
    ) -> tuple[pa.Table, dict[Domain, Amount]]:
        """Second pass: the first rows of each pool.

        Args:
            pools: what to keep.
            groups: what `groups` returned.
            seed: seed of the order.

        Returns:
            The rows, ascending by index: `row_index`, `utt_id`, `domain`, `rank`, `weight`; and how
            much of each domain they are.

        Raises:
            StoreError: the table cannot be read.
        """
        plan = PoolPlan.of(pools, groups, self.keys.columns)
        self.open_candidates()
        self.collect_all(plan, plan.thresholds(_likely_share), seed)
        counted = self.engine.sql("SELECT pool, count(*) FROM candidates GROUP BY pool").fetchall()
        short = plan.short(dict(counted))
        if short:
            self.engine.execute("DELETE FROM candidates WHERE list_contains(?, pool)", [short])
            self.collect_all(plan, plan.thresholds(every_row, only=short), seed)
        return self.cut(plan)

    def open_candidates(self) -> None:
        """Begin with no candidates."""
        self.engine.execute(
            f"""CREATE OR REPLACE TEMP TABLE candidates (
                   row_index UBIGINT, utt_id VARCHAR, domain_index INTEGER, pool INTEGER,
                   place VARCHAR, duration_us BIGINT, num_bytes BIGINT, {ORDER_KEY} DOUBLE)"""
        )

    def collect_all(self, plan: PoolPlan, thresholds: pa.Table, seed: int) -> None:  # noqa: ARG002
        """Add the rows of the whole table that stand before their pool's threshold.

        Raises:
            StoreError: the table cannot be read.
        """
        self.collect(self.scan(), thresholds, seed)

    def collect(self, rows: pa.RecordBatchReader, thresholds: pa.Table, seed: int) -> None:
        """Add the rows that stand before their pool's threshold to the candidates.

        Args:
            rows: what `scan` gives, perhaps with a column `ORDER_KEY`.
            thresholds: of the keys, as `PoolPlan` gives them.
            seed: seed of the order.

        Raises:
            StoreError: the table cannot be read.
        """
        self.engine.register("thresholds", thresholds)
        row_id, columns = self.keys.id_column, self.keys.columns
        listed = ", ".join(columns)
        same = " AND ".join(f"keys.{c} IS NOT DISTINCT FROM thresholds.{c}" for c in columns)
        order_key = ORDER_KEY if ORDER_KEY in rows.schema.names else "NULL::DOUBLE"
        with self._offering(rows):
            self.engine.execute(
                f"""INSERT INTO candidates
                    SELECT row_index, {row_id}, domain_index, pool, digest[:{PLACE_DIGITS}],
                           duration_us, num_bytes, {ORDER_KEY}
                    FROM (SELECT {row_id}, {listed}, row_index, {order_key} AS {ORDER_KEY},
                                 md5(concat(?, '/', {row_id})) AS digest, {self._costs}
                          FROM keys) AS keys
                    JOIN thresholds ON {same}
                    WHERE digest < below""",
                [str(seed)],
            )

    def drop_overtaken(self, plan: PoolPlan) -> None:
        """Drop the candidates that others have overtaken: no pool keeps them any more."""
        self.engine.register("pools", plan.pool_table())
        self.engine.execute(
            f"""CREATE OR REPLACE TEMP TABLE ahead AS
                SELECT * EXCLUDE (number, keep)
                FROM (SELECT *, row_number() OVER (PARTITION BY pool {BY_ORDER}) AS number
                      FROM candidates)
                JOIN pools USING (pool)
                WHERE number <= keep"""
        )
        self.open_candidates()
        self.engine.execute("INSERT INTO candidates BY NAME SELECT * FROM ahead")
        self.engine.execute("DROP TABLE ahead")

    def num_before(
        self, rows: pa.RecordBatchReader, thresholds: pa.Table, seed: int, asked: pa.Table
    ) -> dict[int, int]:
        """How many rows of their pool come before some rows: their places, from 0.

        Time grows with the rows asked about in one pool; memory does not grow with the table.

        Args:
            rows: what `scan` gives, perhaps with a column `ORDER_KEY`.
            thresholds: of the keys, as `PoolPlan` gives them for every row.
            seed: seed of the order.
            asked: `number`, `pool`, `order_key`, `place`, `utt_id` and `row_index` of each row.

        Returns:
            By `number`.

        Raises:
            StoreError: the table cannot be read.
        """
        self.engine.register("thresholds", thresholds)
        self.engine.register("asked", asked)
        row_id, columns = self.keys.id_column, self.keys.columns
        listed = ", ".join(columns)
        same = " AND ".join(f"keys.{c} IS NOT DISTINCT FROM thresholds.{c}" for c in columns)
        order_key = ORDER_KEY if ORDER_KEY in rows.schema.names else "NULL::DOUBLE"
        with self._offering(rows):
            counted = self.engine.execute(
                f"""SELECT asked.number, count(*)
                    FROM (SELECT {row_id} AS utt_id, {listed}, row_index,
                                 {order_key} AS {ORDER_KEY},
                                 md5(concat(?, '/', {row_id}))[:{PLACE_DIGITS}] AS place
                          FROM keys) AS keys
                    JOIN thresholds ON {same}
                    JOIN asked ON asked.pool = thresholds.pool
                    WHERE {_sortable("keys")} < {_sortable("asked")}
                    GROUP BY asked.number""",
                [str(seed)],
            ).fetchall()
        return dict.fromkeys(asked["number"].to_pylist(), 0) | dict(counted)

    def cut(self, plan: PoolPlan) -> tuple[pa.Table, dict[Domain, Amount]]:
        """The exact first rows of each pool among the candidates, as `first` returns them."""
        self.engine.register("pools", plan.pool_table())
        self.engine.register("domains", plan.domain_table())
        self.engine.execute(
            f"""CREATE OR REPLACE TEMP TABLE selected AS
               SELECT row_index, utt_id, domain_index, rank, duration_us, num_bytes
               FROM (SELECT *,
                            row_number() OVER (PARTITION BY pool {BY_ORDER}) AS number,
                            row_number() OVER (PARTITION BY domain_index {BY_ORDER}) - 1 AS rank
                     FROM candidates)
               JOIN pools USING (pool)
               WHERE number <= keep"""
        )
        self.engine.execute("DROP TABLE candidates")
        amounts = self.engine.sql(
            f"SELECT domain_index, {_SUMS} FROM selected GROUP BY domain_index"
        ).fetchall()
        rows = self.engine.sql(
            """SELECT row_index, utt_id, domain, rank::UBIGINT AS rank, 1.0::DOUBLE AS weight
               FROM selected JOIN domains USING (domain_index)
               ORDER BY row_index"""
        ).to_arrow_table()
        return rows, {plan.domains[index]: Amount(*map(int, amount)) for index, *amount in amounts}

    def scan(self, extra: Sequence[str] = ()) -> pa.RecordBatchReader:
        """Stream the ids, the keys, what rows cost, `extra` columns and `row_index`.

        Rows that are not among the ids are there too: `collect` leaves them out.
        """
        return self.table.scan(self.scanned_columns(extra), where=self.where, with_row_index=True)

    def scanned_columns(self, extra: Sequence[str] = ()) -> list[str]:
        """What `scan` reads."""
        wanted = [self.keys.id_column, *self.keys.columns, *self._amounts, *extra]
        return list(dict.fromkeys(wanted))

    @contextmanager
    def _offering(self, rows: pa.RecordBatchReader) -> Iterator[None]:
        """Offer rows to the engine as `keys`, for one pass."""
        import duckdb

        self.engine.register("scanned", rows)
        # By id: a row's index may be another one in the version that is selected from now.
        only = f"SEMI JOIN allowed USING ({self.keys.id_column})" if self._ids is not None else ""
        self.engine.execute(f"CREATE OR REPLACE TEMP VIEW keys AS SELECT * FROM scanned {only}")
        try:
            yield
        except duckdb.Error as error:
            raise StoreError(
                "The keys of a table could not be read to their end",
                where=self.table.uri,
                found=str(error).partition("\n")[0],
            ) from error
        finally:
            self.engine.unregister("scanned")

    @property
    def _costs(self) -> str:
        duration = "try_cast(round(duration_s::DOUBLE * 1e6) AS BIGINT)"
        known = {"duration_s": (duration, "duration_us"), "num_bytes": ("num_bytes", "num_bytes")}
        return ", ".join(
            f"{value if column in self._amounts else 'NULL'}::BIGINT AS {name}"
            for column, (value, name) in known.items()
        )


_SUMS: Final = (
    "count(*), count(duration_us), coalesce(sum(duration_us), 0), "
    "count(num_bytes), coalesce(sum(num_bytes), 0)"
)
"""The fields of `Amount`."""


def _sortable(rows: str) -> str:
    """Rows as `BY_ORDER` compares them."""
    key = f"{rows}.{ORDER_KEY}"
    return (
        f"({key} IS NULL, coalesce({key}, 0), {rows}.place, {rows}.utt_id, "
        f"{rows}.row_index::UBIGINT)"
    )


def _likely_share(keep: int, size: int) -> float:
    """A share of `size` rows that holds `keep` of them but once in a billion times.

    Six standard deviations of a Poisson count, and a few rows for counts too small for that.
    """
    return (keep + 6 * math.sqrt(keep) + 20) / size
