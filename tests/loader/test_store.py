"""A loader over a table on a real S3-compatible server, of whatever many fragments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from datalake.blocks.cache import BlockCache
from datalake.loader import Loader, Utterances
from datalake.tables import create_table, open_table
from datalake.tables.protocol import Piece
from datalake.uri import Location, StorageOptions
from tests.loader import corpus
from tests.slow_store import SlowStore

pytestmark = pytest.mark.s3

NUM_FRAGMENTS = 10_000


@pytest.fixture(scope="module")
def store(s3_server: StorageOptions) -> Iterator[SlowStore]:
    with SlowStore(s3_server) as proxy:
        yield proxy


def again(piece: Piece, number: int) -> Piece:
    """The same rows as one more fragment: Lance's name their files, which many may share. Delta's
    are named by their files, of which there is the first only."""
    if piece.format == "lance" or not number:
        return piece
    path = json.loads(piece.payload)["path"]
    return replace(piece, payload=json.dumps({"path": f"{number:05d}-{path}"}))


@pytest.mark.parametrize("table_format", ["lance", "delta"])
def test_opening_ten_thousand_fragments(
    store: SlowStore, tmp_path: Path, table_format: str
) -> None:
    where = Location(f"s3://lake/many.{table_format}", store.options)
    table = create_table(where, corpus.SCHEMA, format=table_format)
    (piece,) = table.stager().write(corpus.rows(3))
    table.commit([again(piece, number) for number in range(NUM_FRAGMENTS)])
    store.counts(reset=True)
    source = Utterances(
        open_table(where, format=table_format), num_samples=50, cache=BlockCache(tmp_path)
    )
    loader = Loader(source, batch_size=4, order="sequential", num_threads=0)
    assert loader.num_examples == 3 * NUM_FRAGMENTS
    assert len(loader) == loader.num_examples / 4
    # Measured: 4 to Lance, which has a manifest; 12 to Delta, whose log is listed and read.
    assert store.counts()["requests"] < 20
