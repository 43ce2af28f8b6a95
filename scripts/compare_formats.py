"""Ingest datasets that the formats' own libraries wrote, and compare the lake with them.

    python scripts/compare_formats.py DIR [--tfds-python PYTHON]

HDF5 in robomimic's layout is written by h5py, ROS 2 bags in MCAP by rosbags, and RLDS by TensorFlow
Datasets, which lives in an environment of its own (`--tfds-python`); without it, the small dataset
that it wrote for our tests is taken. Every value of every frame is compared, bit by bit; pictures
byte by byte where the format holds encoded ones, else pixel by pixel. Exits 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
from PIL import Image

from datalake.episodes import EpisodeSet, open_episodes
from datalake.lake import Lake, open_lake
from datalake.pipelines import ingest
from datalake.recording import Feature

_FIXTURE = Path(__file__).parents[1] / "tests/connectors/robots/data/rlds"


class Comparison:
    """Counts values that were compared, and prints those that differ."""

    def __init__(self) -> None:
        self.same: Counter[str] = Counter()
        self.different = 0

    def equal(self, what: str, found: object, expected: object) -> None:
        """Compare one array or value; NaN equals NaN of the same bits."""
        one, other = np.asarray(found), np.asarray(expected)
        if (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes()):
            self.same[what] += one.size
            return
        self.different += 1
        print(f"  DIFFERENT {what}: expected {_short(other)}, found {_short(one)}")

    def report(self, name: str) -> None:
        """Print what was compared."""
        for what, count in self.same.items():
            print(f"  {count:>9,} {what}")
        print(f"  {name}: {'all equal' if not self.different else 'DIFFERENT'}")


def _short(array: np.ndarray) -> str:
    return f"{array.dtype} {array.shape} {array.ravel()[:4]}"


class Episode:
    """One episode of the lake as arrays."""

    def __init__(self, episodes: EpisodeSet, row: int) -> None:
        self._features = {feature.name: feature for feature in episodes.features}
        start, end = episodes.index.starts[row : row + 2]
        self._frames = episodes.frames.take(range(start, end))
        self.row: Mapping[str, Any] = episodes.episodes.take([row]).to_pylist()[0]

    def numbers(self, name: str) -> np.ndarray:
        """A feature of numbers, shape (frames, …)."""
        feature = self._features[name]
        column = self._frames[feature.column].combine_chunks()
        values = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
        return values.to_numpy(zero_copy_only=False).reshape(len(column), *feature.shape)

    def encoded(self, name: str) -> list[bytes]:
        """A feature of pictures, as stored."""
        return self._frames[Feature(name, "image").column].to_pylist()

    def texts(self) -> list[str]:
        """The task of each frame."""
        tasks = {task["task_index"]: task["task"] for task in self.row["tasks"]}
        return [tasks[number] for number in self._frames["task_index"].to_pylist()]


def _ingested(lake: Lake, path: Path, name: str, **options: str) -> list[Episode]:
    report = ingest(lake, path, name, connector_options=options, executor="local")
    print(report)
    episodes = open_episodes(lake, name)
    rows = range(episodes.episodes.count_rows())
    return [Episode(episodes, row) for row in rows]


# HDF5 ---------------------------------------------------------------------------------------------


def compare_hdf5(folder: Path, lake: Lake) -> int:
    """robomimic's layout, by h5py."""
    path = folder / "lift.hdf5"
    written = []
    with h5py.File(path, "w") as file:
        env = {"env_name": "Lift", "env_kwargs": {"robots": ["Panda"], "control_freq": 20}}
        file.create_group("data").attrs["env_args"] = json.dumps(env)
        for number in range(12):
            rng = np.random.default_rng(number)
            length = 20 + 3 * number
            demo = {
                "actions": rng.uniform(-1, 1, (length, 7)),
                "rewards": (np.arange(length) == length - 1).astype("f8"),
                "dones": (np.arange(length) == length - 1).astype("i8"),
                "obs/eef_pos": rng.normal(size=(length, 3)),
                "obs/joints": rng.normal(size=(length, 7)).astype("f4"),
                "obs/agentview_image": rng.integers(0, 256, (length, 24, 32, 3), "u1"),
            }
            group = file.create_group(f"data/demo_{number}")
            group.attrs["num_samples"] = length
            for key, values in demo.items():
                group[key] = values
            written.append(demo)
    comparison = Comparison()
    names = {
        "actions": "action",
        "rewards": "next.reward",
        "dones": "next.done",
        "obs/eef_pos": "observation.eef_pos",
        "obs/joints": "observation.joints",
    }
    for demo, episode in zip(written, _ingested(lake, path, "hdf5"), strict=True):
        for key, name in names.items():
            numbers = episode.numbers(name).reshape(demo[key].shape)
            comparison.equal(f"numbers of {name}", numbers, demo[key])
        pictures = episode.encoded("observation.images.agentview_image")
        pixels = np.stack([np.asarray(Image.open(io.BytesIO(data))) for data in pictures])
        comparison.equal("pixels", pixels, demo["obs/agentview_image"])
    comparison.report("HDF5")
    return comparison.different


# MCAP ---------------------------------------------------------------------------------------------


def compare_mcap(folder: Path, lake: Lake) -> int:
    """ROS 2 bags in MCAP, by rosbags: joints at 50 Hz, commands at 25 Hz, a camera at 10 Hz."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    types = store.types
    start, second = 1_700_000_000_000_000_000, 1_000_000_000
    sent: list[dict[str, list[tuple[int, Any]]]] = []
    for number in range(3):
        rng = np.random.default_rng(number)
        topics: dict[str, list[tuple[int, Any]]] = {}
        for topic, rate in (("/joint_states", 50), ("/arm/command", 25), ("/camera", 10)):
            times = [start + nth * second // rate for nth in range(rate * 2)]
            if topic == "/camera":
                topics[topic] = [(time, _jpeg(rng)) for time in times]
            else:
                topics[topic] = [(time, rng.normal(size=6)) for time in times]
        sent.append(topics)
        with Writer(
            folder / "bags" / f"bag{number}", version=9, storage_plugin=StoragePlugin.MCAP
        ) as bag:
            order = sorted(
                (time, topic, nth)
                for topic, pairs in topics.items()
                for nth, (time, _) in enumerate(pairs)
            )
            connections: dict[str, Any] = {}
            for time, topic, nth in order:
                message = _message(types, topic, time, topics[topic][nth][1])
                kind = message.__msgtype__
                if topic not in connections:
                    connections[topic] = bag.add_connection(topic, kind, typestore=store)
                bag.write(connections[topic], time, store.serialize_cdr(message, kind))
    comparison = Comparison()
    options = {"state": "/joint_states:position", "action": "/arm/command:data"}
    options["camera.front"] = "/camera"
    found = _ingested(lake, folder / "bags", "mcap", **options)
    for topics, episode in zip(sent, found, strict=True):
        pictures = episode.encoded("observation.images.front")
        first = [data for _, data in topics["/camera"]].index(pictures[0])
        shown = topics["/camera"][first : first + len(pictures)]
        comparison.equal("pictures, byte by byte", pictures, [data for _, data in shown])
        # A frame stands midway between two pictures and takes the latest message before it.
        moments = [time + second // 20 for time, _ in shown]
        for topic, name in (
            ("/joint_states", "observation.state"),
            ("/arm/command", "action"),
        ):
            held = [
                [value for time, value in topics[topic] if time <= moment][-1] for moment in moments
            ]
            comparison.equal(f"numbers of {name}", episode.numbers(name), np.stack(held))
    comparison.report("MCAP")
    return comparison.different


def _jpeg(rng: np.random.Generator) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (24, 32, 3), "u1")).save(buffer, "JPEG")
    return buffer.getvalue()


def _message(types: Any, topic: str, time: int, value: Any) -> Any:
    sec, nanosec = divmod(time, 1_000_000_000)
    stamp = types["builtin_interfaces/msg/Time"](sec=sec, nanosec=nanosec)
    header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="base")
    if topic == "/camera":
        return types["sensor_msgs/msg/CompressedImage"](
            header=header, format="jpeg", data=np.frombuffer(value, np.uint8)
        )
    if topic == "/joint_states":
        return types["sensor_msgs/msg/JointState"](
            header=header,
            name=[f"joint{nth}" for nth in range(len(value))],
            position=value,
            velocity=np.empty(0),
            effort=np.empty(0),
        )
    layout = types["std_msgs/msg/MultiArrayLayout"](dim=[], data_offset=0)
    return types["std_msgs/msg/Float64MultiArray"](layout=layout, data=value)


# RLDS ---------------------------------------------------------------------------------------------


def compare_rlds(folder: Path, lake: Lake, tfds_python: str | None) -> int:
    """RLDS by TensorFlow Datasets, against what it reads back itself."""
    root = folder / "rlds" if tfds_python else _FIXTURE
    if tfds_python:
        script = Path(__file__).with_name("make_rlds_fixture.py")
        subprocess.run([tfds_python, script, root], check=True, stderr=subprocess.DEVNULL)
    splits = json.loads((root / "tiny_arm.json").read_text(encoding="utf-8"))
    expected = [episode for episodes in splits.values() for episode in episodes]
    files = sorted((root / "tiny_arm" / "1.0.0").glob("*.tfrecord*"))
    shards = b"".join(path.read_bytes() for path in files)
    comparison = Comparison()
    names = {
        "action": "action",
        "reward": "next.reward",
        "discount": "discount",
        "language_embedding": "language_embedding",
        "observation/state": "observation.state",
        "observation/gripper/width": "observation.gripper.width",
    }
    found = _ingested(lake, root / "tiny_arm" / "1.0.0", "rlds", fps="10")
    for said, episode in zip(expected, found, strict=True):
        steps = said["steps"]
        for key, name in names.items():
            values = [_bits(_at(step, key)) for step in steps]
            numbers = episode.numbers(name).reshape(len(steps), *values[0].shape)
            comparison.equal(f"numbers of {name}", numbers, np.stack(values))
        comparison.equal("texts", episode.texts(), [s["language_instruction"] for s in steps])
        # Decoders of JPEG differ by a rounding, so those are looked for in the shards, as they are.
        jpegs = episode.encoded("observation.images.image")
        comparison.equal(
            "JPEGs, byte by byte", [data in shards for data in jpegs], [True] * len(steps)
        )
        pictures = episode.encoded("observation.images.wrist_image")
        pixels = [np.asarray(Image.open(io.BytesIO(data))).tobytes() for data in pictures]
        hashes = [hashlib.sha256(data).hexdigest() for data in pixels]
        wanted = [step["observation"]["wrist_image"]["sha256"] for step in steps]
        comparison.equal("PNGs, by the hash of their pixels", hashes, wanted)
    comparison.report("RLDS")
    return comparison.different


def _at(step: Mapping[str, Any], path: str) -> Any:
    for part in path.split("/"):
        step = step[part]
    return step


def _bits(said: Mapping[str, Any]) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(said["hex"]), said["dtype"]).reshape(said["shape"])


def main() -> int:
    """Write, ingest and compare all three."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where datasets and lake are written")
    parser.add_argument("--tfds-python", help="an interpreter with tensorflow-datasets")
    args = parser.parse_args()
    args.folder.mkdir(parents=True)
    lake = open_lake(args.folder / "lake")
    different = compare_hdf5(args.folder, lake)
    different += compare_mcap(args.folder, lake)
    different += compare_rlds(args.folder, lake, args.tfds_python)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
