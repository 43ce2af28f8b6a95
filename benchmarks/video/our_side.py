"""Our side: take a dataset in, make an H.264 copy of one, or read one in batches.

python -m benchmarks.video.our_side copy DATASET COPY
python -m benchmarks.video.our_side ingest LAKE DATASET
python -m benchmarks.video.our_side fill LAKE CACHE
python -m benchmarks.video.our_side read LAKE CACHE NUM_BATCHES SEED SIDE
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.video.work import BATCH_SIZE, CHUNK, timed
from datalake.episodes import open_episodes
from datalake.lake import open_lake
from datalake.loader import EpisodeWindows, Loader
from datalake.loader.engine.buffers import Buffers

_NAME = "set"


def copy(dataset: str, made: str) -> None:
    """A dataset of version 2.1 with its video encoded anew, as LeRobot records H.264."""
    from datalake.video import transcode

    shutil.copytree(dataset, made, copy_function=shutil.copyfile)
    for path in Path(made).rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in Path(made).glob("videos/**/*.mp4"):
        path.write_bytes(transcode(path.read_bytes(), codec="h264"))
    info = Path(made, "meta/info.json")
    info.write_text(info.read_text().replace('"av1"', '"h264"'))


def ingest(lake: str, dataset: str) -> None:
    """All of a dataset into a lake."""
    from datalake.pipelines import ingest

    report = ingest(open_lake(lake), dataset, _NAME, connector="lerobot", executor="local")
    if report.exit_code:
        raise SystemExit(str(report))


def loader_of(lake: str, cache: str, seed: int, side: str) -> Loader:
    """The stream of a side of the comparison."""
    episodes = open_episodes(open_lake(lake, create=False), _NAME)
    fps = float(episodes.episodes.take([0], ["fps"])["fps"][0].as_py())
    cameras = [feature.name for feature in episodes.features if feature.dtype == "video"]
    source = EpisodeWindows.from_lake(
        open_lake(lake, create=False),
        _NAME,
        {"action": [step / fps for step in range(CHUNK)]},
        cache=cache,
        keep="decoded" if side == "kept" else "encoded",
        decoded_bytes=(256 << 20) if "reused" in side else 0,
    )

    # Large arrays that nobody holds any more are used again, as those of the loader's own batches.
    memory = Buffers()

    def as_floats(batch: dict[str, Any]) -> dict[str, Any]:
        for camera in cameras:
            pictures = batch[camera].transpose(0, 3, 1, 2)
            batch[camera] = memory.allocate(pictures.shape, np.float32)
            for picture, floats in zip(pictures, batch[camera], strict=True):
                for plane, made in zip(picture, floats, strict=True):
                    np.divide(plane, np.float32(255), out=made)
        return batch

    return Loader(
        source,
        batch_size=BATCH_SIZE,
        tail="drop",
        seed=seed,
        num_threads=1 if side == "one thread" else 2,
        transform=as_floats if "float32" in side else None,
    )


def fill(lake: str, cache: str) -> None:
    """One epoch, so that the cache has all pictures; and see that the stream gives the windows."""
    loader = loader_of(lake, cache, 0, "kept")
    for batch in loader:
        last = batch
    (source,) = loader._sampler.sources
    assert isinstance(source, EpisodeWindows)
    expected = source.windows.batch(last["row_index"].numpy())
    for key, values in expected.items():
        own = last[key].numpy() if torch.is_tensor(last[key]) else np.array(last[key], object)
        assert np.array_equal(own, values), key


def read(lake: str, cache: str, num_batches: str, seed: str, side: str) -> None:
    """Shuffled batches of every feature and the actions to come, timed."""
    torch.set_num_threads(1)
    loader = loader_of(lake, cache, int(seed), side)

    def batches() -> Iterator[Any]:
        while True:
            yield from loader

    if "reused" in side:
        # What is decoded ahead grows from the beginning of an epoch, and is used up at its end.
        timed(batches(), len(loader), time.process_time, len(loader))
    else:
        timed(batches(), int(num_batches), time.process_time)


if __name__ == "__main__":
    do = {"copy": copy, "ingest": ingest, "fill": fill, "read": read}[sys.argv[1]]
    do(*sys.argv[2:])
