"""Frames of a video in order: decoding forward against a seek for each frame.

    python benchmarks/decode.py [VIDEO] [--frames 120] [--rounds 9] [--json FILE]

All decode the same frames of the same bytes in memory to RGB with PyAV, turn by turn, in one
process; who goes first changes. The seeks are those of a data loader that asks for one frame after
the other: to the keyframe before the frame and on to the frame, in a file that stays open; once
with the threads that PyAV starts by itself, once with one thread, which is better at it. The ratio
of a round is the time of the seeks over ours. Where groups of pictures are open a seek misses
frames before a keyframe; they are counted.

Without VIDEO it takes the first AV1 video of the Unitree G1 dataset beside the checkout
(../shared/data/robot), and where there is none a clip that it encodes.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import av
import numpy as np

from datalake.video import VideoInfo, VideoReader, encode, probe

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "robot"


def default_video() -> tuple[str, bytes]:
    """A name and the bytes of the video that is measured unless one is given."""
    for path in sorted(SHARED.glob("g1_pick_v21/videos/*/*/*.mp4")):
        return path.name, path.read_bytes()
    rng = np.random.default_rng(0)
    base = rng.integers(0, 255, (480, 640, 3)).astype(np.uint8)
    frames = (np.roll(base, 4 * number, axis=1) for number in range(240))
    return "a clip encoded for this", encode(frames, 30, "av1")


def sought(data: bytes, info: VideoInfo, numbers: np.ndarray, **threads: int) -> np.ndarray:
    """Frames one by one, each by a seek to the keyframe before it."""
    pictures = np.zeros((len(numbers), info.height, info.width, 3), np.uint8)
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.video[0]
        if threads:
            stream.codec_context.thread_count = threads["num_threads"]
        for place, pts in enumerate(info.frame_pts[numbers].tolist()):
            container.seek(pts, stream=stream, backward=True)
            for frame in container.decode(stream):
                if frame.pts == pts:
                    pictures[place] = frame.to_ndarray(format="rgb24")
                    break
    return pictures


def forward(data: bytes, info: VideoInfo, numbers: np.ndarray, **threads: int) -> np.ndarray:
    """The same frames in one call."""
    with VideoReader(data, info, **threads) as reader:
        return reader.frames(numbers)


SIDES: dict[str, Callable[..., np.ndarray]] = {
    "forward": forward,
    "forward_1_thread": partial(forward, num_threads=1),
    "seek_a_frame": sought,
    "seek_a_frame_1_thread": partial(sought, num_threads=1),
}


def measure(name: str, data: bytes, num_frames: int, rounds: int) -> dict[str, object]:
    info = probe(data)
    numbers = np.arange(min(num_frames, info.num_frames))
    expected = forward(data, info, numbers)
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    num_missed = 0
    for turn in range(rounds):
        sides = list(SIDES)
        for side in sides[turn % 4 :] + sides[: turn % 4]:
            start = time.perf_counter()
            pictures = SIDES[side](data, info, numbers)
            times[side].append(time.perf_counter() - start)
            is_right = (pictures == expected).all((1, 2, 3))
            assert is_right.all() or side.startswith("seek"), side
            num_missed = max(num_missed, int((~is_right).sum()))
    taken = {side: np.array(seconds) for side, seconds in times.items()}

    def ratio(theirs: str, ours: str) -> dict[str, object]:
        ratios = taken[theirs] / taken[ours]
        return {
            "median": round(float(np.median(ratios)), 2),
            "range": [round(float(ratios.min()), 2), round(float(ratios.max()), 2)],
        }

    return {
        "video": name,
        "codec": info.codec,
        "size": [info.width, info.height],
        "frames_a_group": round(info.num_frames / len(info.keyframes), 2),
        "frames": len(numbers),
        "frames_missed_by_seeks": num_missed,
        "rounds": rounds,
        "frames_per_s": {
            side: round(len(numbers) / float(np.median(seconds))) for side, seconds in taken.items()
        },
        "ratio": ratio("seek_a_frame", "forward"),
        "ratio_1_thread": ratio("seek_a_frame_1_thread", "forward_1_thread"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--frames", type=int, default=270)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    name, data = (args.video.name, args.video.read_bytes()) if args.video else default_video()
    result = measure(name, data, args.frames, args.rounds)
    print(json.dumps(result, indent=2))
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
