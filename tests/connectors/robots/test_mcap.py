"""MCAP and ROS 2 bags: what the formats' own libraries wrote comes back, value by value."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import imagecodecs
import numpy as np
import pytest
from mcap.writer import CompressionType

from connectors.mcap.connector import CONNECTOR
from connectors.mcap.corpus import McapCorpus
from datalake.errors import ConfigError
from datalake.quarantine import Reason
from datalake.recording import BadEpisode, EpisodeData, Severity
from datalake.testing.episode_connector_suite import EpisodeConnectorSuite, read_all
from datalake.uri import locate
from tests.connectors.robots.recordings import (
    JSON_PICTURE,
    SECOND,
    START,
    TYPES,
    Sent,
    compressed,
    float_array,
    joint_state,
    jpeg,
    json_mcap,
    json_picture,
    protobuf_classes,
    protobuf_mcap,
    raw_image,
    ros_mcap,
    text,
    times,
    write_bag,
)

STATE, ACTION, CAMERA = "/joint_states", "/arm/command", "/cam/wrist/image_raw/compressed"
MILLISECOND = 1_000_000


def _arm(seed: int = 0, seconds: float = 1.0, rate_hz: float = 30) -> list[Sent]:
    """State at 50 Hz, action at 40 Hz and a camera, one after the other in each file."""
    random = np.random.default_rng(seed)
    sent = [Sent(STATE, time, joint_state(time, random.random(3))) for time in times(50, seconds)]
    sent += [
        Sent(ACTION, time, float_array(random.random(3)))
        for time in times(40, seconds, START + MILLISECOND)
    ]
    sent += [
        Sent(CAMERA, time, compressed(time, jpeg(100 * seed + nth)))
        for nth, time in enumerate(times(rate_hz, seconds, START + 2 * MILLISECOND))
    ]
    return sorted(sent, key=lambda message: message.time)


def _open(folder: Path, **options: str) -> McapCorpus:
    named = {name.replace("camera_", "camera."): value for name, value in options.items()}
    return CONNECTOR.open(locate(folder), named)


def _only(folder: Path, **options: str) -> EpisodeData:
    (found,) = read_all(_open(folder, **options))
    assert isinstance(found, EpisodeData), found
    return found


def _refused(folder: Path, **options: str) -> BadEpisode:
    (found,) = read_all(_open(folder, **options))
    assert isinstance(found, BadEpisode)
    return found


def _write(folder: Path, data: bytes, name: str = "one.mcap") -> Path:
    (folder / name).write_bytes(data)
    return folder


def _numbers(data: EpisodeData, feature: str) -> np.ndarray:
    return np.array(data.frames[feature].to_pylist())


# The contract -------------------------------------------------------------------------------------


class TestMcapFiles(EpisodeConnectorSuite):
    connector = CONNECTOR

    @pytest.fixture
    def dataset(self) -> Mapping[str, bytes]:
        return {
            "day/episode_10.mcap": ros_mcap(_arm(1), compression=CompressionType.ZSTD),
            "day/episode_2.mcap": ros_mcap(_arm(0), compression=CompressionType.LZ4),
        }


class TestOneFile(EpisodeConnectorSuite):
    connector = CONNECTOR
    path = "episode_1.mcap"
    options: ClassVar = {"embodiment": "arm", "fps": "15", "task": "wave"}

    @pytest.fixture
    def dataset(self) -> Mapping[str, bytes]:
        return {"episode_1.mcap": ros_mcap(_arm(1))}


class TestBags(EpisodeConnectorSuite):
    connector = CONNECTOR
    options: ClassVar = {"clock": "header", "salvage": "yes"}

    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Mapping[str, bytes]:
        for number in range(2):
            write_bag(tmp_path / "bags" / f"bag_{number}", _arm(number))
        files = (path for path in sorted((tmp_path / "bags").rglob("*")) if path.is_file())
        return {path.relative_to(tmp_path / "bags").as_posix(): path.read_bytes() for path in files}


_STAMPS = """
import sys
from connectors.mcap.connector import CONNECTOR
from datalake.uri import locate
print([ref.stamp for ref in CONNECTOR.open(locate(sys.argv[1]), {}).episodes()])
"""


def test_stamps_are_the_same_in_every_process(tmp_path: Path) -> None:
    # Sets are walked in another order in each, and a changed stamp means to read all again.
    write_bag(tmp_path / "bag", _arm())
    printed = {
        subprocess.run(
            [sys.executable, "-c", _STAMPS, tmp_path / "bag"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(printed) == 1


# Values -------------------------------------------------------------------------------------------


def _twin(sent: list[Sent], topic: str, grid: list[int]) -> list[Any]:
    """What `hold` takes, by looking at each message for each frame."""
    messages = [message for message in sent if message.topic == topic]
    return [
        max((m for m in messages if m.time <= time), key=lambda m: m.time).value for time in grid
    ]


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_bag_comes_back_value_by_value(tmp_path: Path, storage: str) -> None:
    sent = _arm(3)
    write_bag(tmp_path / "bag", sent, storage=storage)
    data = _only(tmp_path / "bag")
    begin = data.metadata["start_time_ns"]
    assert begin == START + 2 * MILLISECOND + round(SECOND / 60)
    grid = [begin + round(nth * SECOND / 30) for nth in range(data.frames.num_rows)]
    assert data.frames.num_rows == 30
    states = _twin(sent, STATE, grid)
    assert np.array_equal(_numbers(data, "observation.state"), [m.position for m in states])
    velocity = _numbers(data, "observation.joint_states.velocity")
    assert np.array_equal(velocity, [m.velocity for m in states])
    actions = _twin(sent, ACTION, grid)
    assert np.array_equal(_numbers(data, "action"), [m.data for m in actions])
    pictures = [m.data.tobytes() for m in _twin(sent, CAMERA, grid)]
    assert data.frames["observation.images.cam_wrist"].to_pylist() == pictures
    assert len(set(pictures)) == 30
    assert np.array_equal(data.frames["timestamp"].to_numpy(), np.arange(30) / 30)
    features = {feature.name: feature for feature in data.features}
    assert features["observation.state"].names == ("j0", "j1", "j2")
    assert features["observation.images.cam_wrist"].shape == (12, 16, 3)
    said = data.metadata["topics"][STATE]
    assert (said["num_messages"], said["num_repeated"], said["num_late"]) == (50, 0, 0)
    inside = [m.value for m in sent if m.topic == STATE and begin <= m.time <= grid[-1]]
    assert said["num_dropped"] == sum(not any(m is each for each in states) for m in inside)


@pytest.mark.parametrize("summary", [True, False])
@pytest.mark.parametrize("use_chunking", [True, False])
@pytest.mark.parametrize("compression", list(CompressionType))
def test_every_way_to_store_reads_alike(
    tmp_path: Path, compression: CompressionType, use_chunking: bool, summary: bool
) -> None:
    sent = _arm(4, seconds=0.3)
    (tmp_path / "plain").mkdir()
    expected = _only(_write(tmp_path / "plain", ros_mcap(sent)))
    (tmp_path / "other").mkdir()
    data = ros_mcap(sent, compression=compression, use_chunking=use_chunking, summary=summary)
    found = _only(_write(tmp_path / "other", data))
    assert found.frames.equals(expected.frames)


def test_a_bag_in_several_files_is_one_episode(tmp_path: Path) -> None:
    sent = _arm(5)
    half = len(sent) // 2
    write_bag(tmp_path / "whole", sent)
    bag = tmp_path / "bag"
    bag.mkdir()
    names = ["bag_0.mcap", "bag_1.mcap"]
    for name, part in zip(names, (sent[:half], sent[half:]), strict=True):
        (bag / name).write_bytes(ros_mcap(part))
    listed = "".join(f"    - {name}\n" for name in names)
    metadata = f"rosbag2_bagfile_information:\n  relative_file_paths:\n{listed}"
    (bag / "metadata.yaml").write_text(metadata)
    assert _only(bag).frames.equals(_only(tmp_path / "whole").frames)
    (bag / names[1]).unlink()
    (ref,) = _open(bag).episodes()
    assert ref.refusal is not None
    assert ref.refusal[0] is Reason.NOT_FOUND


def test_json_with_and_without_a_schema(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "positions": {"type": "array", "items": {"type": "number"}},
            "count": {"type": "integer"},
            "ok": {"type": "boolean"},
            "mode": {"type": "string"},
        },
    }
    sent = []
    for nth, time in enumerate(times(20, 1)):
        value = {"positions": [nth, nth / 3], "count": 2**60 + nth, "ok": nth % 2 == 0, "mode": "a"}
        sent += [Sent("/robot_state", time, value), Sent("/action", time, {"q": [nth, 1.5]})]
        sent.append(Sent("/cam", time, json_picture(time, jpeg(nth))))
    schemas = {"/robot_state": ("mine.State", schema), "/cam": JSON_PICTURE}
    data = _only(_write(tmp_path, json_mcap(sent, schemas)))
    assert data.frames.num_rows == 20
    features = {feature.name: (feature.dtype, feature.shape) for feature in data.features}
    assert features == {
        "action": ("float64", (2,)),
        "observation.images.cam": ("image", (12, 16, 3)),
        "observation.robot_state.count": ("int64", (1,)),
        "observation.robot_state.mode": ("string", (1,)),
        "observation.robot_state.ok": ("bool", (1,)),
        "observation.state": ("float64", (2,)),
    }
    expected = [[nth, nth / 3] for nth in range(20)]
    assert _numbers(data, "observation.state").tolist() == expected
    assert data.frames["observation.robot_state.count"].to_pylist() == [
        2**60 + nth for nth in range(20)
    ]
    assert data.frames["observation.images.cam"].to_pylist() == [jpeg(nth) for nth in range(20)]


def test_protobuf_keeps_its_types(tmp_path: Path) -> None:
    classes = protobuf_classes()
    sent = []
    for nth, time in enumerate(times(10, 1)):
        state = classes["robot.State"](positions=[nth / 3, 2], mode=nth, ready=nth > 3)
        state.timestamp.FromNanoseconds(time)
        state.pose.x = nth / 7
        state.points.add(x=1, y=nth)
        state.points.add(x=2, y=nth)
        picture = classes["foxglove.CompressedImage"](data=jpeg(nth), format="jpeg")
        sent += [Sent("/state", time, state), Sent("/front/image", time, picture)]
    data = _only(_write(tmp_path, protobuf_mcap(sent, classes["schema"])))
    features = {feature.name: feature.dtype for feature in data.features}
    assert features == {
        "observation.images.front": "image",
        "observation.state": "float32",
        "observation.state.mode": "uint32",
        "observation.state.points.x": "float64",
        "observation.state.points.y": "float64",
        "observation.state.pose.x": "float64",
        "observation.state.pose.y": "float64",
        "observation.state.ready": "bool",
    }
    expected = np.array([[nth / 3, 2] for nth in range(10)], np.float32)
    assert np.array_equal(_numbers(data, "observation.state").astype(np.float32), expected)
    assert data.frames["observation.state.points.y"].to_pylist() == [[n, n] for n in range(10)]
    assert data.frames["observation.images.front"].to_pylist() == [jpeg(n) for n in range(10)]


@pytest.mark.parametrize(
    ("encoding", "to_rgb"),
    [
        ("rgb8", lambda p: p),
        ("bgr8", lambda p: p[..., ::-1]),
        ("mono8", lambda p: p[..., 0]),
        ("16UC1", lambda p: p[..., 0].astype(np.uint16) * 257),
    ],
)
def test_raw_pictures_are_stored_to_the_pixel(
    tmp_path: Path, encoding: str, to_rgb: Callable[[Any], Any]
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 10, 3), np.uint8)
    stored = pixels
    if encoding == "mono8":
        stored = pixels[..., :1]
    elif encoding == "16UC1":
        stored = pixels[..., :1].astype(np.uint16) * 257
    sent = [
        Sent("/cam/image_raw", time, raw_image(time, stored, encoding, padding=4))
        for time in times(10, 0.5)
    ]
    data = _only(_write(tmp_path, ros_mcap(sent)))
    picture = data.frames["observation.images.cam"][0].as_py()
    assert np.array_equal(imagecodecs.png_decode(picture), to_rgb(pixels))


# The mapping --------------------------------------------------------------------------------------


def test_options_name_state_action_and_cameras(tmp_path: Path) -> None:
    sent = _arm() + [
        Sent("/gripper", time, TYPES["std_msgs/msg/Float32"](data=0.5)) for time in times(50, 1)
    ]
    sent.sort(key=lambda message: message.time)
    folder = _write(tmp_path, ros_mcap(sent))
    state = "/joint_states:velocity, /gripper:data"
    data = _only(
        folder, state=state, action="/joint_states:position", camera_top=CAMERA, topics="none"
    )
    assert [(feature.name, feature.shape) for feature in data.features] == [
        ("action", (3,)),
        ("observation.images.top", (12, 16, 3)),
        ("observation.state", (4,)),
    ]
    assert _numbers(data, "observation.state")[0, 3] == 0.5
    assert data.features[2].names == ("j0", "j1", "j2", "data")
    for options in (
        {"state": "/joint_stats"},
        {"state": "/joint_states:positon"},
        {"camera_top": "/joint_states"},
        {"camera_top": "/nowhere"},
        {"task_topic": "/joint_states"},
    ):
        with pytest.raises(ConfigError):
            _open(folder, **options)


def test_what_was_chosen_and_left_out_is_said(tmp_path: Path) -> None:
    sent = [*_arm(), Sent("/rare", START, text("once"))]
    sent += [
        Sent("/tf", time, TYPES["tf2_msgs/msg/TFMessage"](transforms=[])) for time in times(50, 1)
    ]
    sent.sort(key=lambda message: message.time)
    corpus = _open(_write(tmp_path, ros_mcap(sent)))
    said = {finding.detail for finding in corpus.findings()}
    assert "action is /arm/command:data (option action)" in said
    assert f"frames stand 30 times a second, as {CAMERA} does (option fps)" in said
    assert "/tf is left out: tf2_msgs/TFMessage is no state of a robot" in said
    assert "/rare is left out: it has less than a message a second" in said
    assert all(finding.severity is Severity.WARNING for finding in corpus.findings())


def test_joints_are_put_in_one_order(tmp_path: Path) -> None:
    sent = []
    for nth, time in enumerate(times(20, 1)):
        names, values = ["a", "b", "c"], [nth, nth + 0.1, nth + 0.2]
        if nth % 2:
            names, values = ["c", "a", "b"], [nth + 0.2, nth, nth + 0.1]
        sent.append(Sent(STATE, time, joint_state(time, values, names)))
    data = _only(_write(tmp_path, ros_mcap(sent)))
    expected = [[nth, nth + 0.1, nth + 0.2] for nth in range(20)]
    assert _numbers(data, "observation.state").tolist() == expected
    sent[7] = Sent(STATE, sent[7].time, joint_state(0, [1, 2, 3], ["a", "b", "d"]))
    bad = _refused(_write(tmp_path, ros_mcap(sent)))
    assert bad.reason is Reason.SHAPE_CHANGED
    assert bad.detail == "message 7 of /joint_states: position lacks the joints c"


def test_joints_of_several_nodes_on_one_topic(tmp_path: Path) -> None:
    """An arm's and its gripper's, each in messages of its own: a frame takes the latest of each."""
    arm = [Sent(STATE, t, joint_state(t, [n, -n], "ab")) for n, t in enumerate(times(40, 1))]
    gripper = [
        Sent(STATE, t, joint_state(t, [n / 8], "g"))
        for n, t in enumerate(times(10, 1, START + SECOND // 100))
    ]
    sent = sorted([*arm, *gripper], key=lambda message: message.time)
    path = _write(tmp_path, ros_mcap(sent))
    said = {finding.detail for finding in _open(path, fps="20").findings()}
    note = (
        "/joint_states has messages of 2 and of 1 joints in turn: a frame takes the latest of each"
    )
    assert note in said
    data = _only(path, fps="20")
    (state,) = [feature for feature in data.features if feature.name == "observation.state"]
    assert state.names == ("a", "b", "g")
    values = _numbers(data, "observation.state")
    assert (values[:, 0] == -values[:, 1]).all()
    assert (np.diff(values[:, 0]) == 2).all()
    # The gripper is four times as slow.
    assert (np.abs(values[:, 0] - 32 * values[:, 2]) < 5).all()
    # What one of them says no more is not held for ever.
    stopped = [message for message in sent if message.time < START + SECOND // 3]
    stopped += [message for message in arm if message.time >= START + SECOND // 3]
    bad = _refused(_write(tmp_path, ros_mcap(stopped)), fps="20", max_age="0.3")
    assert bad.reason is Reason.FRAME_GAP
    assert "position of the joint g is 0." in bad.detail


def test_fields_that_a_robot_does_not_have_are_left_out(tmp_path: Path) -> None:
    """ROS 2's joint_state_broadcaster says NaN for joints without effort."""
    sent = []
    for nth, time in enumerate(times(20, 1)):
        state = joint_state(time, [nth, nth / 2])
        state.effort = np.array([0.0, np.nan])
        sent.append(Sent(STATE, time, state))
    path = _write(tmp_path, ros_mcap(sent))
    corpus = _open(path)
    assert {feature.name for feature in corpus.features} == {
        "observation.state",
        "observation.joint_states.velocity",
    }
    said = {finding.detail for finding in corpus.findings()}
    assert "/joint_states:effort is left out: its first message holds NaN" in said


def test_the_task_comes_from_a_topic(tmp_path: Path) -> None:
    sent = [
        *_arm(),
        Sent("/task", START, text("fold")),
        Sent("/task", START + SECOND // 2, text("ö")),
    ]
    data = _only(_write(tmp_path, ros_mcap(sent)), task_topic="/task")
    assert data.tasks == {0: "fold", 1: "ö"}
    indices = data.frames["task_index"].to_pylist()
    assert indices == sorted(indices)
    assert sum(indices) == 15
    assert _only(tmp_path, task="wave").tasks == {0: "wave"}


def test_an_array_that_changes_its_length_is_refused(tmp_path: Path) -> None:
    sent = [
        Sent("/state", time, float_array(range(3 if nth < 15 else 4)))
        for nth, time in enumerate(times(20, 1))
    ]
    bad = _refused(_write(tmp_path, ros_mcap(sent)))
    assert bad.reason is Reason.SHAPE_CHANGED
    assert bad.detail == "message 15 of /state has 4 values in data, the first had 3"


def test_all_episodes_have_the_features_of_the_first(tmp_path: Path) -> None:
    _write(tmp_path, ros_mcap(_arm()), "a.mcap")
    without = [message for message in _arm() if message.topic != ACTION]
    _write(tmp_path, ros_mcap(without), "b.mcap")
    good, bad = read_all(_open(tmp_path))
    assert isinstance(good, EpisodeData)
    assert isinstance(bad, BadEpisode)
    assert (bad.reason, bad.detail) == (Reason.SHAPE_CHANGED, "there is no message on /arm/command")


# Time ---------------------------------------------------------------------------------------------


def test_messages_out_of_order_are_sorted_and_counted(tmp_path: Path) -> None:
    sent = _arm(6)
    expected = _only(_write(tmp_path, ros_mcap(sent)))
    mixed = [sent[nth ^ 1] if nth ^ 1 < len(sent) else sent[nth] for nth in range(len(sent))]
    backwards = sorted(sent, key=lambda message: (message.topic != STATE, -message.time))
    for order in (mixed, backwards):
        found = _only(_write(tmp_path, ros_mcap(order)))
        assert found.frames.equals(expected.frames)
    assert found.metadata["topics"][STATE]["num_late"] == 49


def test_clocks_differ_and_that_is_said(tmp_path: Path) -> None:
    """Pictures are recorded 100 ms after they were taken, states at once."""
    lag = 100 * MILLISECOND
    sent = []
    for nth, time in enumerate(times(20, 2)):
        sent.append(Sent(STATE, time, joint_state(time, [nth]), publish_time=time + lag))
        sent.append(Sent(CAMERA, time + lag, compressed(time, jpeg(nth)), publish_time=time + lag))
    sent.sort(key=lambda message: message.time)
    folder = _write(tmp_path, ros_mcap(sent))
    (warning,) = [f for f in _open(folder).findings() if f.reason is Reason.BAD_TIMESTAMPS]
    assert "clock=header" in warning.detail
    pictures = {jpeg(nth): nth for nth in range(40)}
    for clock, difference in (("log", 2), ("header", 0), ("publish", 0)):
        data = _only(folder, clock=clock)
        states = _numbers(data, "observation.state").tolist()
        seen = [pictures[each] for each in data.frames["observation.images.cam_wrist"].to_pylist()]
        pairs = list(zip(states, seen, strict=True))
        # After the last state it is held.
        assert {state - picture for state, picture in pairs[:-1]} == {difference}, clock
    lag_s = _only(folder).metadata["topics"][CAMERA]["median_stamp_lag_s"]
    assert lag_s == 0.1


def test_a_gap_refuses_unless_it_is_kept(tmp_path: Path) -> None:
    sent = [
        message
        for message in _arm(0, seconds=3)
        if not (message.topic == CAMERA and 1 < (message.time - START) / SECOND < 2)
    ]
    folder = _write(tmp_path, ros_mcap(sent))
    bad = _refused(folder)
    assert bad.reason is Reason.FRAME_GAP
    assert f"no message of {CAMERA} within 0.5 s" in bad.detail
    data = _only(folder, gaps="keep")
    said = data.metadata["topics"][CAMERA]
    assert 28 <= said["num_repeated"] <= 30
    assert said["max_age_s"] > 0.9
    assert _only(folder, max_age="2").frames.equals(data.frames)


def test_rules_of_resampling(tmp_path: Path) -> None:
    sent = [Sent(STATE, time, float_array([(time - START) / SECOND])) for time in times(10, 2)]
    sent += [
        Sent(CAMERA, time, compressed(time, jpeg(0))) for time in times(20, 2, START + SECOND // 50)
    ]
    folder = _write(tmp_path, ros_mcap(sent))
    for rule, error in (("hold", 0.1), ("nearest", 0.05), ("interpolate", 1e-9)):
        data = _only(folder, resample=rule)
        begin = (data.metadata["start_time_ns"] - START) / SECOND
        wanted = begin + np.arange(data.frames.num_rows) / 20
        off = (wanted - _numbers(data, "observation.state"))[:-2]
        assert np.abs(off).max() <= error + 1e-9, rule
        if rule == "hold":
            assert off.min() >= 0
    assert _open(folder, fps="5").fps == 5


def test_recordings_without_a_common_time_say_so(tmp_path: Path) -> None:
    sent = [Sent(STATE, time, float_array([1])) for time in times(10, 1)]
    sent += [
        Sent(CAMERA, time, compressed(time, jpeg(0))) for time in times(10, 1, START + 5 * SECOND)
    ]
    bad = _refused(_write(tmp_path, ros_mcap(sent)), state=f"{STATE}:data")
    assert bad.reason is Reason.EMPTY
    assert f"{CAMERA} begins 4.100 s after the end of {STATE}" in bad.detail


# Damage -------------------------------------------------------------------------------------------


def test_a_truncated_recording_is_refused_or_salvaged(tmp_path: Path) -> None:
    sent = _arm(7)
    whole = _only(_write(tmp_path, ros_mcap(sent, use_chunking=False)))
    data = ros_mcap(sent, use_chunking=False)
    _write(tmp_path, data[: len(data) // 2])
    (ref,) = _open(tmp_path).episodes()
    assert ref.refusal is not None
    assert ref.refusal[0] is Reason.TRUNCATED
    part = _only(tmp_path, salvage="yes")
    assert "ends within a record" in part.metadata["salvaged"]
    assert 5 < part.frames.num_rows < whole.frames.num_rows
    count = part.frames.num_rows - 1
    assert part.frames.slice(0, count).equals(whole.frames.slice(0, count))


def test_a_damaged_chunk_is_found_by_its_checksum(tmp_path: Path) -> None:
    data = bytearray(ros_mcap(_arm(), chunk_size=1 << 20))
    data[len(data) // 3] ^= 1
    _write(tmp_path, ros_mcap(_arm(1)), "a.mcap")
    _write(tmp_path, bytes(data), "b.mcap")
    good, bad = read_all(_open(tmp_path))
    assert isinstance(good, EpisodeData)
    assert isinstance(bad, BadEpisode)
    assert bad.reason is Reason.CORRUPT
    assert "crc" in bad.detail


def test_a_time_far_away_is_named_and_costs_no_memory(tmp_path: Path) -> None:
    sent = [*_arm(), Sent(STATE, START + 10**9 * SECOND, joint_state(START, [1, 2, 3]))]
    sent.append(Sent(CAMERA, START + 10**9 * SECOND, compressed(START, jpeg(0))))
    bad = _refused(_write(tmp_path, ros_mcap(sent)), gaps="keep")
    assert bad.reason is Reason.BAD_TIMESTAMPS
    assert "1000000000 s after the first" in bad.detail


def test_a_recording_without_messages_leaves_nothing_to_read(tmp_path: Path) -> None:
    corpus = _open(_write(tmp_path, ros_mcap([])))
    (finding,) = corpus.findings()
    assert (finding.reason, finding.severity) == (Reason.EMPTY, Severity.ERROR)
    assert all(ref.refusal for ref in corpus.episodes())


def test_topics_of_an_unknown_encoding_are_left_out(tmp_path: Path) -> None:
    from mcap.writer import Writer

    sink = io.BytesIO()
    writer = Writer(sink)
    writer.start()
    schema = writer.register_schema("mine", "ros1msg", b"float64 x")
    channels = [
        writer.register_channel("/old", "ros1", schema),
        writer.register_channel("/state", "json", 0),
    ]
    for time in times(10, 1):
        writer.add_message(channels[0], time, bytes(8), time)
        writer.add_message(channels[1], time, b'{"q": [1, 2]}', time)
    writer.finish()
    corpus = _open(_write(tmp_path, sink.getvalue()))
    assert [feature.name for feature in corpus.features] == ["observation.state"]
    assert any("ros1" in finding.detail for finding in corpus.findings())
    assert len(read_all(corpus)) == 1


@pytest.mark.parametrize("option", ["fps", "max_age", "clock", "resample", "gaps", "salvage"])
def test_wrong_values_of_options_are_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(ConfigError):
        _open(_write(tmp_path, ros_mcap(_arm())), **{option: "nonsense"})
