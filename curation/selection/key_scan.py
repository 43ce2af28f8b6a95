"""Reading a table's keys, twice: once to count domains, once to pick rows.

Both passes stream; nothing is sorted but what is nearly selected. Since a row's place in the order
is uniform, the first k of n rows stand below the place k / n, give or take: the second pass keeps
what stands below that and a margin, and only those candidates are cut exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Final

import pyarrow as pa

from curation.domains import Domain, keys_of
from curation.engine import spilling_engine
from curation.order import PLACE_DIGITS, place_below
from curation.selection.selectors import Pool
from datalake.errors import StoreError
from datalake.tables import Table

__all__ = ["US_PER_HOUR", "Amount", "KeyGroup", "KeyScan"]

US_PER_HOUR: Final = 3_600_000_000

MEMORY_LIMIT: Final = "3GB"
"""What the engine may hold before it spills to disk. The table's own read-ahead comes on top."""


@dataclass(frozen=True)
class Amount:
    """Rows, how long those are whose duration is known, and how large."""

    num_rows: int
    num_timed: int
    duration_us: int
    """In whole microseconds, so that a sum does not depend on its order."""
    num_sized: int = 0
    num_bytes: int = 0
    """Of those rows whose size is known."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(Amount))
        )


@dataclass(frozen=True)
class KeyGroup:
    """Rows that share their keys, as stored."""

    values: tuple[str | None, ...]
    """Of the key columns."""
    domain: Domain | None
    """None if a key is missing."""
    amount: Amount


class KeyScan:
    """The keys of those rows of a table for which `where` holds, and whose id is among `ids`.

    A context manager: its temporary files go when it closes.
    """

    def __init__(self, table: Table, where: str | None, ids: pa.ChunkedArray | None = None) -> None:
        self._table = table
        self._where = where
        self._ids = ids
        self.keys = keys_of(table.schema)
        """The columns that are read."""
        self._amounts = [name for name in ("duration_s", "num_bytes") if name in table.schema.names]
        self._resources = ExitStack()

    def __enter__(self) -> KeyScan:
        # A stream has no known length, so the optimizer would take the table's keys for the smaller
        # side of the join and hold all of them in memory.
        self._engine = self._resources.enter_context(
            spilling_engine(MEMORY_LIMIT, disabled_optimizers="join_order,build_side_probe_side")
        )
        if self._ids is not None:
            self._engine.register("allowed", pa.table({self.keys.id_column: self._ids}))
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
        columns = self.keys.columns
        listed = ", ".join(columns)
        with self._reading(columns):
            counted = self._engine.sql(
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
        plan = _Plan.of(pools, groups, self.keys.columns)
        self._engine.execute(
            """CREATE TEMP TABLE candidates (
                   row_index UBIGINT, utt_id VARCHAR, domain_index INTEGER, pool INTEGER,
                   place VARCHAR, duration_us BIGINT, num_bytes BIGINT)"""
        )
        self._collect(plan.thresholds(_likely_share), seed)
        counted = self._engine.sql("SELECT pool, count(*) FROM candidates GROUP BY pool").fetchall()
        short = plan.short(dict(counted))
        if short:
            self._engine.execute("DELETE FROM candidates WHERE list_contains(?, pool)", [short])
            self._collect(plan.thresholds(_every_row, only=short), seed)
        return self._cut(plan)

    def _collect(self, thresholds: pa.Table, seed: int) -> None:
        """Add the rows that stand before their pool's threshold to the candidates."""
        self._engine.register("thresholds", thresholds)
        row_id, columns = self.keys.id_column, self.keys.columns
        listed = ", ".join(columns)
        same = " AND ".join(f"keys.{c} IS NOT DISTINCT FROM thresholds.{c}" for c in columns)
        with self._reading((row_id, *columns), with_row_index=True):
            self._engine.execute(
                f"""INSERT INTO candidates
                    SELECT row_index, {row_id}, domain_index, pool, digest[:{PLACE_DIGITS}],
                           duration_us, num_bytes
                    FROM (SELECT {row_id}, {listed}, row_index,
                                 md5(concat(?, '/', {row_id})) AS digest, {self._costs}
                          FROM keys) AS keys
                    JOIN thresholds ON {same}
                    WHERE digest < below""",
                [str(seed)],
            )

    def _cut(self, plan: _Plan) -> tuple[pa.Table, dict[Domain, Amount]]:
        """The exact first rows of each pool among the candidates."""
        self._engine.register("pools", plan.pool_table())
        self._engine.register("domains", plan.domain_table())
        self._engine.execute(
            """CREATE OR REPLACE TEMP TABLE selected AS
               SELECT row_index, utt_id, domain_index, rank, duration_us, num_bytes
               FROM (SELECT *,
                            row_number() OVER (PARTITION BY pool
                                               ORDER BY place, utt_id, row_index) AS number,
                            row_number() OVER (PARTITION BY domain_index
                                               ORDER BY place, utt_id, row_index) - 1 AS rank
                     FROM candidates)
               JOIN pools USING (pool)
               WHERE number <= keep"""
        )
        self._engine.execute("DROP TABLE candidates")
        amounts = self._engine.sql(
            f"SELECT domain_index, {_SUMS} FROM selected GROUP BY domain_index"
        ).fetchall()
        rows = self._engine.sql(
            """SELECT row_index, utt_id, domain, rank::UBIGINT AS rank, 1.0::DOUBLE AS weight
               FROM selected JOIN domains USING (domain_index)
               ORDER BY row_index"""
        ).to_arrow_table()
        return rows, {plan.domains[index]: Amount(*map(int, amount)) for index, *amount in amounts}

    @contextmanager
    def _reading(self, columns: Sequence[str], *, with_row_index: bool = False) -> Iterator[None]:
        """Offer the table's rows to the engine as `keys`, for one pass."""
        import duckdb

        is_cut = self._ids is not None
        wanted = [*columns, *self._amounts, *([self.keys.id_column] if is_cut else [])]
        reader = self._table.scan(
            list(dict.fromkeys(wanted)), where=self._where, with_row_index=with_row_index
        )
        self._engine.register("scanned", reader)
        # By id: a row's index may be another one in the version that is selected from now.
        only = f"SEMI JOIN allowed USING ({self.keys.id_column})" if is_cut else ""
        self._engine.execute(f"CREATE OR REPLACE TEMP VIEW keys AS SELECT * FROM scanned {only}")
        try:
            yield
        except duckdb.Error as error:
            raise StoreError(
                "The keys of a table could not be read to their end",
                where=self._table.uri,
                found=str(error).partition("\n")[0],
            ) from error
        finally:
            self._engine.unregister("scanned")

    @property
    def _costs(self) -> str:
        duration = "try_cast(round(duration_s::DOUBLE * 1e6) AS BIGINT)"
        known = {"duration_s": (duration, "duration_us"), "num_bytes": ("num_bytes", "num_bytes")}
        return ", ".join(
            f"{value if column in self._amounts else 'NULL'}::BIGINT AS {name}"
            for column, (value, name) in known.items()
        )


@dataclass(frozen=True)
class _Plan:
    """Pools and key groups, numbered for the engine."""

    pools: Sequence[Pool]
    groups: Sequence[KeyGroup]
    columns: Sequence[str]
    domains: Sequence[Domain]
    sizes: Sequence[int]
    """Rows of each pool."""

    @classmethod
    def of(cls, pools: Sequence[Pool], groups: Sequence[KeyGroup], columns: Sequence[str]) -> _Plan:
        rows: Counter[Domain | None] = Counter()
        for group in groups:
            rows[group.domain] += group.amount.num_rows
        return cls(
            pools,
            groups,
            columns,
            domains=[domain for pool in pools for domain in pool.domains],
            sizes=[sum(rows[domain] for domain in pool.domains) for pool in pools],
        )

    def short(self, found: Mapping[int, int]) -> list[int]:
        """The pools that have fewer candidates than rows to keep."""
        return [
            index
            for index, (pool, size) in enumerate(zip(self.pools, self.sizes, strict=True))
            if found.get(index, 0) < min(pool.keep, size)
        ]

    def thresholds(
        self, share: Callable[[int, int], float], only: Collection[int] | None = None
    ) -> pa.Table:
        """For the keys of the pools, the place below which rows are candidates."""
        numbers = {domain: index for index, domain in enumerate(self.domains)}
        pool_of = {
            domain: index
            for index, pool in enumerate(self.pools)
            for domain in pool.domains
            if pool.keep and (only is None or index in only)
        }
        below = [
            place_below(share(pool.keep, size))
            for pool, size in zip(self.pools, self.sizes, strict=True)
        ]
        return pa.Table.from_pylist(
            [
                {
                    **dict(zip(self.columns, group.values, strict=True)),
                    "domain_index": numbers[group.domain],
                    "pool": pool_of[group.domain],
                    "below": below[pool_of[group.domain]],
                }
                for group in self.groups
                if group.domain in pool_of
            ],
            schema=pa.schema([*((name, pa.string()) for name in self.columns), *_THRESHOLDS]),
        )

    def pool_table(self) -> pa.Table:
        return pa.table(
            {"pool": range(len(self.pools)), "keep": [pool.keep for pool in self.pools]}
        )

    def domain_table(self) -> pa.Table:
        return pa.table(
            {
                "domain_index": range(len(self.domains)),
                "domain": [domain.name for domain in self.domains],
            }
        )


_SUMS: Final = (
    "count(*), count(duration_us), coalesce(sum(duration_us), 0), "
    "count(num_bytes), coalesce(sum(num_bytes), 0)"
)
"""The fields of `Amount`."""

_THRESHOLDS: Final = (
    ("domain_index", pa.int32()),
    ("pool", pa.int32()),
    ("below", pa.string()),
)


def _likely_share(keep: int, size: int) -> float:
    """A share of `size` rows that holds `keep` of them but once in a billion times.

    Six standard deviations of a Poisson count, and a few rows for counts too small for that.
    """
    return (keep + 6 * math.sqrt(keep) + 20) / size


def _every_row(keep: int, size: int) -> float:  # noqa: ARG001
    return 1.0
