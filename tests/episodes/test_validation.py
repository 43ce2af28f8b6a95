"""Each rule on hand-made episodes: what it finds, where, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.episodes.statistics import summarise
from datalake.episodes.validation import Checks, check_episode
from datalake.errors import ConfigError
from datalake.quarantine import Reason, Refusal
from datalake.recording import EpisodeData, EpisodeRef, Feature, Finding, VideoSpan
from datalake.video import VideoInfo

FPS = 30.0
LENGTH = 40
CAMERA = "observation.images.top"
FEATURES = (
    Feature("observation.state", "float32", (2,), ("shoulder", "elbow")),
    Feature("action", "float32", (2,)),
    Feature("next.reward", "float32", (1,)),
)


def vectors(values: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def episode(length: int = LENGTH, *, fps: float = FPS, **columns: Any) -> EpisodeData:
    """A good episode, number 3, with some columns changed (None: left out)."""
    moving = np.sin(np.arange(2 * length, dtype="float32").reshape(length, 2))
    frames: dict[str, Any] = {
        "observation.state": vectors(moving),
        "action": vectors(moving + 1),
        "next.reward": np.zeros(length, "float32"),
        "timestamp": (np.arange(length) / fps).astype("float32"),
        "frame_index": np.arange(length),
        "episode_index": np.full(length, 3),
        "index": np.arange(100, 100 + length),
        "task_index": np.zeros(length, "int64"),
        **columns,
    }
    ref = EpisodeRef("lab/000003", 3, "data/3.parquet", length, "stamp")
    table = pa.table({name: column for name, column in frames.items() if column is not None})
    return EpisodeData(ref, table, FEATURES, tasks={0: "pick the cube"})


def clip(
    num_frames: int = LENGTH, *, fps: int = 30, first: int = 0, size: tuple[int, int] = (640, 480)
) -> VideoInfo:
    """A video whose frames stand a step apart, the first of them `first` steps in."""
    return VideoInfo(
        codec="h264",
        pix_fmt="yuv420p",
        width=size[0],
        height=size[1],
        fps=fps,
        num_frames=num_frames,
        duration_s=num_frames / fps,
        time_base=Fraction(1, fps * 512),
        frame_pts=np.arange(first, first + num_frames) * 512,
        keyframes=np.arange(0, num_frames, 2),
        keyframe_offsets=np.arange(0, num_frames, 2),
    )


def filmed(data: EpisodeData, from_s: float = 0.0, to_s: float | None = None) -> EpisodeData:
    """The episode with a camera."""
    span = VideoSpan(CAMERA, "lab/v", from_s, to_s)
    camera = Feature(CAMERA, "video", (480, 640, 3), ("height", "width", "channels"))
    return replace(data, ref=replace(data.ref, videos=(span,)), features=(*data.features, camera))


def found(data: EpisodeData, video: VideoInfo | Refusal | None = None, **how: Any) -> list[Finding]:
    videos = {} if video is None else {"lab/v": video}
    return check_episode(data, fps=FPS, videos=videos, checks=Checks(**how))


def only(data: EpisodeData, video: VideoInfo | Refusal | None = None, **how: Any) -> Finding:
    findings = found(data, video, **how)
    assert len(findings) == 1, findings
    assert findings[0].episode_id == "lab/000003"
    return findings[0]


def said(finding: Finding) -> tuple[str, str, int | None, str | None]:
    return str(finding.severity), str(finding.reason), finding.frame_index, finding.feature


def times(change: Any = None, length: int = LENGTH) -> np.ndarray:
    values = (np.arange(length) / FPS).astype("float32")
    if change:
        change(values)
    return values


def test_a_good_episode() -> None:
    assert found(episode()) == []
    assert found(filmed(episode()), clip()) == []
    assert found(filmed(episode(), 2.0, 2.0 + LENGTH / FPS), clip(200)) == []
    # A file of one frame, and one without a camera's file looked into.
    assert found(filmed(episode(1, action=vectors(np.ones((1, 2), "float32")))), clip(1)) == []
    assert found(filmed(episode())) == []


# Numbering ----------------------------------------------------------------------------------------


def test_lengths() -> None:
    data = episode()
    short = replace(data, ref=replace(data.ref, length=50))
    assert said(only(short)) == ("error", "length_mismatch", 40, None)
    assert "promise 50 frames, found 40" in only(short).detail
    silent = replace(data, ref=replace(data.ref, length=None))
    assert found(silent) == []
    empty = replace(data, frames=data.frames.slice(0, 0))
    assert said(only(empty)) == ("error", "empty", None, None)


@pytest.mark.parametrize(
    ("numbers", "reason", "frame"),
    [
        ([0, 1, 2, 5, 6], "frame_gap", 3),
        ([0, 1, 1, 2, 3], "frame_repeat", 2),
        ([0, 1, 2, 1, 2], "index_gap", 3),
        ([4, 5, 6, 7, 8], "index_gap", 0),
    ],
)
def test_frame_index(numbers: list[int], reason: str, frame: int) -> None:
    stamps = (np.array(numbers) / FPS).astype("float32")
    if reason == "frame_gap":
        # Times that tell of the same gap are no second fault.
        data = episode(5, frame_index=np.array(numbers), timestamp=stamps)
    else:
        data = episode(5, frame_index=np.array(numbers))
    assert said(only(data)) == ("error", reason, frame, "frame_index")


def test_frame_index_that_is_none() -> None:
    assert found(episode(frame_index=None)) == []
    words = episode(frame_index=["x"] * LENGTH)
    assert said(only(words))[:2] == ("error", "index_gap")


def test_index_and_episode_index() -> None:
    index = np.arange(LENGTH)
    index[7:] += 3
    assert said(only(episode(index=index))) == ("warning", "index_gap", 7, "index")
    foreign = np.full(LENGTH, 3)
    foreign[5:] = 4
    finding = only(episode(episode_index=foreign))
    assert said(finding) == ("error", "metadata_mismatch", 5, "episode_index")
    assert "expected episode_index 3, found 4 (and in 34 more frames)" in finding.detail
    assert found(episode(index=None, episode_index=None)) == []


# Timing -------------------------------------------------------------------------------------------


def test_no_times() -> None:
    assert said(only(episode(timestamp=None)))[:2] == ("error", "bad_timestamps")
    assert said(only(episode(timestamp=np.arange(LENGTH))))[:2] == ("error", "bad_timestamps")
    stamps = pa.array([None if i == 4 else i / FPS for i in range(LENGTH)], pa.float32())
    finding = only(episode(timestamp=stamps))
    assert (finding.frame_index, finding.detail) == (4, "expected a time, found nan")


@pytest.mark.parametrize(
    ("change", "reason", "frame", "words"),
    [
        (lambda t: t.__setitem__(slice(9, None), t[9:] + 0.2), "frame_gap", 9, "6 frames were"),
        (lambda t: t.__setitem__(6, t[5]), "frame_repeat", 6, "a second time"),
        (lambda t: t.__setitem__(6, t[4]), "bad_timestamps", 6, "go back"),
        (lambda t: t.__setitem__(6, t[6] + 0.01), "bad_timestamps", 6, "at most 0.010000 s off"),
        (lambda t: t.__isub__(1.0), "bad_timestamps", 0, "expected 0.000000 s"),
        (lambda t: t.__imul__(2), "bad_timestamps", 1, "advance at 15 fps"),
        (lambda t: t.__setitem__(20, np.inf), "bad_timestamps", 20, "found inf"),
    ],
)
def test_times_out_of_step(change: Any, reason: str, frame: int, words: str) -> None:
    findings = [f for f in found(episode(timestamp=times(change))) if f.reason == reason]
    assert [said(finding) for finding in findings] == [("error", reason, frame, "timestamp")]
    assert words in findings[0].detail


@pytest.mark.parametrize(
    ("change", "frame", "words"),
    [
        (lambda t: t.__iadd__(1.0), 0, "expected 0.000000 s"),
        (lambda t: t.__imul__(30 / 29.97), 3, "advance at 29.97 fps"),
    ],
)
def test_times_that_begin_late_or_drift(change: Any, frame: int, words: str) -> None:
    """LeRobot judges each step by itself; a video may go the same way."""
    finding = only(episode(timestamp=times(change)))
    assert said(finding) == ("warning", "bad_timestamps", frame, "timestamp")
    assert words in finding.detail
    # Its frames are where the metadata say, not where the timestamps do.
    filmed_late = found(filmed(episode(timestamp=times(change))), clip(LENGTH))
    assert [str(finding.reason) for finding in filmed_late] == [
        "bad_timestamps",
        "video_timestamps",
    ]


def test_gaps_do_not_put_the_rest_out_of_step() -> None:
    def drop(stamps: np.ndarray) -> None:
        stamps[9:] += 3 / FPS
        stamps[20:] += 1 / FPS

    finding = only(episode(timestamp=times(drop)))
    assert said(finding) == ("error", "frame_gap", 9, "timestamp")
    assert "(and in 1 more frames)" in finding.detail


@pytest.mark.parametrize("fps", [10.0, 29.97, 30.0, 50.0, 1000 / 3])
def test_float32_of_long_episodes_does_not_alarm(fps: float) -> None:
    length = 400_000
    exact = np.arange(length) / fps
    for stamps in (
        exact.astype("float32"),
        np.arange(length, dtype="float32") / np.float32(fps),
        exact,
    ):
        data = episode(length, fps=fps, timestamp=stamps)
        assert check_episode(data, fps=fps, videos={}) == []


@given(st.floats(-2e-4, 2e-4), st.integers(1, LENGTH - 1))
def test_the_tolerance(off: float, frame: int) -> None:
    stamps = np.arange(LENGTH) / FPS
    stamps[frame] += off
    is_off = abs(stamps[frame] - frame / FPS) > 1e-4 + np.spacing(stamps[frame])
    assert bool(found(episode(timestamp=stamps))) == is_off
    assert found(episode(timestamp=stamps), timestamp_tolerance_s=1e-3) == []


def test_impossible_tolerances() -> None:
    for value in (-1.0, float("nan")):
        with pytest.raises(ConfigError, match="timestamp_tolerance_s"):
            Checks(timestamp_tolerance_s=value)


# Columns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (None, "found no such column"),
        (vectors(np.ones((LENGTH, 3), "float32")), "found float32 of 3 numbers"),
        (vectors(np.ones((LENGTH, 2), "float64")), "found float64 of 2 numbers"),
        (np.ones(LENGTH, "float32"), "found float32 of 1 number "),
        (["left"] * LENGTH, "found string"),
        ([[1.0, 2.0]] * 9 + [[1.0]] + [[1.0, 2.0]] * 30, "1 to 2"),
    ],
)
def test_columns_other_than_declared(column: Any, words: str) -> None:
    finding = only(episode(**{"observation.state": column}))
    assert said(finding)[:2] == ("error", "shape_changed")
    assert "expected float32 of 2" in finding.detail
    assert words in finding.detail
    if words == "1 to 2":
        assert finding.frame_index == 9


def test_columns_that_no_feature_declares() -> None:
    finding = only(episode(joy=np.zeros(LENGTH)))
    assert said(finding) == ("warning", "metadata_mismatch", None, "joy")


# Values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_non_finite(odd: float) -> None:
    state = np.random.default_rng(0).normal(size=(LENGTH, 2)).astype("float32")
    state[12, 1] = odd
    finding = only(episode(**{"observation.state": vectors(state)}))
    assert said(finding) == ("error", "non_finite", 12, "observation.state")
    assert finding.detail == f"expected numbers, found {odd} in element 1 (elbow)"
    reward = np.zeros(LENGTH, "float32")
    reward[3:5] = odd
    finding = only(episode(**{"next.reward": reward}))
    assert said(finding) == ("warning", "non_finite", 3, "next.reward")
    assert finding.detail.endswith("(and in 1 more frames)")


def test_nulls() -> None:
    values = [[float(i), 2.0] for i in range(LENGTH)]
    values[8] = None  # type: ignore[call-overload]
    finding = only(episode(action=pa.array(values, pa.list_(pa.float32(), 2))))
    assert said(finding) == ("error", "non_finite", 8, "action")
    assert "null" in finding.detail


@pytest.mark.parametrize(
    ("info", "bad"),
    [
        ({"min": -1, "max": 1}, True),
        ({"max": [1.0, 0.5]}, True),
        ({"min": 0}, True),
        ({"min": -1.5, "max": 2.0}, False),
        ({"min": "a", "max": [1, 2, 3]}, False),
        ({"min": None}, False),
        ({}, False),
    ],
)
def test_declared_ranges(info: dict[str, Any], bad: bool) -> None:
    action = np.linspace(-0.5, 0.5, 2 * LENGTH, dtype="float32").reshape(LENGTH, 2)
    action[17, 1] = 1.9
    data = episode(action=vectors(action))
    declared = replace(FEATURES[1], info=info)
    data = replace(data, features=(FEATURES[0], declared, FEATURES[2]))
    reasons = [finding.reason for finding in found(data)]
    assert reasons == ([Reason.OUT_OF_RANGE] if bad else [])


def test_a_bound_is_within_the_range() -> None:
    action = np.full((LENGTH, 2), 0.1, "float32")  # a little more than 0.1
    action[0] = 0
    data = episode(action=vectors(action))
    features = (FEATURES[0], replace(FEATURES[1], info={"min": 0, "max": 0.1}), FEATURES[2])
    assert found(replace(data, features=features)) == []


def test_constant_actions() -> None:
    still = vectors(np.full((LENGTH, 2), 0.5, "float32"))
    assert said(only(episode(action=still))) == ("warning", "constant", 0, "action")
    # States may stand still.
    assert found(episode(**{"observation.state": still})) == []


def test_pictures_without_bytes() -> None:
    data = episode(**{"observation.wrist": [b"png"] * 5 + [b"", None] + [b"png"] * (LENGTH - 7)})
    wrist = Feature("observation.wrist", "image", (4, 4, 3))
    column = data.frames["observation.wrist"].cast(pa.large_binary())
    place = data.frames.column_names.index("observation.wrist")
    data = replace(
        data,
        features=(*FEATURES, wrist),
        frames=data.frames.set_column(place, "observation.wrist", column),
    )
    assert said(only(data)) == ("error", "empty", 5, "observation.wrist")


# Tasks and statistics -----------------------------------------------------------------------------


def test_tasks_without_text() -> None:
    numbers = np.zeros(LENGTH, "int64")
    numbers[30:] = 2
    finding = only(episode(task_index=numbers))
    assert said(finding) == ("warning", "no_task", 30, "task_index")
    assert "task 2, which is not listed (and in 9 more frames)" in finding.detail
    assert "empty text" in only(replace(episode(), tasks={0: " \n"})).detail
    assert said(only(replace(episode(task_index=None), tasks={})))[:2] == ("warning", "no_task")
    assert found(replace(episode(task_index=None), tasks={0: "push"})) == []
    words = episode(task_index=["zero"] * LENGTH)
    assert said(only(words)) == ("error", "shape_changed", None, "task_index")


def declared(data: EpisodeData, **changes: Any) -> EpisodeData:
    (stats,) = summarise(data.frames, [FEATURES[1]])
    said = {name: figure.tolist() for name, figure in stats.as_dict().items()}
    return replace(data, stats={"action": {**said, "count": [stats.count], **changes}})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"q01": [99.0, 99.0]}, None),
        ({"mean": None, "max": None}, None),
        ({"max": [2.5, 2.0]}, "the declared max of element 0 is 2.5"),
        ({"mean": [[[1.5]], [[1.5]]]}, "of the data 1.02134, and in 1 more elements"),
        ({"std": [0.0, 0.7]}, "the declared std of element 0 is 0"),
        ({"count": [41]}, "the declared count is 41, of the data 40"),
        ({"min": [0.0]}, "the declared min has 1 numbers, the feature 2"),
        ({"min": "low"}, "the declared min has 0 numbers"),
        ({"max": [float("nan")] * 2}, "the declared max of element 0 is nan"),
    ],
)
def test_declared_statistics(changes: dict[str, Any], words: str | None) -> None:
    data = declared(episode(), **changes)
    if words is None:
        assert found(data) == []
    else:
        finding = only(data)
        assert said(finding) == ("warning", "stats_mismatch", None, "action")
        assert words in finding.detail


def test_statistics_that_are_none() -> None:
    data = replace(episode(), stats={"action": 3.0})  # type: ignore[dict-item]
    assert only(data).detail == "expected figures by name, found float"


def test_statistics_that_float32_made_are_right() -> None:
    values = np.random.default_rng(0).normal(50, 20, (LENGTH, 2)).astype("float32")
    square = np.mean(values**2, axis=0) - np.mean(values, axis=0) ** 2
    said = {"mean": values.mean(axis=0).tolist(), "std": np.sqrt(square).tolist()}
    assert found(declared(episode(action=vectors(values)), **said)) == []


# Videos -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reason", [Reason.VIDEO_MISSING, Reason.VIDEO_TRUNCATED, Reason.LFS_POINTER, Reason.EMPTY]
)
def test_refused_videos(reason: Reason) -> None:
    finding = only(filmed(episode()), Refusal(reason, "cut at byte 7"))
    assert said(finding) == ("error", reason.value, None, CAMERA)
    assert finding.detail == "cut at byte 7"


@pytest.mark.parametrize(
    ("video", "span", "severity", "frame", "words"),
    [
        (clip(39), (0.0, None), "error", 39, "found 39: 1 fewer"),
        (clip(41), (0.0, None), "warning", None, "found 41: 1 more"),
        (clip(42), (0.0, None), "error", None, "found 42: 2 more"),
        (clip(70), (1.0, 1.0 + 40 / 30), "error", 40, None),
        (clip(60), (1.0, 1.0 + 40 / 30), "error", 30, "30: 10 fewer (the file has 60 frames"),
        (clip(40), (9.0, 9.0 + 40 / 30), "error", 0, "found 0: 40 fewer"),
    ],
)
def test_video_lengths(
    video: VideoInfo, span: tuple[float, float | None], severity: str, frame: int, words: str | None
) -> None:
    data = filmed(episode(), *span)
    if words is None:
        assert found(data, video) == []
        return
    finding = only(data, video)
    assert said(finding) == (severity, "video_length_mismatch", frame, CAMERA)
    assert words in finding.detail


def test_ends_that_are_sums_of_durations() -> None:
    """A span's end is off by what some thousand additions round."""
    step = sum([40 / 30] * 1000)
    assert found(filmed(episode(), step, step + 40 / 30), clip(40 * 1001 + 7)) == []


def test_video_times() -> None:
    finding = only(filmed(episode()), clip(first=1))
    assert said(finding) == ("error", "video_timestamps", 0, CAMERA)
    assert "expected a video frame at 0.000000 s" in finding.detail
    shifted = filmed(episode(), 1.01, 1.01 + LENGTH / FPS)
    assert said(only(shifted, clip(90))) == ("error", "video_timestamps", 0, CAMERA)
    assert found(shifted, clip(90), timestamp_tolerance_s=0.02) == []
    # Wrong timestamps are one fault, not one a camera more.
    odd = filmed(episode(timestamp=times(lambda t: t.__setitem__(6, t[6] + 0.01))))
    assert only(odd, clip()).reason is Reason.BAD_TIMESTAMPS


def test_pictures_of_another_size() -> None:
    data = filmed(episode())
    finding = only(data, clip(size=(320, 240)))
    assert said(finding) == ("error", "shape_changed", None, CAMERA)
    assert "480×640 (height, width), found a video of 240×320" in finding.detail


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        ((3, 480, 640), ("channels", "height", "width")),
        ((3, 480, 640), ("Channel", "Height", "Width")),
        ((3, 480, 640), ()),
        ((3, 480, 640), ("height", "width", "channel")),
        ((640, 480, 3), ("width", "height", "channel")),
        ((480, 640, 3), ()),
        ((480, 640, 3), ("height", "width", "rgb")),
        ((480, 640, 1), ("height",)),
    ],
)
def test_axes_of_pictures_in_any_order(shape: tuple[int, ...], names: tuple[str, ...]) -> None:
    camera = Feature(CAMERA, "video", shape, names)
    data = replace(filmed(episode()), features=(*FEATURES, camera))
    assert found(data, clip()) == []
    assert only(data, clip(size=(320, 240))).reason is Reason.SHAPE_CHANGED
