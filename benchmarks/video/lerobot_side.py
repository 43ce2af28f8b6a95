"""LeRobot's side, in its interpreter: convert a dataset, record one, or read one in batches.

python benchmarks/video/lerobot_side.py convert FOLDER NAME
python benchmarks/video/lerobot_side.py record FOLDER NAME GROUP
python benchmarks/video/lerobot_side.py read FOLDER NAME NUM_BATCHES SEED NUM_WORKERS
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Beside this file lies what a run is asked for; in the interpreter there is nothing of ours.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "scripts")]


def main() -> None:
    """Do what is asked."""
    import real_lerobot

    real_lerobot.prepare()
    logging.disable(logging.WARNING)
    what, folder, name, *numbers = sys.argv[1:]
    {"convert": convert, "record": record, "read": read}[what](folder, name, *map(int, numbers))


def convert(folder: str, name: str) -> None:
    """A dataset of version 2.1 to 3.0, in place."""
    from lerobot.datasets.v30.convert_dataset_v21_to_v30 import convert_dataset

    convert_dataset(name, root=folder, push_to_hub=False)


def record(folder: str, name: str, group: int) -> None:
    """24 episodes of 120 frames in H.264 from 2 cameras, with groups of so many pictures."""
    import numpy as np
    from lerobot.datasets import lerobot_dataset

    encode = lerobot_dataset.encode_video_frames
    lerobot_dataset.encode_video_frames = functools.partial(encode, g=group)
    cameras = ["observation.images.left", "observation.images.right"]
    names = ["height", "width", "channels"]
    features: dict[str, Any] = {
        camera: {"dtype": "video", "shape": (240, 320, 3), "names": names} for camera in cameras
    }
    for joints in ("observation.state", "action"):
        features[joints] = {"dtype": "float32", "shape": (14,), "names": None}
    made = lerobot_dataset.LeRobotDataset.create(
        name, fps=30, features=features, root=f"{folder}/{name}", use_videos=True, vcodec="h264",
        image_writer_threads=2,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:240, :320]
    noise = rng.integers(0, 80, (80, 100, 3))
    for episode in range(24):
        for number in range(120):
            item: dict[str, Any] = {"task": f"task {episode % 3}"}
            for joints in ("observation.state", "action"):
                item[joints] = rng.normal(size=14).astype("float32")
            for nth, camera in enumerate(cameras):
                colours = [
                    (2 * x + 9 * number + 7 * episode) % 256,
                    (3 * y + 5 * number + 40 * nth) % 256,
                    0 * x + 11 * number % 256,
                ]
                picture = np.stack(colours, -1).astype(np.uint8)
                picture[20:100, 20 + number % 100 : 120 + number % 100] = np.roll(noise, number, 0)
                item[camera] = picture
            made.add_frame(item)
        made.save_episode()
    made.finalize()


def read(folder: str, name: str, num_batches: int, seed: int, num_workers: int) -> None:
    """Shuffled batches of every feature and the actions to come, timed."""
    import psutil
    import real_lerobot
    import torch
    from work import BATCH_SIZE, CHUNK, timed

    torch.set_num_threads(1)
    root = Path(folder) / name
    fps = real_lerobot.open_dataset(root).fps
    deltas = {"action": [step / fps for step in range(CHUNK)]}
    loader = torch.utils.data.DataLoader(
        real_lerobot.open_dataset(root, delta_timestamps=deltas),
        batch_size=BATCH_SIZE,
        shuffle=True,
        drop_last=True,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        generator=torch.Generator().manual_seed(seed),
    )

    def batches() -> Iterator[Any]:
        while True:
            yield from loader

    def cpu_s() -> float:
        here = psutil.Process()
        times = [process.cpu_times() for process in (here, *here.children())]
        return float(sum(one.user + one.system for one in times))

    timed(batches(), num_batches, cpu_s)


if __name__ == "__main__":
    main()
