"""The two passes of `KeyScan` by blocks of rows, on an executor: here or on Ray.

A block counts its keys, and then gives at most N_c candidates of each pool, those of the smallest
places (a bottom-N_c sketch). The first N_c of all are among the first N_c of their blocks, so these
candidates are cut to what one pass over the table is cut to. No row is shuffled, and the outcome
hangs neither on the blocks nor on who works on them.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from curation.selection.amounts import Amount, KeyGroup
from curation.selection.key_scan import KeyScan
from curation.selection.pool_plan import PoolPlan
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.tables import Table
from datalake.tables.predicate import columns_of, parse
from datalake.tables.predicate_arrow import to_arrow

__all__ = ["BLOCK_ROWS", "BlockKeyScan", "key_scan"]

BLOCK_ROWS: Final = 1 << 20
"""Rows of a block: their keys are some 100 MB in memory."""

_BATCH_ROWS: Final = 1 << 16

Keyed: TypeAlias = Callable[[pa.RecordBatchReader], pa.RecordBatchReader]


def key_scan(
    table: Table,
    where: str | None,
    ids: pa.ChunkedArray | None = None,
    *,
    executor: Executor | None = None,
    scratch: Path | None = None,
) -> KeyScan:
    """A scan of keys on an executor; in this process where that is the executor.

    Workers cannot reach a table in this process's memory: its keys are read here.
    """
    if executor is None or isinstance(executor, LocalExecutor) or table.format == "memory":
        return KeyScan(table, where, ids)
    return BlockKeyScan(table, where, ids, executor=executor, scratch=scratch)


class BlockKeyScan(KeyScan):
    """A scan of keys by blocks, on an executor. Its files go when it closes."""

    def __init__(
        self,
        table: Table,
        where: str | None,
        ids: pa.ChunkedArray | None = None,
        *,
        executor: Executor,
        scratch: Path | None = None,
        block_rows: int | None = None,
    ) -> None:
        super().__init__(table, where, ids)
        self._executor = executor
        self._scratch = scratch
        self._block_rows = block_rows or BLOCK_ROWS
        self._job: _Block

    def __enter__(self) -> BlockKeyScan:
        super().__enter__()
        with ExitStack() as stack:
            stack.callback(super().__exit__)
            folder = Path(
                self._resources.enter_context(
                    tempfile.TemporaryDirectory(prefix="curate-blocks-", dir=self._scratch)
                )
            )
            self._resources.enter_context(self._executor)
            num_rows = self.table.count_rows()
            starts = tuple(range(0, num_rows, self._block_rows))
            self._job = _Block(
                self.table, self.where, folder, starts, self._block_rows, self._ids is not None
            )
            if self._ids is not None:
                pq.write_table(pa.table({"id": self._ids}), self._job.ids_path)
            stack.pop_all()
        return self

    def groups(self) -> list[KeyGroup]:
        """As of `KeyScan`; blocks are counted on the executor."""
        amounts: dict[tuple[str | None, ...], Amount] = defaultdict(lambda: Amount(0, 0, 0))
        for block in self._executor.run(_Count(self._job), len(self._job.starts)):
            for values, amount in block.groups:
                amounts[values] += amount
        return [
            KeyGroup(values, self.keys.domain(*values), amount)
            for values, amount in sorted(amounts.items(), key=lambda each: repr(each[0]))
        ]

    def collect_all(self, plan: PoolPlan, thresholds: pa.Table, seed: int) -> None:
        """As of `KeyScan`; each block gives what it would keep of its own rows."""
        self._collect(plan, thresholds, seed, (), None)

    def collect_keyed(
        self, plan: PoolPlan, thresholds: pa.Table, seed: int, columns: Sequence[str], keyed: Keyed
    ) -> None:
        """The same in an order by numbers.

        Args:
            plan: of the pools.
            thresholds: of the keys, for every row.
            seed: of the hash that breaks ties.
            columns: what the numbers are made of.
            keyed: adds the column `ORDER_KEY` to rows; picklable.
        """
        self._collect(plan, thresholds, seed, tuple(columns), keyed)

    def _collect(
        self,
        plan: PoolPlan,
        thresholds: pa.Table,
        seed: int,
        columns: tuple[str, ...],
        keyed: Keyed | None,
    ) -> None:
        pq.write_table(thresholds, self._job.folder / "thresholds.parquet")
        # The groups stand in the thresholds; what is left to know of a pool is how many it keeps.
        job = _Sketch(self._job, replace(plan, groups=()), seed, columns, keyed)
        num_kept = sum(pool.keep for pool in plan.pools)
        num_candidates = 0
        for block in self._executor.run(job, len(self._job.starts)):
            path = job.path(block.index)
            self.engine.execute(
                f"INSERT INTO candidates BY NAME SELECT * FROM read_parquet('{_quoted(path)}')"
            )
            path.unlink()
            num_candidates += block.num_rows
            if num_candidates > 2 * num_kept + self._block_rows:
                self.drop_overtaken(plan)
                num_candidates = num_kept


@dataclass(frozen=True)
class _Block:
    """The blocks of a table, and how one is read. Picklable and small."""

    table: Table
    where: str | None
    folder: Path
    starts: tuple[int, ...]
    size: int
    has_ids: bool

    @property
    def ids_path(self) -> Path:
        return self.folder / "ids.parquet"

    def keys(self) -> KeyScan:
        ids = pq.read_table(self.ids_path)["id"] if self.has_ids else None
        return KeyScan(self.table, self.where, ids)

    def rows(self, index: int, columns: Sequence[str]) -> pa.RecordBatchReader:
        """The rows of a block for which `where` holds, with `row_index`."""
        table = self.table
        schema = pa.schema([table.schema.field(name) for name in columns])
        schema = schema.append(pa.field("row_index", pa.uint64()))
        node = None if self.where is None else parse(self.where, table.schema)
        read = list(dict.fromkeys([*columns, *(sorted(columns_of(node)) if node else ())]))

        def batches() -> Iterator[pa.RecordBatch]:
            stop = min(self.starts[index] + self.size, table.count_rows())
            for start in range(self.starts[index], stop, _BATCH_ROWS):
                end = min(start + _BATCH_ROWS, stop)
                part = table.read(start, end, read)
                part = part.append_column("row_index", pa.array(range(start, end), pa.uint64()))
                if node is not None:
                    part = part.filter(to_arrow(node))
                yield from part.select(schema.names).to_batches()

        return pa.RecordBatchReader.from_batches(schema, batches())


@dataclass
class _Counted:
    index: int
    groups: list[tuple[tuple[str | None, ...], Amount]]


@dataclass(frozen=True)
class _Count:
    """Counts the keys of blocks."""

    block: _Block

    def stage(self, index: int) -> _Counted:
        with self.block.keys() as keys:
            found = keys.counted(self.block.rows(index, keys.counted_columns))
        return _Counted(index, [(group.values, group.amount) for group in found])


@dataclass
class _Sketched:
    index: int
    num_rows: int


@dataclass(frozen=True)
class _Sketch:
    """Finds the first rows of each pool in blocks; they go into files."""

    block: _Block
    plan: PoolPlan
    seed: int
    columns: tuple[str, ...]
    keyed: Keyed | None

    def path(self, index: int) -> Path:
        return self.block.folder / f"first-{index}.parquet"

    def stage(self, index: int) -> _Sketched:
        thresholds = pq.read_table(self.block.folder / "thresholds.parquet")
        with self.block.keys() as keys:
            keys.open_candidates()
            rows = self.block.rows(index, keys.scanned_columns(self.columns))
            if self.keyed is not None:
                rows = self.keyed(rows)
            keys.collect(rows, thresholds, self.seed)
            keys.drop_overtaken(self.plan)
            found = keys.engine.sql("SELECT * FROM candidates").to_arrow_table()
        # Two workers may be at one block: the file appears whole or not at all.
        making = self.block.folder / f".{index}.{os.getpid()}.{os.urandom(4).hex()}"
        pq.write_table(found, making)
        making.replace(self.path(index))
        return _Sketched(index, found.num_rows)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
