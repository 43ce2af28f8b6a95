"""Corpus and lake both in a real S3-compatible store."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from datalake.lake import open_lake
from datalake.pipelines import ingest
from datalake.uri import StorageOptions, locate
from tests.pipelines.corpora import ManifestCorpus, quarantined, rows_of, wav
from tests.servers import BUCKET

pytestmark = pytest.mark.s3


@pytest.mark.parametrize("table_format", ["lance", "delta"])
def test_from_store_to_store(tmp_path: Path, s3_server: StorageOptions, table_format: str) -> None:
    corpus = ManifestCorpus(tmp_path / "speech")
    corpus.fill(40)
    corpus.put("clips/0003.wav", b"no audio at all, only some text")
    corpus.add("clips/gone.wav", None)
    corpus.write()
    base = locate(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3_server)
    store, path = base.filesystem()
    store.put(str(corpus.root), f"{path}/speech", recursive=True)
    lake = open_lake(base.join("lake"))

    def run() -> tuple[int, int]:
        report = ingest(
            lake,
            base.join("speech"),
            "corpus",
            connector="manifest",
            executor="local",
            format=table_format,
            part_rows=16,
            max_bad_fraction=1.0,
        )
        return report.num_added, report.num_replaced

    assert run() == (39, 0)
    rows = rows_of(lake["corpus"])
    assert [row["audio"] for row in rows] == [wav(i) for i in range(40) if i != 3]
    assert [reason for _, reason, _ in quarantined(lake)] == ["not_audio", "no_file"]

    store.pipe_file(f"{path}/speech/clips/0003.wav", wav(3))
    store.pipe_file(f"{path}/speech/clips/0004.wav", wav(1004))
    store.invalidate_cache()

    assert run() == (1, 1)
    assert rows_of(lake["corpus"])[4]["audio"] == wav(1004)
    assert [reason for _, reason, _ in quarantined(lake)] == ["no_file"]
    assert run() == (0, 0)
    store.invalidate_cache()
    assert not [name for name in store.find(f"{path}/lake") if name.endswith("units.arrow")]
