"""Every corpus reads the same from a real object store as from the disk."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

import connectors
from datalake.connector import Corpus
from datalake.detection import connector
from datalake.errors import StoreError
from datalake.testing.connector_suite import lay_down
from datalake.uri import StorageOptions, locate
from tests.connectors import minicorpora
from tests.servers import BUCKET

pytestmark = pytest.mark.s3


def rows(corpus: Corpus) -> list[dict[str, Any]]:
    return [row for batch in corpus.rows() for row in batch.to_pylist()]


def files(corpus: Corpus) -> list[dict[str, Any]]:
    return [row for batch in corpus.files() for row in batch.to_pylist()]


@pytest.mark.parametrize("name", minicorpora.CORPORA)
def test_the_same_as_on_the_disk(name: str, tmp_path: Path, s3_server: StorageOptions) -> None:
    there = locate(f"s3://{BUCKET}/{uuid.uuid4().hex}/corpus", s3_server)
    here = locate(tmp_path / "corpus")
    for root in (there, here):
        lay_down(minicorpora.CORPORA[name](), root)
    assert connectors.detect(there)[0] == connectors.detect(here)[0]
    remote, local = connector(name).open(there, {}), connector(name).open(here, {})
    assert rows(remote) == rows(local)
    sizes = [(row["path"], row["size_bytes"]) for row in files(local)]
    assert [(row["path"], row["size_bytes"]) for row in files(remote)] == sizes


def test_what_is_added_is_seen(s3_server: StorageOptions) -> None:
    root = locate(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3_server)
    lay_down(minicorpora.wav("real", "a"), root)
    corpus = connector("audio_folder").open(root, {})
    (first,) = files(corpus)
    lay_down(minicorpora.wav("real", "b"), root)
    lay_down({"real/a.wav": b"other"}, root)
    again = files(corpus)
    assert [row["path"] for row in again] == ["real/a.wav", "real/b.wav"]
    assert again[0]["stamp"] != first["stamp"]


def test_wrong_keys_are_one_of_our_errors(s3_server: StorageOptions) -> None:
    options = StorageOptions(s3_server.endpoint, s3_server.region, True, None, "nobody", "wrong")
    with pytest.raises(StoreError, match="cannot be read"):
        connector("audio_folder").open(locate(f"s3://{BUCKET}/corpus", options), {})
