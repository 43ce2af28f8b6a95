"""A robot dataset as small as can be: a JSON file that says all, and real MP4 files.

It stands in for a format: registered by `registered()`, so that `ingest` and the command line
open it like any other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from datalake import detection
from datalake.connector import Evidence
from datalake.episodes import EpisodeSet
from datalake.lake import Lake
from datalake.quarantine import Reason
from datalake.recording import (
    BadEpisode,
    EpisodeData,
    EpisodeRef,
    Feature,
    Finding,
    Severity,
    VideoFile,
    VideoSpan,
)
from datalake.uri import Location
from tests.robots import clip

FPS = 10.0
CAMERA = "observation.images.front"
FEATURES = (
    Feature("observation.state", "float32", (3,), ("a", "b", "c"), "rad"),
    Feature("action", "float32", (3,), ("a", "b", "c"), "rad"),
    Feature("next.reward", "float32", (1,)),
    Feature(CAMERA, "video", (24, 32, 3), ("height", "width", "channels")),
)


@cache
def video(num_frames: int, seed: int) -> bytes:
    """A small MP4 file, the same on every run."""
    return clip(num_frames, fps=FPS, seed=seed)


@dataclass
class ToyCorpus:
    """Writes such a dataset. `write` makes it so on disk."""

    root: Path
    episodes: list[dict[str, Any]] = field(default_factory=list)
    features: tuple[Feature, ...] = FEATURES
    findings: list[dict[str, Any]] = field(default_factory=list)

    def add(self, length: int = 5, *, seed: int | None = None, **changes: Any) -> int:
        """Add an episode with a video of its own. Returns its number."""
        number = len(self.episodes)
        path = f"videos/{number:06d}.mp4"
        self.episodes.append(
            {
                "number": number,
                "length": length,
                "seed": number if seed is None else seed,
                "task": f"task {number % 2}",
                "video": path,
                "from_s": 0.0,
                "fault": None,
                **changes,
            }
        )
        if CAMERA in {feature.name for feature in self.features} and "video" not in changes:
            self.put(path, video(length, number))
        return number

    def put(self, path: str, data: bytes) -> None:
        """Write a file, new or over an old one."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def write(self) -> ToyCorpus:
        """Write the description."""
        self.root.mkdir(parents=True, exist_ok=True)
        said = {
            "features": [feature.as_row() for feature in self.features],
            "episodes": self.episodes,
            "findings": self.findings,
        }
        (self.root / "toy.json").write_text(json.dumps(said))
        return self


def toy(root: Path, num_episodes: int = 4, **changes: Any) -> ToyCorpus:
    """A dataset of some good episodes, written."""
    corpus = ToyCorpus(root, **changes)
    for number in range(num_episodes):
        corpus.add(4 + number % 3)
    return corpus.write()


def frames_of(number: int, length: int, seed: int, features: Sequence[Feature]) -> pa.Table:
    """The frames of an episode, the same on every run."""
    rng = np.random.default_rng([seed, number])
    columns: dict[str, Any] = {
        "timestamp": pa.array((np.arange(length) / FPS).astype("float32")),
        "frame_index": pa.array(np.arange(length)),
        "task_index": pa.array(np.full(length, number % 2)),
    }
    for feature in features:
        if feature.dtype == "video":
            continue
        values = rng.normal(size=(length, feature.num_elements)).astype(feature.dtype)
        flat = pa.array(values.ravel())
        columns[feature.name] = (
            flat
            if feature.num_elements == 1
            else pa.FixedSizeListArray.from_arrays(flat, feature.num_elements)
        )
    return pa.table(columns)


@dataclass(frozen=True)
class OpenedToy:
    """The dataset, opened: an `EpisodeCorpus`."""

    root: Location
    source: str
    features: tuple[Feature, ...]
    said: dict[str, Any]
    embodiment: str | None = "toy arm"
    fps: float = FPS

    def findings(self) -> Iterator[Finding]:
        for row in self.said["findings"]:
            yield Finding(
                Reason(row["reason"]),
                Severity(row["severity"]),
                row["detail"],
                row.get("episode_id"),
                feature=row.get("feature"),
            )

    def _stat(self, path: str) -> tuple[int | None, str]:
        filesystem, base = self.root.filesystem()
        try:
            data = filesystem.cat_file(f"{base}/{path}")
        except FileNotFoundError:
            return None, ""
        return len(data), hashlib.md5(data).hexdigest()

    def _video_id(self, path: str) -> str:
        return f"{self.source}/{path.removesuffix('.mp4')}"

    def videos(self) -> Iterator[VideoFile]:
        for path in dict.fromkeys(row["video"] for row in self.said["episodes"] if row["video"]):
            yield VideoFile(self._video_id(path), CAMERA, path, *self._stat(path))

    def episodes(self) -> Iterator[EpisodeRef]:
        has_video = any(feature.dtype == "video" for feature in self.features)
        stats = {row["video"]: self._stat(row["video"]) for row in self.said["episodes"]}
        for row in self.said["episodes"]:
            spans: tuple[VideoSpan, ...] = ()
            if has_video and row["video"]:
                end = row["from_s"] + row["length"] / FPS
                spans = (VideoSpan(CAMERA, self._video_id(row["video"]), row["from_s"], end),)
            stamp = hashlib.md5(json.dumps([row, stats[row["video"]]]).encode()).hexdigest()
            refused = row["fault"] == "refused"
            yield EpisodeRef(
                f"{self.source}/{row['number']:06d}",
                row["number"],
                f"toy.json:{row['number']}",
                row["length"],
                stamp,
                num_bytes=row["length"] * 32,
                videos=spans,
                refusal=(Reason.EMPTY_METADATA, "nothing is said of it") if refused else None,
                hint=row,
            )

    def read(self, refs: Sequence[EpisodeRef]) -> Iterator[EpisodeData | BadEpisode]:
        for ref in refs:
            row = ref.hint
            if row["fault"] == "unreadable":
                yield BadEpisode(ref, Reason.CORRUPT, "its rows cannot be read", 2)
                continue
            frames = frames_of(row["number"], row["length"], row["seed"], self.features)
            if row["fault"] == "nan":
                values = np.full((row["length"], 3), np.nan, np.float32)
                column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 3)
                at = frames.column_names.index("action")
                frames = frames.set_column(at, "action", column)
            if row["fault"] == "type":
                at = frames.column_names.index("next.reward")
                frames = frames.set_column(at, "next.reward", frames["next.reward"].cast("double"))
            tasks = {row["number"] % 2: row["task"]}
            said = {"mean": [[[0.5]]] * 3, "std": [[[0.1]]] * 3, "min": [[[0.0]]] * 3,
                    "max": [[[1.0]]] * 3, "count": [row["length"]]}  # fmt: skip
            yield EpisodeData(
                ref, frames, self.features, tasks, metadata={"by": "ada"}, stats={CAMERA: said}
            )


class ToyConnector:
    """The format's connector."""

    name = "toy"
    options = ()

    def detect(self, root: Location) -> Evidence | None:
        filesystem, path = root.filesystem()
        if not filesystem.exists(f"{path}/toy.json"):
            return None
        return Evidence("toy", 0.99, ("toy.json",))

    def open(self, root: Location, options: Mapping[str, str]) -> OpenedToy:
        filesystem, path = root.filesystem()
        said = json.loads(filesystem.cat_file(f"{path}/toy.json"))
        features = tuple(Feature.from_row(row) for row in said["features"])
        return OpenedToy(root, options.get("source", root.name), features, said)


@contextmanager
def registered() -> Iterator[None]:
    """The format is known within the block."""
    load = detection.plugins.load

    def loading(group: str, name: str) -> object:
        return ToyConnector() if name == "toy" else load(group, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detection.plugins, "load", loading)
        yield


def contents(episode_set: EpisodeSet) -> tuple[Any, ...]:
    """All that a set holds: episodes and frames in order, videos by id."""
    frames = episode_set.frames.scan().read_all().to_pylist()
    videos = episode_set.videos.scan().read_all().to_pylist()
    return (
        episode_set.episodes.scan().read_all().to_pylist(),
        frames,
        sorted(videos, key=lambda row: str(row["video_id"])),
    )


def refused_episodes(lake: Lake, name: str = "g1") -> list[tuple[str, str, int | None, str]]:
    """(episode, reason, frame, origin) of the quarantine table of a set, sorted."""
    if f"{name}.quarantine" not in lake:
        return []
    columns = ["episode_id", "reason", "frame_index", "origin"]
    rows = lake[f"{name}.quarantine"].scan(columns).read_all().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=str)
