"""The check of whole datasets: a zoo of broken ones, and what shows only over all episodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from datalake.detection import connector
from datalake.episodes.check import check_corpus
from datalake.episodes.validation import Checks
from datalake.errors import ConfigError
from datalake.lake import open_lake
from datalake.quarantine import Reason
from datalake.recording import (
    BadEpisode,
    EpisodeCorpus,
    EpisodeData,
    EpisodeRef,
    Feature,
    Finding,
    Severity,
    VideoFile,
    VideoSpan,
)
from datalake.uri import Location, locate
from scripts import broken_robot_datasets as zoo

KINDS = {kind.folder: kind for kind in zoo.kinds()}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("zoo") / "datasets"
    zoo.make(root)
    return root


@pytest.mark.parametrize("version", [zoo.V21, zoo.V30])
def test_good_datasets(datasets: Path, version: str) -> None:
    assert zoo.verdict(datasets / f"{version}-good", deep=True) == []


@pytest.mark.parametrize("folder", KINDS)
def test_broken_datasets(datasets: Path, folder: str) -> None:
    kind = KINDS[folder]
    found = zoo.verdict(datasets / folder, deep=kind.deep)
    assert (kind.due, kind.severity) in [(f.reason, f.severity) for f in found]
    # A warning is due where nothing is as bad as an error.
    if kind.severity is Severity.WARNING:
        assert not [f for f in found if f.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("folder", "came"),
    [
        ("v2.1-info_empty", "refused: empty_metadata"),
        ("v2.1-nan_action", "1 in quarantine"),
        ("v3.0-video_pointer", "3 in quarantine"),
        ("v2.1-task_without_text", "all in"),
    ],
)
def test_an_ingest_agrees(datasets: Path, tmp_path: Path, folder: str, came: str) -> None:
    found = zoo.verdict(datasets / folder)
    assert zoo.due_at_ingest(KINDS[folder], found) == came
    lake = open_lake(tmp_path / "lake", create=True)
    assert zoo.at_ingest(lake, datasets / folder) == came


def test_flipped_bytes_show_only_where_pictures_are_decoded(datasets: Path) -> None:
    assert zoo.verdict(datasets / "v2.1-video_bytes_flipped") == []


def test_without_video(datasets: Path) -> None:
    corpus = opened(datasets / "v2.1-video_absent")
    assert list(check_corpus(corpus, with_video=False)) == []
    assert [f.reason for f in check_corpus(corpus)] == [Reason.VIDEO_MISSING]


def test_tolerances_and_progress(datasets: Path) -> None:
    corpus = opened(datasets / "v2.1-clock_drifts")
    told: list[tuple[int, int]] = []
    checks = Checks(timestamp_tolerance_s=0.02)
    found = list(check_corpus(corpus, checks, progress=lambda *done: told.append(done)))
    assert found == []
    assert told == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(ConfigError):
        Checks(timestamp_tolerance_s=-1)


def opened(path: Path) -> EpisodeCorpus:
    corpus = connector("lerobot").open(locate(path), {})
    assert isinstance(corpus, EpisodeCorpus)
    return corpus


# The whole ----------------------------------------------------------------------------------------


@dataclasses.dataclass
class Lab:
    """A dataset in memory: lengths of episodes, and the spans of their video."""

    root: Location
    lengths: Sequence[int] = (6, 5, 7)
    ids: Sequence[str] = ("lab/000000", "lab/000001", "lab/000002")
    spans: Sequence[tuple[float, float]] = ()
    bad: int | None = None
    refused: int | None = None
    still: bool = False
    reads: list[int] = dataclasses.field(default_factory=list)

    source = "lab"
    embodiment = None
    fps = 10.0
    features = (Feature("action", "float32", (2,), ("left", "right")),)

    def findings(self) -> Iterator[Finding]:
        yield from ()

    def videos(self) -> Iterator[VideoFile]:
        if self.spans:
            yield VideoFile("lab/v", "camera", "v.mp4", 9, "s")

    def episodes(self) -> Iterator[EpisodeRef]:
        for number, (name, length) in enumerate(zip(self.ids, self.lengths, strict=True)):
            spans = self.spans[number : number + 1]
            yield EpisodeRef(
                name,
                number,
                f"{number}.parquet",
                length,
                "s",
                videos=tuple(VideoSpan("camera", "lab/v", *span) for span in spans),
                refusal=(Reason.NOT_FOUND, "gone") if number == self.refused else None,
            )

    def read(self, refs: Sequence[EpisodeRef]) -> Iterator[EpisodeData | BadEpisode]:
        for ref in refs:
            self.reads.append(ref.episode_index)
            if ref.episode_index == self.bad:
                yield BadEpisode(ref, Reason.CORRUPT, "no rows", 4)
                continue
            length = self.lengths[ref.episode_index]
            action = np.random.default_rng(ref.episode_index).normal(size=(length, 2))
            if self.still:
                action[:, 1] = 0.5
            first = sum(self.lengths[: ref.episode_index])
            frames = pa.table(
                {
                    "action": pa.FixedSizeListArray.from_arrays(action.astype("f4").ravel(), 2),
                    "timestamp": np.arange(length) / 10,
                    "index": np.arange(first, first + length),
                }
            )
            yield EpisodeData(ref, frames, self.features, tasks={0: "wave"})


def test_a_corpus_of_any_format(tmp_path: Path) -> None:
    assert isinstance(Lab(locate(tmp_path)), EpisodeCorpus)
    assert list(check_corpus(Lab(locate(tmp_path)))) == []


def test_episodes_that_cannot_be_read(tmp_path: Path) -> None:
    lab = Lab(locate(tmp_path), bad=1, refused=0)
    first, second = check_corpus(lab)
    assert (first.reason, first.episode_id, first.detail) == (
        Reason.NOT_FOUND,
        "lab/000000",
        "gone",
    )
    assert (second.reason, second.frame_index, second.origin) == (Reason.CORRUPT, 4, "1.parquet")
    # What is refused is not read.
    assert lab.reads == [1, 2]


def test_two_episodes_of_one_id(tmp_path: Path) -> None:
    (found,) = check_corpus(Lab(locate(tmp_path), ids=("lab/a", "lab/b", "lab/a")))
    assert (found.reason, found.severity, found.episode_id) == (
        Reason.DUPLICATE_ID,
        Severity.ERROR,
        "lab/a",
    )


def test_spans_that_overlap(tmp_path: Path) -> None:
    lab = Lab(locate(tmp_path), spans=[(0.0, 0.6), (0.3, 0.8), (0.8, 1.5)])
    (found,) = check_corpus(lab, with_video=False)
    assert (found.reason, found.episode_id) == (Reason.METADATA_MISMATCH, "lab/000001")
    assert "end at 0.600 s, found 0.300 s" in found.detail
    tiled = Lab(locate(tmp_path), spans=[(0.0, 0.6), (0.6, 1.1), (1.1, 1.8)])
    assert list(check_corpus(tiled, with_video=False)) == []


def test_a_shared_video_is_looked_into_once_and_has_nothing_left_over(tmp_path: Path) -> None:
    zoo.write_video(tmp_path / "v.mp4", 21, seed=0)
    spans = [(0.0, 0.6), (0.6, 1.1), (1.1, 1.8)]
    lab = Lab(locate(tmp_path), spans=spans)
    (found,) = check_corpus(lab)
    assert (found.reason, found.severity, found.origin) == (
        Reason.VIDEO_LENGTH_MISMATCH,
        Severity.WARNING,
        "v.mp4",
    )
    assert "3 of its 21 frames are no episode's" in found.detail
    zoo.write_video(tmp_path / "v.mp4", 18, seed=0)
    assert list(check_corpus(lab)) == []


def test_elements_that_never_change(tmp_path: Path) -> None:
    (found,) = check_corpus(Lab(locate(tmp_path), still=True))
    assert (found.reason, found.severity, found.feature) == (
        Reason.CONSTANT,
        Severity.WARNING,
        "action",
    )
    assert "1 of 2 elements never change in any episode (right)" in found.detail


@pytest.mark.shared
def test_real_datasets(shared_dir: Path) -> None:
    root = shared_dir / "data/robot"
    assert list(check_corpus(opened(root / "g1_pick_v21"))) == []
    absent = opened(root / "so101_v30_novideo")
    assert list(check_corpus(absent, with_video=False)) == []
    found = list(check_corpus(absent))
    assert {f.reason for f in found} == {Reason.VIDEO_MISSING}
    assert len(found) == 8
