"""Balanced shards of an episode set, as a table of strides. No frame is read."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from datalake.episodes import open_episodes
from datalake.errors import InputError
from datalake.lake import Lake, Lineage
from datalake.packing import balanced_shards
from datalake.pipelines.packing.report import ShardReport
from datalake.pipelines.packing.target import Target

__all__ = ["SHARDS", "shard"]

SHARDS: Final = pa.schema(
    [
        pa.field("shard_index", pa.int64(), nullable=False),
        pa.field("episode_id", pa.string(), nullable=False),
        # Of the stride's first step in the frames table.
        pa.field("row", pa.int64(), nullable=False),
        # Its first step in the episode, from a step to the next, and how many.
        pa.field("start", pa.int64(), nullable=False),
        pa.field("stride", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
"""One row a stride, by shard, episode and start."""


def shard(
    lake: Lake,
    source: str,
    *,
    into: str | None = None,
    version: int | None = None,
    shard_steps: int = 1024,
    episodes_per_shard: int = 16,
    history: int = 0,
    chunk: int = 1,
    num_ranks: int = 1,
    seed: int = 0,
) -> ShardReport:
    """Deal the steps of an episode set to balanced shards, and write these as a table.

    A step is the current frame of a window of `history` frames before it and `chunk` from it on
    that lies within its episode; so an episode has length - (history + chunk) + 1 steps.

    Raises:
        InputError: a parameter is out of range.
        NotFoundError: there is no such episode set or version.
        ExistsError: the name is taken, or the table has other columns.
        ConflictError: another writer filled the table meanwhile; nothing is published.
    """
    if history < 0 or chunk < 1:
        raise InputError(
            "The window is out of range",
            expected="a history of 0 or more and a chunk of at least 1",
            found=f"{history} and {chunk}",
        )
    episodes = open_episodes(lake, source, version)
    target = Target(lake, into) if into is not None else None
    index = episodes.index
    steps = (index.lengths - (history + chunk) + 1).clip(min=0)
    shards = balanced_shards(
        steps,
        shard_steps,
        episodes_per_shard=episodes_per_shard,
        num_ranks=num_ranks,
        seed=seed,
    )
    versions = {f"{source}.episodes": episodes.version, f"{source}.frames": episodes.frames.version}
    report = ShardReport.of(
        shards,
        source=source,
        versions=versions,
        shard_steps=shard_steps,
        num_left_out=int((steps == 0).sum()),
    )
    if target is None:
        return report
    config = {
        "source": source,
        "as": "shards",
        "shard_steps": shard_steps,
        "episodes_per_shard": episodes_per_shard,
        "history": history,
        "chunk": chunk,
        "num_ranks": num_ranks,
        "seed": seed,
    }
    lineage = Lineage("pack", config, versions)
    starts = shards.starts + history
    rows = pa.table(
        [
            shards.shards,
            index.episode_ids.take(pa.array(shards.episodes)),
            index.starts[shards.episodes] + starts,
            starts,
            shards.strides,
            shards.counts,
        ],
        schema=SHARDS,
    )
    with target.opened(SHARDS, format=episodes.episodes.format, lineage=lineage) as table:
        filled = target.fill(table, table.stager().write(rows), lineage)
    report.table, report.version, report.run_id = target.name, filled.version, lineage.run_id
    return report
