"""Open an export with the real `lerobot` package, and compare all of it with where it came from.

    python scripts/compare_lerobot.py EXPORT --source DATASET --lerobot-python PYTHON
    python scripts/compare_lerobot.py EXPORT --lake LAKE --name SET --lerobot-python PYTHON

EXPORT is a LeRobot dataset of version 3.0 or 2.1 (which `lerobot` 0.4 opens after its own converter
has been over a copy). DATASET is a LeRobot dataset of any version from 2.0 on: its Parquet and MP4
files are read plainly, with pyarrow and torchcodec, not by `lerobot`. Every value of every frame is
compared, bit by bit in the files and once more as `lerobot` hands it out, and decoded frames: every
20th, or all with --all. Both sides are decoded by the same library, so pictures must be equal too,
unless the export encoded them anew (`--picture-tolerance`). Exits 1 if anything differs.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_NUMBERING = ("timestamp", "frame_index", "episode_index", "index", "task_index")


def main() -> int:
    """Describe the source, and let the other interpreter compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("export", type=Path)
    parser.add_argument("--source", type=Path, help="a LeRobot dataset")
    parser.add_argument("--lake")
    parser.add_argument("--name", help="an episode set of the lake")
    parser.add_argument("--version", type=int)
    parser.add_argument("--episodes", help="the episodes of the source that were exported: 0,3,4")
    parser.add_argument("--lerobot-python", help="an interpreter that has lerobot")
    parser.add_argument("--every", type=int, default=20, help="decode every n-th frame")
    parser.add_argument("--all", action="store_true", help="decode all frames")
    parser.add_argument(
        "--picture-tolerance", type=float, default=0.0, help="mean difference allowed, of 255"
    )
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        return compare(given)
    if not given.lerobot_python or bool(given.source) == bool(given.lake):
        parser.error("--lerobot-python and one of --source and --lake are needed")
    with tempfile.TemporaryDirectory(prefix="compare-lerobot-") as folder:
        below = Path(folder)
        described = from_lake(given, below) if given.lake else from_dataset(given.source)
        if given.episodes:
            wanted = [int(number) for number in given.episodes.split(",")]
            described["episodes"] = [described["episodes"][number] for number in wanted]
        plan = below / "plan.json"
        plan.write_text(json.dumps(described))
        command = [given.lerobot_python, __file__, str(given.export), "--inside", str(plan)]
        command += ["--every", str(1 if given.all else given.every)]
        command += ["--picture-tolerance", str(given.picture_tolerance)]
        return subprocess.run(command, check=False).returncode


# What the source holds, as plain files -----------------------------------------------------------


def from_dataset(root: Path) -> dict[str, Any]:
    """The episodes of a LeRobot dataset, by its metadata."""
    info = json.loads((root / "meta/info.json").read_text())
    described = {"fps": info["fps"], "features": info["features"], "robot": info["robot_type"]}
    reader = _episodes_v2 if info["codebase_version"].startswith("v2") else _episodes_v3
    return described | {"episodes": list(reader(root, info))}


def _episodes_v2(root: Path, info: dict[str, Any]) -> Iterator[dict[str, Any]]:
    tasks = {row["task_index"]: row["task"] for row in _lines(root / "meta/tasks.jsonl")}
    path = root / "meta/episodes_stats.jsonl"
    stats = {row["episode_index"]: row["stats"] for row in _lines(path)} if path.exists() else {}
    for row in _lines(root / "meta/episodes.jsonl"):
        number = row["episode_index"]
        where = {"episode_index": number, "episode_chunk": number // info["chunks_size"]}
        yield {
            "number": number,
            "data": str(root / info["data_path"].format(**where)),
            "length": row["length"],
            "tasks": tasks,
            "stats": stats.get(number, {}),
            "videos": {
                camera: [str(root / info["video_path"].format(video_key=camera, **where)), 0.0]
                for camera, feature in info["features"].items()
                if feature["dtype"] == "video"
            },
        }


def _episodes_v3(root: Path, info: dict[str, Any]) -> Iterator[dict[str, Any]]:
    table = pq.read_table(root / "meta/tasks.parquet")
    text = next(name for name in table.column_names if name != "task_index")
    texts = table[text].to_pylist()
    tasks = dict(zip(table["task_index"].to_pylist(), texts, strict=True))
    for path in sorted((root / "meta/episodes").glob("*/*.parquet")):
        for row in pq.read_table(path).to_pylist():
            stats: dict[str, dict[str, Any]] = {}
            for key, value in row.items():
                if key.startswith("stats/"):
                    _, feature, figure = key.split("/")
                    stats.setdefault(feature, {})[figure] = value
            where = {name: row[f"data/{name}"] for name in ("chunk_index", "file_index")}
            videos = {}
            for camera, feature in info["features"].items():
                if feature["dtype"] == "video":
                    file = {name: row[f"videos/{camera}/{name}"] for name in where}
                    place = root / info["video_path"].format(video_key=camera, **file)
                    if place.exists():
                        videos[camera] = [str(place), row[f"videos/{camera}/from_timestamp"]]
            yield {
                "number": row["episode_index"],
                "data": str(root / info["data_path"].format(**where)),
                "length": row["length"],
                "tasks": tasks,
                "stats": stats,
                "videos": videos,
            }


def from_lake(given: argparse.Namespace, below: Path) -> dict[str, Any]:
    """The episodes of a set in a lake, written out as plain files. Runs in our own interpreter."""
    from datalake.episodes import open_episodes
    from datalake.lake import open_lake

    source = open_episodes(open_lake(given.lake, create=False), given.name, given.version)
    rows = source.episodes.scan().read_all().to_pylist()
    files = {}
    for number, row in enumerate(source.videos.scan(["video_id"]).read_all().to_pylist()):
        path = below / f"{number}.mp4"
        path.write_bytes(source.videos.take([number], ["video"])["video"][0].as_buffer())
        files[row["video_id"]] = str(path)
    first = {each["name"]: each for each in rows[0]["features"]}
    robots = {row["embodiment"] for row in rows}
    features = {
        name: {"dtype": each["dtype"], "shape": each["shape"] or [1], "names": None}
        for name, each in first.items()
    }
    episodes = []
    for number, row in enumerate(rows):
        place = np.arange(source.index.starts[number], source.index.starts[number + 1])
        frames = source.frames.take(place)
        named = frames.rename_columns([name.replace("/", ".") for name in frames.column_names])
        path = below / f"{number}.parquet"
        pq.write_table(named, path)
        episodes.append(
            {
                "number": None,
                "data": str(path),
                "length": row["length"],
                "tasks": {task["task_index"]: task["task"] for task in row["tasks"] or ()},
                "stats": {each["feature"]: each for each in row["stats"] or ()},
                "videos": {
                    span["feature"]: [files[span["video_id"]], span["from_s"]]
                    for span in row["videos"] or ()
                },
            }
        )
    return {
        "fps": rows[0]["fps"],
        "robot": next(iter(robots)) if len(robots) == 1 else None,
        "features": features,
        "episodes": episodes,
    }


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


# The comparison, in lerobot's interpreter --------------------------------------------------------


@dataclass
class Tally:
    """What was compared, and how far it was apart."""

    counts: dict[str, int] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def see(
        self, what: str, number: int, difference: float, where: str, allowed: float = 0
    ) -> None:
        """Numbers were compared, and this was the largest difference."""
        self.counts[what] = self.counts.get(what, 0) + number
        # NaN is the largest difference there is.
        difference = float("inf") if np.isnan(difference) else float(difference)
        self.largest[what] = max(self.largest.get(what, 0.0), difference)
        if difference > allowed:
            self.faults.append(f"{where}: {what} differ by {difference:g}")

    def equal(self, what: str, found: object, expected: object, where: str) -> None:
        """Two things were compared that are equal or not."""
        self.counts[what] = self.counts.get(what, 0) + 1
        self.largest.setdefault(what, 0.0)
        if found != expected:
            self.largest[what] = float("inf")
            self.faults.append(f"{where}: {what}: expected {expected!r}, found {found!r}")


def compare(given: argparse.Namespace) -> int:
    """Compare, print what was compared, and return the exit code."""
    import real_lerobot

    real_lerobot.prepare()
    import lerobot

    plan = json.loads(given.inside.read_text())
    dataset = real_lerobot.open_dataset(real_lerobot.readable(given.export))
    tally = Tally()
    _compare_metadata(dataset, plan, tally)
    start = 0
    for number, episode in enumerate(plan["episodes"]):
        _compare_episode(dataset, plan, number, episode, start, given, tally)
        start += episode["length"]
    tally.equal("number of frames", len(dataset), start, "dataset")
    print(f"{given.export} by lerobot {lerobot.__version__}:")
    for what, count in tally.counts.items():
        print(f"  {count:>10,} {what}, largest difference {tally.largest[what]:g}")
    for fault in tally.faults[:20]:
        print(f"  DIFFERENT {fault}")
    print("all equal" if not tally.faults else f"{len(tally.faults)} differences")
    return 1 if tally.faults else 0


def _compare_metadata(dataset: Any, plan: dict[str, Any], tally: Tally) -> None:
    tally.equal("frame rates", dataset.fps, plan["fps"], "info.json")
    tally.equal("robots", dataset.meta.robot_type, plan["robot"], "info.json")
    tally.equal("number of episodes", dataset.meta.total_episodes, len(plan["episodes"]), "info")
    has_video = any(episode["videos"] for episode in plan["episodes"])
    for name, expected in plan["features"].items():
        if name in _NUMBERING or (expected["dtype"] == "video" and not has_video):
            continue
        found = dataset.meta.features[name]
        for key in ("dtype", "shape", *(("names",) if expected.get("names") else ())):
            value = list(found[key]) if key == "shape" else found[key]
            tally.equal("definitions of features", value, expected[key], f"{name}.{key}")


def _compare_episode(
    dataset: Any,
    plan: dict[str, Any],
    number: int,
    episode: dict[str, Any],
    start: int,
    given: argparse.Namespace,
    tally: Tally,
) -> None:
    import torch

    length, where = episode["length"], f"episode {number}"
    source = _rows(episode["data"], episode["number"])
    tally.equal("lengths of episodes", source.num_rows, length, where)
    written = _written(dataset, number)
    handed = dataset.hf_dataset[start : start + length]
    for name, feature in plan["features"].items():
        if feature["dtype"] == "video" or name in _NUMBERING:
            continue
        if feature["dtype"] == "string":
            tally.equal("texts", handed[name], source[name].to_pylist(), f"{where}, {name}")
        elif feature["dtype"] == "image":
            mine, theirs = _encoded(written[name]), _encoded(source[name])
            tally.see("bytes of pictures", len(mine), float(mine != theirs), f"{where}, {name}")
            for frame in range(0, length, given.every):
                pixels = torch.from_numpy(_pixels(theirs[frame])) / 255
                away = float((handed[name][frame] - pixels).abs().max())
                tally.see("decoded pictures", 1, away, f"{where}, {name}, frame {frame}")
        else:
            mine, theirs = _numbers(written[name]), _numbers(source[name])
            same = mine.dtype == theirs.dtype and mine.tobytes() == theirs.tobytes()
            away = 0.0 if same else _apart(mine, theirs)
            tally.see("numbers in the files", mine.size, away, f"{where}, {name}")
            given_out = torch.stack(handed[name]).numpy().reshape(length, -1)
            # lerobot hands out floats in single precision and whole numbers in 64 bits.
            expected = theirs.astype(given_out.dtype)
            equal = given_out.tobytes() == expected.tobytes()
            away = 0.0 if equal else _apart(given_out, expected)
            tally.see("numbers by lerobot", mine.size, away, f"{where}, {name}")
    _compare_numbering(dataset, number, episode, start, source, handed, tally)
    _compare_stats(dataset, number, episode, tally)
    for camera, (path, from_s) in episode["videos"].items():
        _compare_frames(dataset, camera, path, from_s, start, length, where, given, tally)


def _compare_numbering(
    dataset: Any,
    number: int,
    episode: dict[str, Any],
    start: int,
    source: pa.Table,
    handed: dict[str, Any],
    tally: Tally,
) -> None:
    import torch

    where, length = f"episode {number}", episode["length"]
    times = source["timestamp"].to_numpy().astype(np.float32)
    found = torch.stack(handed["timestamp"]).numpy()
    tally.see("timestamps", length, float(np.abs(found - times).max()), where)
    for name, expected in (
        ("frame_index", np.arange(length)),
        ("episode_index", np.full(length, number)),
        ("index", np.arange(start, start + length)),
    ):
        away = np.abs(torch.stack(handed[name]).numpy() - expected).max()
        tally.see("indices", length, float(away), f"{where}, {name}")
    texts = {int(index): text for index, text in episode["tasks"].items()}
    expected_tasks = [texts.get(index, "") for index in source["task_index"].to_pylist()]
    found_tasks = [dataset.meta.tasks.iloc[int(index)].name for index in handed["task_index"]]
    tally.equal("tasks of frames", found_tasks, expected_tasks, where)
    listed = list(dict.fromkeys(expected_tasks))
    tally.equal("tasks of episodes", dataset.meta.episodes[number]["tasks"], listed, where)


def _compare_stats(dataset: Any, number: int, episode: dict[str, Any], tally: Tally) -> None:
    for feature, figures in episode["stats"].items():
        if feature in _NUMBERING or feature not in dataset.meta.features:
            continue
        written = _episode_stats(dataset, number, feature)
        for figure in ("min", "max", "mean", "std"):
            said, own = figures.get(figure), written.get(figure)
            if said is not None and own is not None:
                theirs, mine = np.ravel(np.array(said, float)), np.ravel(np.array(own, float))
                scale = np.maximum(np.abs(theirs), 1.0)
                away = float((np.abs(mine - theirs) / scale).max())
                where = f"episode {number}, {feature}"
                # lerobot's std is a difference of squares, in single precision.
                tally.see(f"{figure} of its own statistics", mine.size, away, where, 1e-3)


def _compare_frames(
    dataset: Any,
    camera: str,
    path: str,
    from_s: float,
    start: int,
    length: int,
    where: str,
    given: argparse.Namespace,
    tally: Tally,
) -> None:
    import torch
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(path)
    fps = dataset.fps
    frames = sorted({*range(0, length, given.every), length - 1})
    for frame in frames:
        found = dataset[start + frame][camera]
        # A quarter of a frame later the frame is still on.
        source = decoder.get_frame_played_at(from_s + (frame + 0.25) / fps).data
        away = (found - (source / 255.0).type(torch.float32)).abs()
        worst = float(away.max() if not given.picture_tolerance else away.mean()) * 255
        what = "decoded frames of video"
        tally.see(what, 1, worst, f"{where}, {camera}, frame {frame}", given.picture_tolerance)


# Plain reading ------------------------------------------------------------------------------------


def _rows(path: str, number: int | None) -> pa.Table:
    table = pq.read_table(path)
    if number is None or "episode_index" not in table.column_names:
        return table
    return table.filter(pc.equal(table["episode_index"], number))


def _written(dataset: Any, number: int) -> pa.Table:
    path = dataset.root / dataset.meta.get_data_file_path(number)
    return _rows(str(path), number)


def _episode_stats(dataset: Any, number: int, feature: str) -> dict[str, Any]:
    table, prefix = _metadata(dataset.root), f"stats/{feature}/"
    names = [name for name in table.column_names if name.startswith(prefix)]
    return {name.removeprefix(prefix): table[name][number].as_py() for name in names}


@functools.cache
def _metadata(root: Path) -> pa.Table:
    paths = sorted((root / "meta/episodes").glob("*/*.parquet"))
    return pa.concat_tables([pq.read_table(path) for path in paths])


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Shape (frames, elements), in the column's own type."""
    length, flat = len(column), pa.concat_arrays(column.chunks)
    while pa.types.is_nested(flat.type):
        flat = flat.flatten()
    return flat.to_numpy(zero_copy_only=False).reshape(length, -1)


def _encoded(column: pa.ChunkedArray) -> list[bytes]:
    return [each["bytes"] if isinstance(each, dict) else each for each in column.to_pylist()]


def _pixels(encoded: bytes) -> np.ndarray:
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(encoded)))
    return np.moveaxis(np.atleast_3d(pixels), -1, 0).copy()


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference; infinite where it cannot be told."""
    if one.shape != other.shape:
        return float("inf")
    away = np.abs(one.astype(float) - other.astype(float))
    return float(np.max(away)) or float("inf")


if __name__ == "__main__":
    sys.exit(main())
