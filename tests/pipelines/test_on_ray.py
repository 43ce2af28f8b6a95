"""The same on Ray: one cluster for all of these tests."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

from datalake.errors import LakeError, NotFoundError, StoreError
from datalake.lake import open_lake
from datalake.pipelines import ingest, ray_executor
from datalake.pipelines.ray_executor import RayExecutor
from datalake.pipelines.settings import Settings
from datalake.pipelines.stage import StageJob
from datalake.pipelines.units import UnitWriter
from datalake.tables import Piece
from datalake.uri import Location
from tests.pipelines.corpora import ManifestCorpus, quarantined, rows_of, wav


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayExecutor]:
    with RayExecutor(num_workers=2) as executor:
        yield executor


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ManifestCorpus:
    corpus = ManifestCorpus(tmp_path_factory.mktemp("ray") / "speech")
    corpus.fill(600)
    corpus.put("clips/0010.wav", b"no audio at all, only some text")
    corpus.add("clips/gone.wav", None)
    corpus.write()
    return corpus


def test_ray_and_this_process_write_the_same(
    cluster: RayExecutor, corpus: ManifestCorpus, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    by_ray, here = open_lake(tmp_path / "ray"), open_lake(tmp_path / "here")

    report = ingest(by_ray, corpus.root, "corpus", executor="ray", part_rows=64)
    ingest(here, corpus.root, "corpus", executor="local", part_rows=64)

    assert report.num_added == 599
    assert rows_of(by_ray["corpus"]) == rows_of(here["corpus"])
    assert quarantined(by_ray) == quarantined(here)
    assert len(quarantined(here)) == 2
    # Ray has much to say, and none of it is a result or an error of ours.
    assert capfd.readouterr() == ("", "")


def test_changes_are_replaced_by_way_of_workers(
    cluster: RayExecutor, corpus: ManifestCorpus, tmp_path: Path
) -> None:
    lake = open_lake(tmp_path / "lake")
    ingest(lake, corpus.root, "corpus", executor="local")
    corpus.put("clips/0020.wav", wav(1020))

    report = ingest(lake, corpus.root, "corpus", executor=cluster)

    assert (report.num_replaced, report.num_added) == (1, 0)
    assert rows_of(lake["corpus"])[19]["audio"] == wav(1020)


def test_a_worker_that_is_killed_costs_nothing(
    cluster: RayExecutor, corpus: ManifestCorpus, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = open_lake(tmp_path / "lake")
    killed: list[int] = []

    def kill_one() -> None:
        deadline = time.monotonic() + 30
        while not killed and time.monotonic() < deadline:
            for process in psutil.Process().children(recursive=True):
                if process.name().startswith("ray::MapBatches") or "_stage" in process.name():
                    os.kill(process.pid, signal.SIGKILL)
                    killed.append(process.pid)
                    return
            time.sleep(0.005)

    killer = threading.Thread(target=kill_one)
    killer.start()
    report = ingest(lake, corpus.root, "corpus", executor=cluster, part_rows=64)
    killer.join()

    assert killed, "no worker was seen at work"
    assert report.num_added == 599
    ids = [row["utt_id"] for row in rows_of(lake["corpus"])]
    assert len(ids) == len(set(ids)) == 599
    assert capfd.readouterr().out == ""


def test_an_error_of_a_worker_arrives_as_itself(
    cluster: RayExecutor, corpus: ManifestCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path / "lake")

    def removing(self: object, job: object, num_units: int) -> Iterator[object]:
        # The plan is gone before the workers read it.
        (Path(job.units.uri)).unlink()  # type: ignore[attr-defined]
        return run(self, job, num_units)  # type: ignore[arg-type]

    run = RayExecutor.run
    monkeypatch.setattr(RayExecutor, "run", removing)
    with pytest.raises(NotFoundError, match=r"units\.arrow"):
        ingest(lake, corpus.root, "corpus", executor=cluster)
    assert lake["corpus"].count_rows() == 0


class DeadlyStager:
    """Stands for a file that crashes its decoder."""

    def write(self, data: object) -> list[Piece]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []


def test_a_unit_that_kills_every_worker_ends_the_run(
    cluster: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_executor, "_MAX_RETRIES", 1)
    units = Location(str(tmp_path / "units.arrow"))
    nothing = pa.schema(
        [
            *((name, pa.string()) for name in ("action", "path", "utt_id", "known_sha256")),
            *((name, pa.string()) for name in ("refused", "detail", "origin")),
            ("size_bytes", pa.int64()),
        ]
    )
    with UnitWriter(units, nothing) as writer:
        item = dict.fromkeys(nothing.names) | {"action": "add", "path": "a.wav"}
        writer.write(np.zeros((1, 1), np.int64), pa.RecordBatch.from_pylist([item], nothing))
    job = StageJob(units, units, units, DeadlyStager(), pa.schema([]), Settings())
    with pytest.raises(LakeError, match="worker failed"):
        list(cluster.run(job, 1))


def test_a_cluster_that_is_not_there_is_named_at_once() -> None:
    started = time.monotonic()
    with pytest.raises(StoreError, match=r"cannot be joined .127\.0\.0\.1:1."):
        RayExecutor(address="127.0.0.1:1")._start()
    assert time.monotonic() - started < 10
