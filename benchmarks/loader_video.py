"""Shuffled frames of video with a chunk of actions: our `Loader` against LeRobot's own loader.

    python benchmarks/loader_video.py --lerobot-python PATH/bin/python [DATASET ...] --rounds 5

`lerobot` has an interpreter of its own. Both read the Unitree G1 set beside the checkout (640x480,
30 Hz, one camera, a keyframe every second frame), converted to version 3.0 by LeRobot's own script:
as it is (AV1), and a copy with its video encoded anew as LeRobot records H.264. Or the DATASETs
that are named; or, with --record, sets that LeRobot records anew (H.264, 24 episodes of 120 frames,
2 cameras of 240x320).

Both answer the same request: every feature of a random frame, all cameras, and the 16 actions from
there on, in batches of 16, shuffled uniformly over the whole set, so that a batch has as many
episodes on both sides. First `scripts/compare_windows.py` asks both for the same items, which must
be equal to the bit. Then each run is a process of its own, turn by turn; timing begins after 4
batches (where frames are decoded ahead it is a whole epoch, after another one), and CPU time is
that of all threads and processes.

    lerobot              LeRobotDataset(delta_timestamps=...) in a DataLoader that shuffles; decodes
                         with torchcodec
    lerobot, 2 workers   the same with two processes
    one thread           ours; pictures are uint8 of (height, width, channels)
    two threads          the same with two threads
    reused               two threads, decoded_bytes=256 MB: who gets to a group of pictures decodes
                         what the next 32 batches want of it as well. They are a third of the real
                         set; of a set many times as large exact order would reuse little
    float32              as `two threads`, pictures made float32 of (channels, height, width) in
                         [0, 1] on the CPU by a transform, as LeRobot's are; trainers with a device
                         convert there, where it costs next to nothing
    float32, reused      both
    kept                 two threads, keep="decoded", in a later epoch: nothing is decoded

Ratios are those of a round, with their spread: to the better of LeRobot's two in samples a second,
and to `lerobot` in CPU time.
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

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = ROOT.parent / "shared/data/robot/g1_pick_v21"
THEIRS = str(ROOT / "benchmarks/video/lerobot_side.py")
OURS = "benchmarks.video.our_side"

# What each side is called, and how many workers LeRobot has.
LEROBOT = {"lerobot": 0, "lerobot, 2 workers": 2}
SIDES = (*LEROBOT, "one thread", "two threads", "reused", "float32", "float32, reused", "kept")


def run(*command: object) -> dict[str, float]:
    """What a process of its own prints last."""
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-3000:])
    lines = done.stdout.strip().splitlines()
    result: dict[str, float] = json.loads(lines[-1]) if lines and lines[-1][0] == "{" else {}
    return result


def prepare(options: argparse.Namespace, folder: str) -> list[str]:
    """Datasets of version 3.0 in the folder, by name, each with a lake that holds it."""
    lerobot, names = options.lerobot_python, []
    for data in options.datasets:
        names.append(data.name)
        shutil.copytree(data, f"{folder}/{data.name}", copy_function=shutil.copyfile)
        for path in Path(folder, data.name).rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        version = json.loads((data / "meta/info.json").read_text())["codebase_version"]
        if version == "v2.1":
            if data == DEFAULT:
                names.append(f"{data.name}_h264")
                run(sys.executable, "-m", OURS, "copy", data, f"{folder}/{names[-1]}")
            for name in names[names.index(data.name) :]:
                run(lerobot, THEIRS, "convert", folder, name)
    for group in options.record:
        names.append(f"h264_groups_of_{group}")
        run(lerobot, THEIRS, "record", folder, names[-1], group)
    for name in names:
        lake = f"{folder}/lake-{name}"
        run(sys.executable, "-m", OURS, "ingest", lake, f"{folder}/{name}")
        script = ROOT / "scripts/compare_windows.py"
        fps = json.loads(Path(folder, name, "meta/info.json").read_text())["fps"]
        asked = json.dumps({"action": [step / fps for step in range(16)]})
        run(
            *(sys.executable, script, f"{folder}/{name}", lake, "set"),
            *("--lerobot-python", lerobot, "--delta-timestamps", asked),
        )
        print(f"{name}: items drawn at random are equal to the bit", flush=True)
    return names


def compare(lerobot: str, folder: str, name: str, num_batches: int, num_rounds: int) -> None:
    """Rounds of all sides, interleaved."""
    lake, cache = f"{folder}/lake-{name}", f"{folder}/cache"
    run(sys.executable, "-m", OURS, "fill", lake, cache)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for nth in range(num_rounds):
        for side, results in found.items():
            if side in LEROBOT:
                asked = (folder, name, num_batches, nth, LEROBOT[side])
                results.append(run(lerobot, THEIRS, "read", *asked))
            else:
                asked = (lake, cache, num_batches, nth, side)
                results.append(run(sys.executable, "-m", OURS, "read", *asked))
    shutil.rmtree(cache)
    info = json.loads(Path(folder, name, "meta/info.json").read_text())
    num_cameras = sum(feature["dtype"] == "video" for feature in info["features"].values())
    best = [
        min(one["seconds"] / one["samples"] for one in of_round)
        for of_round in zip(*(found[side] for side in LEROBOT), strict=True)
    ]
    print(
        f"\n{name}, cameras: {num_cameras}; "
        f"median of {num_rounds} rounds of {16 * num_batches} samples"
    )
    print(
        f"{'':20}{'samples/s':>10}{'frames/s':>10}{'CPU ms':>8}{'episodes':>10}"
        "   times the speed    of the CPU"
    )
    for side, results in found.items():
        speed = statistics.median(result["samples"] / result["seconds"] for result in results)
        cpu_s = [result["cpu_s"] / result["samples"] for result in results]
        cpu = statistics.median(cpu_s) * 1e3
        episodes = statistics.median(result["episodes"] for result in results)
        faster = [
            of_best * result["samples"] / result["seconds"]
            for of_best, result in zip(best, results, strict=True)
        ]
        cheaper = [
            theirs["cpu_s"] / theirs["samples"] / own_s
            for theirs, own_s in zip(found["lerobot"], cpu_s, strict=True)
        ]
        print(
            f"{side:20}{speed:10,.0f}{num_cameras * speed:10,.0f}{cpu:8.2f}{episodes:10.1f}"
            f"   {_spread(faster)}   1/{_spread(cheaper)}",
            flush=True,
        )


def _spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("datasets", type=Path, nargs="*", help="LeRobot datasets with video")
    parser.add_argument("--lerobot-python", required=True, help="an interpreter with lerobot")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=60, help="of 16 samples, in each run")
    parser.add_argument(
        "--record", type=int, nargs="*", help="record sets with groups of so many pictures"
    )
    options = parser.parse_args()
    if not options.datasets and options.record is None:
        there = DEFAULT.exists()
        options.datasets, options.record = ([DEFAULT], []) if there else ([], [2])
    options.record = options.record or []
    options.lerobot_python = os.path.abspath(options.lerobot_python)
    with tempfile.TemporaryDirectory(prefix="bench-video-") as folder:
        # Where Hugging Face's datasets keep copies of what they read.
        os.environ["HF_HOME"] = f"{folder}/huggingface"
        for name in prepare(options, folder):
            compare(options.lerobot_python, folder, name, options.batches, options.rounds)


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"all of it {time.perf_counter() - started:.0f} s")
