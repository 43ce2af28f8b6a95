"""A selection by blocks is the selection of one pass, row for row."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import curation
from curation.selection import Options, OrderOptions, run
from curation.selection.block_scan import BlockKeyScan, key_scan
from curation.selection.census import Census
from curation.selection.key_scan import KeyScan
from curation.selection.selectors import DOSS, RANDOM
from datalake.pipelines.executors import LocalExecutor
from tests.curation.select.corpora import key_table, stored

SIZES = {"a": 40, "a/x": 90, "a/y": 7, "b": 3, "b/x": 60, "r": 50, "s/z": 45}
CORPUS = key_table(SIZES)
TABLE = stored(CORPUS, blocks=3, shuffle=1)


class Backwards(LocalExecutor):
    """The last block first: as on Ray, the order of blocks is nobody's promise."""

    def run(self, job, num_units):
        for index in reversed(range(num_units)):
            yield job.stage(index)


@settings(max_examples=5, deadline=None)
@given(
    block_rows=st.integers(90, 400),
    seed=st.integers(0, 5),
    cap=st.integers(1, 50),
    where=st.sampled_from([None, "duration_s > 1", "source != 'a'"]),
    is_cut=st.booleans(),
    is_random=st.booleans(),
)
def test_blocks_give_what_one_pass_gives(block_rows, seed, cap, where, is_cut, is_random) -> None:
    ids = CORPUS["utt_id"].slice(0, 250) if is_cut else None
    selector = RANDOM if is_random else DOSS
    options = Options(num_rows=2 * cap) if is_random else Options(cap=cap)

    def chosen(keys: KeyScan) -> tuple[pa.Table, object, object]:
        with keys:
            census = Census.take(keys, TABLE, where, name="corpus")
            rows, kept = keys.first(selector.pools(census.sizes, options), census.groups, seed)
        return rows, dict(sorted(kept.items())), census.available

    by_blocks = BlockKeyScan(TABLE, where, ids, executor=Backwards(), block_rows=block_rows)
    rows, kept, available = chosen(by_blocks)
    wanted = chosen(KeyScan(TABLE, where, ids))
    assert rows.equals(wanted[0])
    assert (kept, available) == wanted[1:]
    assert rows.num_rows


def test_an_order_by_numbers_goes_by_blocks_too(monkeypatch) -> None:
    monkeypatch.setattr(
        run,
        "key_scan",
        lambda table, where, ids, **_: BlockKeyScan(
            table, where, ids, executor=Backwards(), block_rows=80
        ),
    )
    options = {
        "table_name": "corpus", "cap": 9, "order": "quality",
        "order_options": OrderOptions(quality="duration_s"),
    }  # fmt: skip
    by_blocks = curation.select(TABLE, executor=Backwards(), **options)
    monkeypatch.undo()
    assert by_blocks.rows.equals(curation.select(TABLE, **options).rows)


def test_a_block_gives_no_more_than_a_pool_keeps(monkeypatch) -> None:
    emitted = []
    collect = BlockKeyScan.collect_all

    def counting(self, plan, thresholds, seed):
        before = self.engine.sql("SELECT count(*) FROM candidates").fetchall()[0][0]
        collect(self, plan, thresholds, seed)
        after = self.engine.sql("SELECT count(*) FROM candidates").fetchall()[0][0]
        emitted.append(after - before)

    monkeypatch.setattr(BlockKeyScan, "collect_all", counting)
    keys = BlockKeyScan(TABLE, None, executor=LocalExecutor(), block_rows=100)
    with keys:
        census = Census.take(keys, TABLE, None, name="corpus")
        pools = DOSS.pools(census.sizes, Options(cap=2))
        keys.first(pools, census.groups, 0)
    kept = sum(pool.keep for pool in pools)
    assert kept < emitted[0] <= 3 * kept


def test_what_workers_cannot_reach_is_read_here() -> None:
    assert type(key_scan(TABLE, None, executor=Backwards())) is KeyScan
    assert type(key_scan(TABLE, None)) is KeyScan


def test_files_go_and_a_failure_is_named(tmp_path) -> None:
    keys = BlockKeyScan(TABLE, None, executor=LocalExecutor(), scratch=tmp_path)
    with keys:
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
    bad = BlockKeyScan(TABLE, "nothing = 1", executor=LocalExecutor(), scratch=tmp_path)
    with pytest.raises(Exception, match="nothing"), bad:
        bad.groups()
    assert not list(tmp_path.iterdir())
