"""Shards as a table of strides."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalake.errors import ExistsError, InputError, NotFoundError
from datalake.lake import Lake, open_lake
from datalake.pipelines.packing import PackSettings, pack, shard
from tests.robots import LENGTHS, write_robots


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


def test_every_step_with_a_whole_window_lies_in_one_shard(lake: Lake) -> None:
    g1 = write_robots(lake, video=False)
    report = shard(lake, "g1", into="shards", shard_steps=8, episodes_per_shard=4,
                   history=2, chunk=6)  # fmt: skip
    rows = lake["shards"].scan().read_all().to_pylist()
    steps = [
        (row["episode_id"], row["start"] + row["stride"] * number)
        for row in rows
        for number in range(row["count"])
    ]
    assert sorted(steps) == [
        (f"robots/{number:06d}", step)
        for number, length in enumerate(LENGTHS)
        for step in range(2, length - 6 + 1)
    ]
    for row in rows:
        number = g1.index.row_of(row["episode_id"])
        assert row["row"] == g1.index.starts[number] + row["start"]
    assert report.num_steps == len(steps)
    assert report.num_shards == 1 + max(row["shard_index"] for row in rows)
    assert report.num_left_out == 1
    assert report.most_steps - report.least_steps <= report.largest_stride <= 2
    assert "1 episode left out" in str(report)
    entry = lake.log("shards")[-1]
    assert (entry.operation, entry.config["as"]) == ("pack", "shards")
    assert entry.inputs["g1.episodes"] == g1.version


def test_without_a_name_it_only_reports(lake: Lake) -> None:
    write_robots(lake, video=False)
    before = lake.tables()
    report = shard(lake, "g1", shard_steps=16, episodes_per_shard=4)
    assert report.num_steps == sum(LENGTHS)
    assert lake.tables() == before


def test_names_and_parameters_that_will_not_do(lake: Lake) -> None:
    write_robots(lake, video=False)
    with pytest.raises(NotFoundError, match="Did you mean g1"):
        shard(lake, "g2")
    with pytest.raises(InputError, match="out of range"):
        shard(lake, "g1", chunk=0)
    with pytest.raises(InputError, match="out of range"):
        shard(lake, "g1", shard_steps=8)
    pack(lake, "g1", PackSettings(budget=30, unit="frames"), into="packed", executor="local")
    with pytest.raises(ExistsError, match="other columns"):
        shard(lake, "g1", into="packed")


def test_a_set_without_episodes(lake: Lake) -> None:
    write_robots(lake, lengths=[], video=False)
    report = shard(lake, "g1", into="shards")
    assert (report.num_shards, lake["shards"].count_rows()) == (0, 0)
    assert str(report)
