"""The first rows of each pool in another order than that of the hash."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.domains import Domain
from curation.duplicates.cells import write_whole
from curation.selection.amounts import Amount, KeyGroup
from curation.selection.block_scan import BlockKeyScan
from curation.selection.key_scan import ORDER_KEY, KeyScan
from curation.selection.orders import DomainOrder, OrderOptions, PoolRows, RowOrder
from curation.selection.pool_columns import ColumnFile, write_columns
from curation.selection.pool_plan import PoolPlan, every_row
from curation.selection.selectors import Pool
from datalake.errors import LakeError
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.pipelines.run import ProgressSink

__all__ = ["FirstRows", "Ordering", "first_in_order", "keyed_rows"]

PART_ROWS: Final = 1_000_000
"""Rows read between one look at which of them can still be among the first and the next."""


@dataclass(frozen=True)
class Ordering:
    """An order, what it is given, and where it works."""

    order: RowOrder | DomainOrder
    options: OrderOptions
    columns: tuple[str, ...]
    """What it reads."""
    executor: Executor | None = None
    """None: this process."""
    scratch: Path | None = None
    progress: ProgressSink | None = None


@dataclass(frozen=True)
class FirstRows:
    """The first rows of each pool."""

    rows: pa.Table
    """As `KeyScan.first` returns them."""
    kept: dict[Domain, Amount]
    values: dict[Domain, float]
    """What the order reached, for the domains of pools that it was asked about."""


def first_in_order(
    keys: KeyScan,
    pools: Sequence[Pool],
    groups: Sequence[KeyGroup],
    seed: int,
    ordering: Ordering,
) -> FirstRows:
    """The first rows of each pool; the hash breaks ties.

    By a row's own number the table is read once more and no more is held than by the hash. An order
    of whole domains needs all rows of the domains that are cut: they are sorted by the hash (on
    disk where they are many) and their columns written to scratch files; that holds 40 bytes a row
    of them, beside what the order holds. Domains that are kept whole are not given to it: their
    rows rank by the hash.

    Args:
        keys: open.
        pools: what to keep.
        groups: what `keys.groups` returned.
        seed: of the hash.
        ordering: the order.

    Raises:
        InputError: a row lacks what the order reads.
        SchemaError: a column cannot be ordered by.
        StoreError: the table cannot be read.
    """
    if isinstance(ordering.order, RowOrder) and not ordering.columns:
        return FirstRows(*keys.first(pools, groups, seed), {})
    plan = PoolPlan.of(pools, groups, keys.keys.columns)
    keys.open_candidates()
    values: Mapping[int, float] = {}
    if isinstance(ordering.order, RowOrder):
        _collect_by_key(keys, plan, seed, ordering.order, ordering)
    else:
        values = _collect_by_domain(keys, plan, seed, ordering.order, ordering)
    rows, kept = keys.cut(plan)
    reached = {
        domain: value for index, value in values.items() for domain in plan.pools[index].domains
    }
    return FirstRows(rows, kept, reached)


def keyed_rows(
    rows: pa.RecordBatchReader, order: RowOrder, ordering: Ordering
) -> pa.RecordBatchReader:
    """Rows with the order's numbers in a column `ORDER_KEY`; null where there is none."""
    columns, options = list(ordering.columns), ordering.options
    schema = rows.schema.append(pa.field(ORDER_KEY, pa.float64()))

    def keyed() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            number = order.keys(batch.select(columns), options).cast(pa.float64())
            number = pc.if_else(pc.is_nan(number), pa.scalar(None, pa.float64()), number)
            yield pa.RecordBatch.from_arrays([*batch.columns, number], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, keyed())


def _collect_by_key(
    keys: KeyScan, plan: PoolPlan, seed: int, order: RowOrder, ordering: Ordering
) -> None:
    """Add rows with their numbers, and now and then drop those that others have overtaken."""
    if isinstance(keys, BlockKeyScan):
        # Workers need neither of the two, and get what can be pickled.
        alone = replace(ordering, executor=None, progress=None)
        keyed = partial(keyed_rows, order=order, ordering=alone)
        keys.collect_keyed(plan, plan.thresholds(every_row), seed, ordering.columns, keyed)
        return
    rows = keyed_rows(keys.scan(ordering.columns), order, ordering)
    most = PART_ROWS
    for part in _parts(iter(rows), rows.schema):
        keys.collect(part, plan.thresholds(every_row), seed)
        count = _num_candidates(keys)
        if count > most:
            keys.drop_overtaken(plan)
            count = _num_candidates(keys)
            most = 2 * count + PART_ROWS


def _num_candidates(keys: KeyScan) -> int:
    return int(keys.engine.sql("SELECT count(*) FROM candidates").fetchall()[0][0])


def _parts(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatchReader]:
    """Readers of about `PART_ROWS` rows each, one after the other."""

    def part(first: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        num_rows = first.num_rows
        yield first
        while num_rows < PART_ROWS and (batch := next(batches, None)) is not None:
            num_rows += batch.num_rows
            yield batch

    for first in batches:
        yield pa.RecordBatchReader.from_batches(schema, part(first))


def _collect_by_domain(
    keys: KeyScan, plan: PoolPlan, seed: int, order: DomainOrder, ordering: Ordering
) -> Mapping[int, float]:
    """Add the rows that the order puts first, each with its rank. What it reached, by pool."""
    keys.collect(keys.scan(), plan.thresholds(every_row), seed)
    cut = [
        index
        for index, (pool, size) in enumerate(zip(plan.pools, plan.sizes, strict=True))
        if 0 < pool.keep < size
    ]
    if not cut:
        return {}
    sizes = np.array([plan.sizes[index] for index in cut], np.int64)
    starts = np.cumsum(sizes) - sizes
    keys.engine.register("cut", pa.table({"pool": pa.array(cut, pa.int32()), "start": starts}))
    keys.engine.execute(
        """CREATE OR REPLACE TEMP TABLE placed AS
           SELECT row_index, start - 1 + row_number() OVER (
                      PARTITION BY pool ORDER BY place, utt_id, row_index) AS place_in_file
           FROM candidates JOIN cut USING (pool)"""
    )
    with (
        tempfile.TemporaryDirectory(prefix="curate-order-", dir=ordering.scratch) as name,
        ordering.executor or LocalExecutor() as executor,
    ):
        folder = Path(name)
        files = _write_columns(keys, ordering.columns, folder)
        units = tuple(
            (int(start), int(start + size), plan.pools[index].keep)
            for index, start, size in zip(cut, starts, sizes, strict=True)
        )
        job = _RankPools(order, ordering.options, files, units, folder)
        values = {}
        for done, ranked in enumerate(executor.run(job, len(units)), start=1):
            if ranked.value is not None:
                values[cut[ranked.index]] = ranked.value
            if ordering.progress is not None:
                ordering.progress.update(done, total=len(units), unit="domains", note="ordering")
        chosen = [np.load(job.path(index)) for index in range(len(units))]
    turns = pa.table(
        {
            "place_in_file": np.concatenate(chosen),
            "turn": np.concatenate([np.arange(len(rows), dtype=np.float64) for rows in chosen]),
        }
    )
    keys.engine.register("turns", turns)
    keys.engine.execute(
        f"""CREATE OR REPLACE TEMP TABLE ahead AS
            SELECT candidates.* REPLACE (turn AS {ORDER_KEY})
            FROM candidates
            JOIN (SELECT row_index, turn FROM placed JOIN turns USING (place_in_file)) AS first
              USING (row_index)
            UNION ALL
            SELECT candidates.* FROM candidates ANTI JOIN cut USING (pool)"""
    )
    keys.open_candidates()
    keys.engine.execute("INSERT INTO candidates BY NAME SELECT * FROM ahead")
    keys.engine.execute("DROP TABLE ahead; DROP TABLE placed")
    return values


def _write_columns(keys: KeyScan, columns: Sequence[str], folder: Path) -> Mapping[str, ColumnFile]:
    placed = keys.engine.sql(
        """SELECT row_index::BIGINT AS row_index, place_in_file::BIGINT AS place
           FROM placed ORDER BY row_index"""
    ).fetchnumpy()
    row_index, places = np.asarray(placed["row_index"]), np.asarray(placed["place"])
    del placed
    return write_columns(keys.table, columns, row_index, places, folder, where=keys.where)


@dataclass
class _RankedPool:
    index: int
    value: float | None


@dataclass(frozen=True)
class _RankPools:
    """Asks an order for the first rows of pools; keeps where they are in files."""

    order: DomainOrder
    options: OrderOptions
    files: Mapping[str, ColumnFile]
    units: tuple[tuple[int, int, int], ...]
    """Of each pool where its rows begin and end in the files, and how many to keep."""
    folder: Path

    def path(self, index: int) -> Path:
        return self.folder / f"first-{index}.npy"

    def stage(self, index: int) -> _RankedPool:
        start, stop, keep = self.units[index]
        columns = {name: file.open(start, stop) for name, file in self.files.items()}
        ranked = self.order.first(PoolRows(stop - start, columns), keep, self.options)
        rows = np.asarray(ranked.rows, np.int64)
        _check(self.order, rows, stop - start, keep)
        write_whole(self.path(index), start + rows)
        return _RankedPool(index, ranked.value)


def _check(order: DomainOrder, rows: npt.NDArray[np.int64], num_rows: int, keep: int) -> None:
    seen = np.zeros(num_rows, np.bool_)
    is_within = rows.shape == (keep,) and bool(((rows >= 0) & (rows < num_rows)).all())
    if is_within:
        seen[rows] = True
    if not is_within or int(seen.sum()) != keep:
        raise LakeError(
            "An order did not answer as it must",
            where=type(order).__name__,
            expected=f"{keep} different positions below {num_rows}",
            found=f"{rows.shape} positions, {int(seen.sum())} of them usable",
            fix="This is a fault of the plug-in",
        )
