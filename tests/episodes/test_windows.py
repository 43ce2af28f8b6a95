"""Windows equal those of an obvious loop, at the ends of episodes above all."""

from __future__ import annotations

import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.episodes import EpisodeSet
from datalake.episodes.windows import Windows
from datalake.errors import InputError, NotFoundError
from datalake.lake import Lake, Lineage, open_lake
from datalake.video import VideoReader
from tests.robots import (
    CAMERA,
    FPS,
    LENGTHS,
    SIZE,
    TASKS,
    WRIST,
    clip_frames,
    video_row,
    write_robots,
)

NUM_FRAMES = sum(LENGTHS)
WIDTH, HEIGHT = SIZE


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return open_lake(tmp_path_factory.mktemp("windows") / "lake")


@pytest.fixture(scope="module")
def episodes(lake: Lake) -> EpisodeSet:
    return write_robots(lake)


class Twin:
    """The same by loops over rows: everything decoded and read beforehand."""

    def __init__(self, episodes: EpisodeSet) -> None:
        self.frames = episodes.frames.scan().read_all().to_pylist()
        rows = episodes.episodes.scan().read_all().to_pylist()
        videos = {row["video_id"]: row for row in episodes.videos.scan().read_all().to_pylist()}
        decoded = {}
        for video_id, row in videos.items():
            with VideoReader(row["video"]) as reader:
                decoded[video_id] = list(reader)
        self.bounds, self.pictures = [], []
        for row in rows:
            first = len(self.pictures)
            span = row["videos"][0]
            start = round(span["from_s"] * FPS)
            self.pictures += decoded[span["video_id"]][start : start + row["length"]]
            self.bounds += [(first, first + row["length"])] * row["length"]

    def value(self, feature: str, row: int) -> Any:
        if feature == CAMERA:
            return self.pictures[row]
        return self.frames[row][feature.replace(".", "/")]

    def window(self, feature: str, row: int, offsets: list[int]) -> tuple[list[Any], list[bool]]:
        first, end = self.bounds[row]
        rows = [row + offset for offset in offsets]
        values = [self.value(feature, max(first, min(end - 1, other))) for other in rows]
        return values, [other < first or other >= end for other in rows]


@pytest.fixture(scope="module")
def twin(episodes: EpisodeSet) -> Twin:
    return Twin(episodes)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.integers(0, NUM_FRAMES - 1), max_size=6),
    st.lists(st.integers(-25, 25), min_size=1, max_size=5),
    st.lists(st.integers(-3, 3), min_size=1, max_size=3),
)
def test_windows_are_those_of_a_loop(
    episodes: EpisodeSet, twin: Twin, rows: list[int], steps: list[int], looks: list[int]
) -> None:
    windows = Windows(episodes, delta_indices={"action": steps, CAMERA: looks, "note": steps})
    batch = windows.batch(rows)
    for feature, offsets in [("action", steps), (CAMERA, looks), ("note", steps)]:
        assert batch[feature].shape[:2] == batch[f"{feature}_is_pad"].shape
        assert batch[feature].shape[:2] == (len(rows), len(offsets))
        for place, row in enumerate(rows):
            values, is_pad = twin.window(feature, row, offsets)
            assert np.array_equal(batch[feature][place], np.array(values, batch[feature].dtype))
            assert batch[f"{feature}_is_pad"][place].tolist() == is_pad
    assert batch["index"].tolist() == rows
    for place, row in enumerate(rows):
        for key in ("episode_id", "frame_index", "timestamp", "task_index"):
            assert batch[key][place] == twin.frames[row][key]


def test_shapes_and_types(episodes: EpisodeSet) -> None:
    windows = Windows(episodes, {"action": [0, 0.1, 0.2], CAMERA: [-0.1, 0]})
    batch = windows.batch(np.arange(NUM_FRAMES))
    assert {key: (value.shape[1:], value.dtype.name) for key, value in batch.items()} == {
        "observation.state": ((3,), "float32"),
        "action": ((3, 3), "float32"),
        "action_is_pad": ((3,), "bool"),
        "next.reward": ((), "float32"),
        "next.done": ((), "bool"),
        "note": ((), "object"),
        WRIST: ((3, 4, 3), "uint8"),
        CAMERA: ((2, HEIGHT, WIDTH, 3), "uint8"),
        f"{CAMERA}_is_pad": ((2,), "bool"),
        "index": ((), "int64"),
        "episode_id": ((), "object"),
        "episode_index": ((), "int64"),
        "frame_index": ((), "int64"),
        "timestamp": ((), "float64"),
        "task_index": ((), "int64"),
        "task": ((), "object"),
    }
    assert {len(value) for value in batch.values()} == {NUM_FRAMES}
    assert batch["episode_index"].tolist() == np.repeat(range(5), LENGTHS).tolist()
    assert batch["task"].tolist() == [TASKS[i % 2] for i in np.repeat(range(5), LENGTHS)]
    assert (batch[f"{CAMERA}_is_pad"][:, 0] == (batch["frame_index"] == 0)).all()
    nothing = windows.batch([])
    assert nothing.keys() == batch.keys()
    assert all(
        nothing[key].shape == (0, *batch[key].shape[1:]) for key in batch if key != WRIST
    )  # The declared size of the wrist's pictures is not theirs.


def test_one_window_is_a_batch_of_one(episodes: EpisodeSet) -> None:
    windows = Windows(episodes, {"action": [0, 0.1]})
    assert len(windows) == NUM_FRAMES
    batch = windows.batch([11, NUM_FRAMES - 1])
    for place, row in enumerate([11, -1]):
        window = windows[row]
        assert window.keys() == batch.keys()
        for key, value in window.items():
            assert np.array_equal(value, batch[key][place])
    assert [window["index"] for window in windows.__getitems__([5, 3, 5])] == [5, 3, 5]
    assert sum(1 for _ in Windows(episodes, columns=["action"])) == NUM_FRAMES


def test_only_what_is_asked_for_is_read(episodes: EpisodeSet) -> None:
    windows = Windows(episodes, {CAMERA: [0]}, columns=["action"])
    assert [feature.name for feature in windows.features] == ["action", CAMERA]
    assert "observation.state" not in windows[0]
    assert windows[0][CAMERA].shape == (1, HEIGHT, WIDTH, 3)


def test_pictures_resized_as_they_are_decoded(episodes: EpisodeSet) -> None:
    batch = Windows(episodes, {CAMERA: [0]}, size=(16, 12)).batch([0, 40])
    assert batch[CAMERA].shape == (2, 1, 12, 16, 3)
    assert batch[WRIST].shape == (2, 12, 16, 3)


def test_pickled_and_in_threads(episodes: EpisodeSet, twin: Twin) -> None:
    windows = Windows(episodes, {CAMERA: [-0.1, 0]}, columns=["action"])
    windows.batch([3])
    again = pickle.loads(pickle.dumps(windows))

    def right(row: int) -> bool:
        return bool((again[row][CAMERA] == twin.window(CAMERA, row, [-1, 0])[0]).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, np.random.default_rng(0).integers(0, NUM_FRAMES, 24).tolist()))


def test_torch_asks_for_whole_batches(episodes: EpisodeSet) -> None:
    torch = pytest.importorskip("torch")
    windows = Windows(episodes, {"action": [0, 0.1], CAMERA: [0]})
    batch = next(iter(torch.utils.data.DataLoader(windows, batch_size=4)))
    assert torch.equal(batch["action"], torch.as_tensor(windows.batch(range(4))["action"]))
    assert batch[CAMERA].shape == (4, 1, HEIGHT, WIDTH, 3)
    assert batch["task"] == [TASKS[0]] * 4


# Offsets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.05, 0.1011, np.nan, np.inf])
def test_offsets_between_frames_are_refused(episodes: EpisodeSet, offset: float) -> None:
    with pytest.raises(InputError, match=r"(multiple|offsets) "):
        Windows(episodes, {"action": [0, offset]})


def test_offsets_within_the_tolerance_are_taken(episodes: EpisodeSet) -> None:
    close = Windows(episodes, {"action": [0.10009, -0.2]}, columns=[])
    loose = Windows(episodes, {"action": [0.104, -0.2]}, columns=[], tolerance_s=0.005)
    exact = Windows(episodes, delta_indices={"action": [1, -2]}, columns=[])
    for windows in (close, loose):
        assert (windows.batch([20])["action"] == exact.batch([20])["action"]).all()


@pytest.mark.parametrize("offsets", [[], [[0, 1]], "ab", [0.5], None])
def test_what_are_no_offsets_is_refused(episodes: EpisodeSet, offsets: Any) -> None:
    with pytest.raises(InputError, match="offsets of action"):
        Windows(episodes, delta_indices={"action": offsets})


def test_offsets_twice_and_of_nothing_are_refused(episodes: EpisodeSet) -> None:
    with pytest.raises(InputError, match="twice"):
        Windows(episodes, {"action": [0]}, delta_indices={"action": [0]})
    with pytest.raises(NotFoundError, match=r"observation\.state"):
        Windows(episodes, {"observation.stat": [0]})


def test_each_frame_rate_has_its_own_steps(lake: Lake, episodes: EpisodeSet) -> None:
    """0.2 s are two frames at 10 Hz and one at 5 Hz."""
    rows = episodes.episodes.scan().read_all()
    fps = pa.array([10.0, 5.0, 10.0, 5.0, 5.0])
    mixed = EpisodeSet(
        episodes.name,
        lake.create("mixed", rows.schema, lineage=Lineage("test")).append(
            rows.set_column(rows.schema.get_field_index("fps"), rows.schema.field("fps"), fps)
        ),
        episodes.frames,
        episodes.videos,
        episodes.features,
    )
    batch = Windows(mixed, {"next.reward": [0, 0.2]}, columns=[]).batch([0, 12])
    steps = np.diff(batch["next.reward"])[:, 0] * (np.array(LENGTHS[:2]) - 1)
    assert steps.tolist() == pytest.approx([2, 1], abs=1e-5)


# What is wrong with rows and data -----------------------------------------------------------------


@pytest.mark.parametrize("rows", [[NUM_FRAMES], [-1], [0.5], [[0]], 3])
def test_what_is_no_row_is_refused(episodes: EpisodeSet, rows: Any) -> None:
    with pytest.raises(InputError, match="Expected"):
        Windows(episodes).batch(rows)


def test_a_feature_that_some_episode_lacks_is_refused(lake: Lake) -> None:
    made = write_robots(lake, "lacking", image=False, video=False)
    frames = made.frames.scan().read_all()
    at = frames.schema.get_field_index("action")
    action = pa.array([None, *frames["action"].to_pylist()[1:]], frames.schema.field(at).type)
    holed = made.frames.overwrite(frames.set_column(at, frames.schema.field(at), action))
    lacking = EpisodeSet("lacking", made.episodes, holed, made.videos, made.features)
    assert len(Windows(lacking).batch([1, 2])["action"]) == 2
    with pytest.raises(InputError, match=r"no action.*columns"):
        Windows(lacking).batch([0])
    assert "action" not in Windows(lacking, columns=["next.done"]).batch([0])


def test_a_video_that_is_out_of_step_is_found_out(episodes: EpisodeSet, lake: Lake) -> None:
    rows = episodes.episodes.scan().read_all().to_pylist()
    rows[2]["videos"][0]["from_s"] = 0.04
    rows[3]["videos"] = []
    schema = episodes.episodes.schema
    table = lake.create("crooked", schema, lineage=Lineage("test")).append(
        pa.Table.from_pylist(rows, schema=schema)
    )
    crooked = EpisodeSet("g", table, episodes.frames, episodes.videos, episodes.features)
    windows = Windows(crooked, columns=[CAMERA])
    windows.batch([0, 18])
    with pytest.raises(InputError, match="No frame of the video stands at"):
        windows.batch([19])
    with pytest.raises(InputError, match=r"robots/000003 has no video of .*front"):
        windows.batch([sum(LENGTHS[:3])])


def test_timestamps_that_float32_rounded_long_after_the_beginning(lake: Lake) -> None:
    """After an hour of one file float32 has steps of 0.24 ms, more than the tolerance."""
    late_s = 3600.0
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream: Any = container.add_stream("libx264", rate=round(FPS))
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        for number, pixels in enumerate(clip_frames(LENGTHS[0])):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = round(late_s * FPS) + number, Fraction(1, round(FPS))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    made = write_robots(lake, "hour", lengths=LENGTHS[:1], image=False)
    video = video_row(file.getvalue(), "late", "robots", CAMERA, "late.mp4", FPS)
    videos = lake.create("late", made.videos.schema, lineage=Lineage("test"))
    row = made.episodes.scan().read_all().to_pylist()
    row[0]["videos"][0] |= {"video_id": "late", "from_s": late_s + 2e-4}
    rows = lake.create("late_rows", made.episodes.schema, lineage=Lineage("test"))
    windows = Windows(
        EpisodeSet(
            "hour",
            rows.append(pa.Table.from_pylist(row, schema=made.episodes.schema)),
            made.frames,
            videos.append(pa.Table.from_pylist([video], schema=made.videos.schema)),
            made.features,
        ),
        columns=[CAMERA],
    )
    numbers = list(range(LENGTHS[0]))
    expected = VideoReader(file.getvalue()).frames(numbers)
    assert (windows.batch(numbers)[CAMERA] == expected).all()


def test_an_empty_set(lake: Lake, tmp_path: Path) -> None:
    empty = write_robots(lake, "empty", lengths=())
    windows = Windows(empty, {"action": [0, 0.1]})
    assert len(windows) == 0
    assert windows.batch([])["action"].shape == (0, 2, 3)
    with pytest.raises(InputError):
        windows[0]
