"""Pictures that are kept decoded: the same as decoding them, and decoded once."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from datalake.episodes import EpisodeSet
from datalake.episodes.windows import Windows, images
from datalake.episodes.windows.cameras import Cameras
from datalake.errors import InputError
from datalake.lake import Lake, Lineage, open_lake
from datalake.video import BadVideo
from tests.robots import CAMERA, LENGTHS, WRIST, write_robots

NUM_FRAMES = sum(LENGTHS)
LOOKS = {CAMERA: [-0.1, 0], WRIST: [0, 0.2]}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return open_lake(tmp_path_factory.mktemp("decoded") / "lake")


@pytest.fixture(scope="module")
def episodes(lake: Lake) -> EpisodeSet:
    return write_robots(lake)


class Decoded(list[int]):
    """How many pictures each call decoded."""

    def taken(self) -> int:
        number = sum(self)
        self.clear()
        return number


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Decoded:
    counts = Decoded()
    pictures, into = Cameras.pictures, images.decode_into

    def of_cameras(self: Any, wanted: Any, **options: Any) -> Any:
        counts.append(sum(len(rows) for rows, _ in wanted.values()))
        return pictures(self, wanted, **options)

    def of_images(*arguments: Any) -> None:
        counts.append(1)
        into(*arguments)

    monkeypatch.setattr(Cameras, "pictures", of_cameras)
    monkeypatch.setattr(images, "decode_into", of_images)
    return counts


def same(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return found.keys() == wanted.keys() and all(
        np.array_equal(found[key], wanted[key]) for key in wanted
    )


def test_each_picture_is_decoded_once(
    episodes: EpisodeSet, decoded: Decoded, tmp_path: Path
) -> None:
    plain = Windows(episodes, LOOKS, columns=[])
    windows = Windows(episodes, LOOKS, columns=[], keep="decoded", cache=tmp_path)
    rng = np.random.default_rng(0)
    epochs = [rng.permutation(NUM_FRAMES).reshape(9, 7) for _ in range(2)]
    expected = [[plain.batch(rows) for rows in epoch] for epoch in epochs]
    decoded.clear()
    for rows, batch in zip(epochs[0], expected[0], strict=True):
        assert same(windows.batch(rows), batch)
    # Each frame of the camera, and of the wrist but for the first of each episode... at most.
    assert NUM_FRAMES <= decoded.taken() <= 2 * NUM_FRAMES
    for rows, batch in zip(epochs[1], expected[1], strict=True):
        assert same(windows.batch(rows), batch)
    assert decoded.taken() == 0
    assert windows.prefetch(epochs[0][0])[0].num_bytes == 0
    # Others find them as well: another handle, a copy.
    again = Windows(episodes, LOOKS, columns=[], keep="decoded", cache=tmp_path)
    for other in (again, pickle.loads(pickle.dumps(windows))):
        assert same(other.batch(epochs[0][0]), expected[0][0])
    assert decoded.taken() == 0
    assert same(windows.batch([]), plain.batch([]))


def test_repeats_in_a_batch_are_decoded_once(
    episodes: EpisodeSet, decoded: Decoded, tmp_path: Path
) -> None:
    windows = Windows(episodes, columns=[CAMERA, WRIST], keep="decoded", cache=tmp_path)
    plain = Windows(episodes, columns=[CAMERA, WRIST])
    windows.batch([0])
    decoded.clear()
    batch = windows.batch([5, 4, 5, 5, 4])
    assert decoded.taken() == 4
    assert same(batch, plain.batch([5, 4, 5, 5, 4]))


def test_other_sizes_and_other_versions_are_other_pictures(
    lake: Lake, decoded: Decoded, tmp_path: Path
) -> None:
    made = write_robots(lake, "changing", lengths=(6,))
    for size in (None, (16, 12), (8, 8)):
        windows = Windows(made, columns=[CAMERA, WRIST], size=size, keep="decoded", cache=tmp_path)
        plain = Windows(made, columns=[CAMERA, WRIST], size=size)
        for _ in range(2):
            assert same(windows.batch(range(6)), plain.batch(range(6)))
    frames = made.frames.scan().read_all()
    at = frames.schema.get_field_index("observation/images/wrist")
    turned = frames.set_column(
        at, frames.schema.field(at), frames.column(at).take(pa.array(range(5, -1, -1)))
    )
    videos = made.videos.overwrite(made.videos.scan().read_all())
    changed = EpisodeSet("c", made.episodes, made.frames.overwrite(turned), videos, made.features)
    windows = Windows(changed, columns=[CAMERA, WRIST], keep="decoded", cache=tmp_path)
    plain = Windows(changed, columns=[CAMERA, WRIST])
    decoded.clear()
    assert same(windows.batch(range(6)), plain.batch(range(6)))
    assert decoded.taken() == 24


def test_bad_pictures_are_not_kept(lake: Lake, tmp_path: Path) -> None:
    made = write_robots(lake, "bad", video=False)
    frames = made.frames.scan().read_all()
    at = frames.schema.get_field_index("observation/images/wrist")
    cells = frames.column(at).to_pylist()
    cells[0], cells[4] = None, b"no picture"
    from tests.episodes.test_windows_pictures import encoded

    cells[9] = encoded(np.zeros((9, 9, 3), np.uint8), "png")
    holed = made.frames.overwrite(
        frames.set_column(at, frames.schema.field(at), pa.array(cells, pa.large_binary()))
    )
    bad = EpisodeSet("bad", made.episodes, holed, made.videos, made.features)
    windows = Windows(bad, columns=[WRIST], keep="decoded", cache=tmp_path)
    for _ in range(2):
        with pytest.raises(BadVideo):
            windows.batch([3, 4, 5])
        with pytest.raises(InputError, match="have no"):
            windows.batch([1, 0])
        with pytest.raises(InputError, match="differ in size"):
            windows.batch([9])
        assert same(windows.batch([3, 5]), Windows(bad, columns=[WRIST]).batch([3, 5]))


def test_cameras_of_videos_that_differ_need_a_size(
    lake: Lake, episodes: EpisodeSet, tmp_path: Path
) -> None:
    rows = episodes.videos.scan().read_all().to_pylist()
    rows[1]["width"] += 2
    schema = episodes.videos.schema
    videos = lake.create("wide", schema, lineage=Lineage("test"))
    videos = videos.append(pa.Table.from_pylist(rows, schema=schema))
    mixed = EpisodeSet("m", episodes.episodes, episodes.frames, videos, episodes.features)
    with pytest.raises(InputError, match=r"differ in size.*size"):
        Windows(mixed, columns=[CAMERA], keep="decoded", cache=tmp_path)
    Windows(mixed, columns=[CAMERA], keep="decoded", cache=tmp_path, size=(8, 8))


def test_to_keep_what_is_not_decoded_is_refused(episodes: EpisodeSet) -> None:
    with pytest.raises(InputError, match="decode"):
        Windows(episodes, decode=False, keep="decoded")
    with pytest.raises(InputError, match="keep"):
        Windows(episodes, keep="both")  # type: ignore[arg-type]


def test_threads_and_processes_share_them(episodes: EpisodeSet, tmp_path: Path) -> None:
    windows = Windows(episodes, LOOKS, columns=[], keep="decoded", cache=tmp_path)
    plain = Windows(episodes, LOOKS, columns=[])
    rows = np.random.default_rng(3).integers(0, NUM_FRAMES, (24, 6))
    expected = [plain.batch(each) for each in rows]
    with ThreadPoolExecutor(4) as pool:
        assert all(map(same, pool.map(windows.batch, rows), expected))
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        assert same(workers.apply(windows.batch, (rows[0],)), expected[0])
