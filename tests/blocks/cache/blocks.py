"""Blocks that tests put in a cache: what a key stands for can be told by everybody."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from datalake.blocks.cache import BlockCache, Key

BLOCK_BYTES = 20_480
"""Of every block on disk."""

_VALUE_BYTES = 19_000


def key_of(number: int, table: str = "file:///lake/tables/corpus.lance") -> Key:
    return Key(table, 3, "audio", 10 * number, 10 * number + 10)


@lru_cache
def block(key: Key) -> pa.RecordBatch:
    """The block of a key: random bytes that follow from it."""
    rng = np.random.default_rng(key.first)
    return pa.record_batch({"audio": pa.array([rng.bytes(_VALUE_BYTES // 10) for _ in range(10)])})


def get(cache: BlockCache, number: int, **more) -> pa.RecordBatch:
    """Block number `number`, which must be what it ought to be."""
    key = key_of(number)
    found = cache.get(key, lambda: block(key), **more)
    assert found.equals(block(key))
    return found


def refuse() -> pa.RecordBatch:
    raise AssertionError("the block is there, and nobody need make it")


def files(directory: Path, folder: str = "blocks") -> list[Path]:
    return [Path(at) / name for at, _, names in os.walk(directory / folder) for name in names]


def disk_bytes(directory: Path) -> int:
    """What the cache's files take, finished or not."""
    total = 0
    for path in files(directory) + files(directory, "new"):
        try:
            total += os.stat(path).st_blocks * 512
        except FileNotFoundError:
            continue
    return total
