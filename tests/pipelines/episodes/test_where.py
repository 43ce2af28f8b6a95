"""The same from a store, beside another writer, and within a bound of memory."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datalake.episodes import open_episodes
from datalake.errors import ConflictError
from datalake.lake import Lineage, open_lake
from datalake.pipelines import ingest
from datalake.pipelines.episodes import EpisodeReport, work
from datalake.pipelines.executors import LocalExecutor
from datalake.uri import StorageOptions, locate
from tests.pipelines.episodes.corpora import contents, refused_episodes, toy, video
from tests.servers import BUCKET

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.mark.s3
def test_from_store_to_store(tmp_path: Path, s3_server: StorageOptions) -> None:
    corpus = toy(tmp_path / "toys", 3)
    corpus.add(5, video="videos/gone.mp4")
    corpus.write()
    base = locate(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3_server)
    store, path = base.filesystem()
    store.put(str(corpus.root), f"{path}/toys", recursive=True)
    lake = open_lake(base.join("lake"))

    def run() -> EpisodeReport:
        report = ingest(lake, base.join("toys"), "g1", connector="toy", executor="local")
        assert isinstance(report, EpisodeReport)
        return report

    assert run().num_added == 3
    here = open_lake(tmp_path / "lake")
    ingest(here, corpus.root, "g1", connector="toy", executor="local")
    assert contents(open_episodes(lake, "g1")) == contents(open_episodes(here, "g1"))
    assert [reason for _, reason, _, _ in refused_episodes(lake)] == ["video_missing"]

    store.pipe_file(f"{path}/toys/videos/gone.mp4", video(5, 3))
    store.invalidate_cache()
    assert (run().num_added, run().num_unchanged) == (1, 4)
    assert refused_episodes(lake) == []


class Shuffled(LocalExecutor):
    """Finishes the units of a job in an order of its own, as Ray may."""

    def run(self, job: Any, num_units: int) -> Iterator[Any]:  # type: ignore[override]
        for index in [*range(1, num_units), 0]:
            yield job.stage(index)


def test_the_order_is_the_datasets_whatever_is_done_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "cut", lambda items, *_, **__: ([item] for item in items))
    corpus = toy(tmp_path / "toys", 5)
    lake = open_lake(tmp_path / "lake")
    options: dict[str, Any] = {"connector": "toy", "commit_every_s": 0}
    ingest(lake, corpus.root, "g1", executor=Shuffled(), **options)
    ids = open_episodes(lake, "g1").index.episode_ids.to_pylist()
    assert ids == [f"toys/{number:06d}" for number in range(5)]


class Meddling(LocalExecutor):
    """Lets another writer publish before the first unit comes back."""

    def __init__(self, lake: Any) -> None:
        self.lake = lake

    def run(self, job: Any, num_units: int) -> Iterator[Any]:  # type: ignore[override]
        open_episodes(self.lake, "g1").to_write().publish([], lineage=Lineage("meddle"))
        yield from super().run(job, num_units)


def test_a_second_writer_is_told_and_has_written_nothing(tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 2)
    lake = open_lake(tmp_path / "lake")
    with pytest.raises(ConflictError, match="Run the same command again"):
        ingest(lake, corpus.root, "g1", connector="toy", executor=Meddling(lake))
    assert open_episodes(lake, "g1").episodes.count_rows() == 0
    assert ingest(lake, corpus.root, "g1", connector="toy", executor="local").num_added == 2
    assert open_episodes(lake, "g1").videos.count_rows() == 2


# In a process of its own, whose peak is the ingest's.
PEAK = """
import resource, sys
from datalake.lake import open_lake
from datalake.pipelines import ingest
from tests.pipelines.episodes.corpora import registered

with registered():
    report = ingest(open_lake(sys.argv[2]), sys.argv[1], "g1", connector="toy", executor="local")
assert report.num_bytes > 0
print(report.num_added, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
FILE_BYTES = 4 << 20


def peak_bytes(folder: Path, num_episodes: int) -> int:
    corpus = toy(folder / "toys", num_episodes)
    for number in range(num_episodes):
        # MP4 with a box behind its end that says nothing: as large as one likes.
        data = video(4 + number % 3, number)
        padding = FILE_BYTES.to_bytes(4, "big") + b"free" + bytes(FILE_BYTES - 8)
        corpus.put(f"videos/{number:06d}.mp4", data + padding)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(corpus.root), str(folder / "lake")],
        capture_output=True, text=True, cwd=CHECKOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    num_added, peak = map(int, done.stdout.split())
    assert num_added == num_episodes
    return peak


def test_memory_holds_a_file_not_the_dataset(tmp_path: Path) -> None:
    small, large = peak_bytes(tmp_path / "small", 4), peak_bytes(tmp_path / "large", 24)
    assert large - small < 20 * FILE_BYTES // 3, (small, large)
