"""Ingest of a LeRobot dataset against reading it once through the `lerobot` package itself.

    python benchmarks/ingest_episodes.py --lerobot-python PATH/bin/python --rounds 5

`lerobot` has an interpreter of its own. It reads datasets of version 3.0 alone, so an older one is
first converted by its own script, and both read the converted copy. Each run is a process of its
own, in turn; what is timed begins when everything is imported. Compared are:

    read      LeRobotDataset is opened and every item of it taken once, in order; this decodes
              video, since the class cannot do otherwise
    numbers   the same without its videos: every row of the dataset's table, no picture decoded
    ingest    the dataset goes into a new lake: video files read whole, probed and stored as they
              are, every episode checked, its statistics computed, all of it committed
    +decode   the same, and then every frame of every video is decoded from the lake, in order

`ingest` against `read` is what a user gains who has to touch all of the data once; `+decode`
against `read` is the same work on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEFAULT = Path(__file__).resolve().parents[2] / "shared/data/robot/g1_pick_v21"

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"

# What runs in lerobot's interpreter.
LEROBOT = (
    f"import sys; sys.path.insert(0, {str(SCRIPTS)!r})"
    + """
import json, logging, time
import real_lerobot
real_lerobot.prepare()
logging.disable(logging.WARNING)
from lerobot.datasets.lerobot_dataset import LeRobotDataset
what, folder, name = sys.argv[1:4]
if what == "convert":
    from lerobot.datasets.v30.convert_dataset_v21_to_v30 import convert_dataset
    sys.stdout = sys.stderr
    convert_dataset(name, root=folder, push_to_hub=False)
    sys.exit()
started = time.perf_counter()
dataset = LeRobotDataset(name, root=f"{folder}/{name}")
if what == "read":
    num_frames = sum(1 for index in range(len(dataset)) if dataset[index] is not None)
else:
    num_frames = sum(1 for row in dataset.hf_dataset)
print(json.dumps({"seconds": time.perf_counter() - started, "num_frames": num_frames}))
"""
)

OURS = """
import io, json, sys, time
import av, lance, numpy, pyarrow.parquet
from datalake.episodes import open_episodes
from datalake.lake import open_lake
from datalake.pipelines import ingest
from datalake.video import VideoInfo, VideoReader
what, dataset, folder = sys.argv[1:4]
started = time.perf_counter()
lake = open_lake(folder)
report = ingest(lake, dataset, "robots", connector="lerobot", executor="local")
num_frames = report.num_frames
assert report.exit_code == 0, report
if what == "+decode":
    num_frames = 0
    for batch in open_episodes(lake, "robots").videos.scan(batch_size=1):
        for row in batch.to_pylist():
            with VideoReader(row["video"], VideoInfo.from_row(row)) as reader:
                num_frames += sum(1 for picture in reader)
print(json.dumps({"seconds": time.perf_counter() - started, "num_frames": num_frames}))
"""


def timed(program: str, code: str, folder: str, *arguments: str) -> tuple[float, int]:
    """Seconds of the work and frames, from a process of its own with its caches in a folder."""
    done = subprocess.run(
        [program, "-c", code, *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, "HF_HOME": f"{folder}/huggingface"},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    result = json.loads(done.stdout.strip().splitlines()[-1])
    return result["seconds"], result["num_frames"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DEFAULT, help="a LeRobot dataset")
    parser.add_argument("--lerobot-python", required=True, help="an interpreter with lerobot")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    name = options.data.name
    with tempfile.TemporaryDirectory(prefix="bench-episodes-") as folder:
        shutil.copytree(options.data, f"{folder}/{name}")
        version = json.loads((options.data / "meta/info.json").read_text())["codebase_version"]
        if version != "v3.0":
            subprocess.run(
                [options.lerobot_python, "-c", LEROBOT, "convert", folder, name],
                check=True, capture_output=True,
            )  # fmt: skip
        compare(options.lerobot_python, folder, name, options.rounds)
        if version != "v3.0":
            took, _ = timed(
                sys.executable, OURS, folder, "ingest", str(options.data), f"{folder}/original"
            )
            print(f"ingest of the {version} dataset as it is: {took:.2f} s")


def compare(lerobot: str, folder: str, name: str, num_rounds: int) -> None:
    """Rounds of all four, interleaved."""
    seconds: dict[str, list[float]] = {
        what: [] for what in ("read", "numbers", "ingest", "+decode")
    }
    for nth in range(num_rounds):
        counts = set()
        for what, taken in seconds.items():
            if what in ("read", "numbers"):
                took, count = timed(lerobot, LEROBOT, folder, what, folder, name)
            else:
                lake = f"{folder}/lake-{nth}-{what}"
                took, count = timed(sys.executable, OURS, folder, what, f"{folder}/{name}", lake)
                shutil.rmtree(lake)
            taken.append(took)
            counts.add(count)
        print(", ".join(f"{what} {taken[-1]:.2f} s" for what, taken in seconds.items()), flush=True)
    print(f"frames: {sorted(counts)}")
    for ours, theirs in (("ingest", "read"), ("+decode", "read"), ("ingest", "numbers")):
        ratios = [b / a for a, b in zip(seconds[ours], seconds[theirs], strict=True)]
        print(
            f"{name}: {ours} takes {statistics.median(seconds[ours]):.2f} s, {theirs}"
            f" {statistics.median(seconds[theirs]):.2f} s: {statistics.median(ratios):.1f} times as"
            f" fast ({min(ratios):.1f} to {max(ratios):.1f} in {num_rounds} rounds)"
        )


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"all of it {time.perf_counter() - started:.0f} s")
