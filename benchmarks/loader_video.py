"""Shuffled frames of video with a chunk of actions: our windows against LeRobot's own loader.

    python benchmarks/loader_video.py --lerobot-python PATH/bin/python [DATASET ...] --rounds 5

`lerobot` has an interpreter of its own; what both read are datasets that it made: the Unitree G1
set beside the checkout (AV1, 640x480; converted to version 3.0 by its own script) and one that it
records anew (H.264: 24 episodes of 120 frames, 2 cameras of 240x320, groups of 2), or the
DATASETs that are named. Both answer the same request: every feature of a random frame, all
cameras, and the 16 actions from there on, in batches of 16. Each run is a process of its own, turn
by turn; timing begins after 4 batches.

    lerobot           LeRobotDataset(delta_timestamps=...) in a DataLoader that shuffles, which
                      decodes with torchcodec
    lerobot, 2 workers   the same with two processes
    exact             ours, in one thread, shuffled over the whole epoch
    exact, 2 threads  the same in two
    float32           the same in two threads, its pictures made float32 of (channels, height,
                      width) in [0, 1] on the CPU, as LeRobot's are; ours are uint8 of (height,
                      width, channels), which a device converts better
    blocks            two threads, shuffled among blocks of 16 frames, 32 at once; what comes is
                      announced 32 batches ahead, and decoded frames are kept until they are used

CPU time is that of all processes. Episodes in a batch say how well each shuffles. Ratios are those
of a round, to `lerobot` in CPU time and to the better of its two in samples a second.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEFAULT = Path(__file__).resolve().parents[2] / "shared/data/robot/g1_pick_v21"

# What runs in lerobot's interpreter. Where torchvision does not match torch, it fails to import for
# want of operators, which are declared then; lerobot's datasets use none of them.
LEROBOT = """
import functools, json, logging, os, sys, time, warnings
warnings.filterwarnings("ignore"); logging.disable(logging.WARNING)
os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np, psutil, torch
try:
    import torchvision
except Exception:
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]
    declared = torch.library.Library("torchvision", "DEF")
    boxes = "Tensor dets, Tensor scores, float iou_threshold"
    declared.define(f"nms({boxes}) -> Tensor")
    declared.define(f"qnms({boxes}) -> Tensor")
    declared.define("roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height,"
                    " int pooled_width, int sampling_ratio, bool aligned) -> Tensor")
    import torchvision
from lerobot.datasets import lerobot_dataset
from lerobot.datasets.lerobot_dataset import LeRobotDataset
what, folder, name = sys.argv[1:4]
if what == "convert":
    from lerobot.datasets.v30.convert_dataset_v21_to_v30 import convert_dataset
    sys.stdout = sys.stderr
    convert_dataset(name, root=folder, push_to_hub=False)
    sys.exit()
if what == "record":
    encode = lerobot_dataset.encode_video_frames
    lerobot_dataset.encode_video_frames = functools.partial(encode, g=int(sys.argv[4]))
    cameras = ["observation.images.left", "observation.images.right"]
    features = {camera: {"dtype": "video", "shape": (240, 320, 3),
                         "names": ["height", "width", "channels"]} for camera in cameras}
    for joints in ("observation.state", "action"):
        features[joints] = {"dtype": "float32", "shape": (14,), "names": None}
    made = LeRobotDataset.create(name, fps=30, features=features, root=f"{folder}/{name}",
                                 use_videos=True, vcodec="h264", image_writer_threads=2)
    rng = np.random.default_rng(0); y, x = np.mgrid[:240, :320]
    noise = rng.integers(0, 80, (80, 100, 3))
    for episode in range(24):
        for number in range(120):
            item = {"task": f"task {episode % 3}"}
            for joints in ("observation.state", "action"):
                item[joints] = rng.normal(size=14).astype("float32")
            for nth, camera in enumerate(cameras):
                picture = np.stack([(2 * x + 9 * number + 7 * episode) % 256,
                                    (3 * y + 5 * number + 40 * nth) % 256,
                                    0 * x + 11 * number % 256], -1).astype(np.uint8)
                picture[20:100, 20 + number % 100 : 120 + number % 100] = np.roll(noise, number, 0)
                item[camera] = picture
            made.add_frame(item)
        made.save_episode()
    made.finalize()
    sys.exit()
num_batches, num_workers = int(sys.argv[4]), 2 if "workers" in what else 0
torch.set_num_threads(1)
dataset = LeRobotDataset(name, root=f"{folder}/{name}")
deltas = {"action": [step / dataset.fps for step in range(16)]}
dataset = LeRobotDataset(name, root=f"{folder}/{name}", delta_timestamps=deltas)
loader = torch.utils.data.DataLoader(
    dataset, batch_size=16, shuffle=True, drop_last=True, num_workers=num_workers,
    persistent_workers=num_workers > 0, generator=torch.Generator().manual_seed(int(sys.argv[5])))
def batches():
    while True:
        yield from loader
def cpu_s():
    here = psutil.Process()
    each = [process.cpu_times() for process in (here, *here.children())]
    return sum(times.user + times.system for times in each)
source = batches()
for _ in range(4):
    next(source)
began, cpu_began, episodes = time.perf_counter(), cpu_s(), []
for _ in range(num_batches):
    batch = next(source)
    episodes.append(len(set(batch["episode_index"].tolist())))
took, cpu = time.perf_counter() - began, cpu_s() - cpu_began
print(json.dumps({"seconds": took, "cpu_s": cpu, "episodes": sum(episodes) / num_batches}))
"""

OURS = """
import json, sys, time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
import av, lance, numpy as np
from datalake.episodes import open_episodes
from datalake.episodes.windows import Windows
from datalake.lake import open_lake
from datalake.loader.order.blocks import Blocks
from datalake.loader.order.exact import Exact
what, folder, name, num_batches, seed = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
if what == "ingest":
    from datalake.pipelines import ingest
    report = ingest(open_lake(folder), name, "set", connector="lerobot", executor="local")
    assert report.exit_code == 0, report
    sys.exit()
if what == "float32":
    import torch
    torch.set_num_threads(1)
set_ = open_episodes(open_lake(folder, create=False), "set")
cameras = [feature.name for feature in set_.features if feature.dtype == "video"]
fps = float(set_.episodes.take([0], ["fps"])["fps"][0].as_py())
num_threads = 1 if what == "exact" else 2
windows = Windows(set_, {"action": [step / fps for step in range(16)]}, num_threads=1,
                  decoded_bytes=(1 << 28) if what == "blocks" else 0)
def read(rows):
    batch = windows.batch(rows)
    if what == "float32":
        for camera in cameras:
            batch[camera] = torch.from_numpy(batch[camera]).permute(0, 3, 1, 2).float().div_(255)
    return batch
def steps():
    epoch = 0
    while True:
        order = (Blocks(len(windows), 16, 32, seed, epoch) if what == "blocks"
                 else Exact(len(windows), seed, epoch))
        for first in range(0, len(windows) - 15, 16):
            yield order.examples(np.arange(first, first + 16))
        epoch += 1
def announced():
    coming = deque()
    for rows in steps():
        windows.prefetch(rows)
        coming.append(rows)
        if len(coming) > 32:
            yield coming.popleft()
def batches():
    if num_threads == 1:
        yield from map(read, steps())
    with ThreadPoolExecutor(num_threads) as threads:
        under_way = deque()
        for rows in announced() if what == "blocks" else steps():
            under_way.append(threads.submit(read, rows))
            if len(under_way) > 2 * num_threads:
                yield under_way.popleft().result()
source = batches()
for _ in range(4):
    next(source)
began, cpu_began, episodes = time.perf_counter(), time.process_time(), []
for _ in range(num_batches):
    batch = next(source)
    episodes.append(len(set(batch["episode_index"].tolist())))
took, cpu = time.perf_counter() - began, time.process_time() - cpu_began
print(json.dumps({"seconds": took, "cpu_s": cpu, "episodes": sum(episodes) / num_batches}))
import os
sys.stdout.flush(); os._exit(0)
"""

SIDES = ("lerobot", "lerobot, 2 workers", "exact", "exact, 2 threads", "float32", "blocks")


def run(program: str, code: str, *arguments: object) -> dict[str, float]:
    """What a process of its own prints last."""
    done = subprocess.run(
        [program, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    lines = done.stdout.strip().splitlines()
    result: dict[str, float] = json.loads(lines[-1]) if lines else {}
    return result


def prepare(options: argparse.Namespace, folder: str) -> list[str]:
    """Datasets of version 3.0 in the folder, by name, each with a lake that holds it."""
    names = []
    for data in options.datasets:
        shutil.copytree(data, f"{folder}/{data.name}")
        version = json.loads((data / "meta/info.json").read_text())["codebase_version"]
        if version != "v3.0":
            run(options.lerobot_python, LEROBOT, "convert", folder, data.name)
        names.append(data.name)
    for group in options.record:
        run(options.lerobot_python, LEROBOT, "record", folder, f"h264_groups_of_{group}", group)
        names.append(f"h264_groups_of_{group}")
    for name in names:
        run(sys.executable, OURS, "ingest", f"{folder}/lake-{name}", f"{folder}/{name}", 0, 0)
    return names


def compare(lerobot: str, folder: str, name: str, num_batches: int, num_rounds: int) -> None:
    """Rounds of all sides, interleaved."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for nth in range(num_rounds):
        for side, results in found.items():
            if side.startswith("lerobot"):
                result = run(lerobot, LEROBOT, side, folder, name, num_batches, nth)
            else:
                lake = f"{folder}/lake-{name}"
                result = run(sys.executable, OURS, side, lake, "", num_batches, nth)
            results.append(result)
    num_samples = 16 * num_batches
    best = [
        min(one["seconds"], two["seconds"])
        for one, two in zip(found[SIDES[0]], found[SIDES[1]], strict=True)
    ]
    print(f"\n{name}, median of {num_rounds} rounds of {num_samples} samples")
    print(f"{'':20}{'samples/s':>10}{'CPU ms':>8}{'episodes':>10}   times the speed    CPU of ours")
    for side, results in found.items():
        speed = statistics.median(num_samples / result["seconds"] for result in results)
        cpu = statistics.median(result["cpu_s"] for result in results) / num_samples * 1e3
        episodes = statistics.median(result["episodes"] for result in results)
        faster = [b / result["seconds"] for b, result in zip(best, results, strict=True)]
        cheaper = [
            theirs["cpu_s"] / result["cpu_s"]
            for theirs, result in zip(found[SIDES[0]], results, strict=True)
        ]
        print(
            f"{side:20}{speed:10,.0f}{cpu:8.2f}{episodes:10.1f}"
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
        options.datasets, options.record = [DEFAULT] if DEFAULT.exists() else [], [2]
    options.record = options.record or []
    with tempfile.TemporaryDirectory(prefix="bench-video-") as folder:
        for name in prepare(options, folder):
            compare(options.lerobot_python, folder, name, options.batches, options.rounds)


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"all of it {time.perf_counter() - started:.0f} s")
