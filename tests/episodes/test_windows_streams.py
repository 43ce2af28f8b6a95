"""A 30 Hz camera, a 200 Hz arm and 16 kHz sound in one example, against an obvious loop."""

from __future__ import annotations

import io
import pickle
import wave
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.audio import BadAudio, encode_flac
from datalake.episodes import EpisodeSet
from datalake.episodes.windows import AudioStream, FrameStream, Windows
from datalake.episodes.windows.nearest import nearest_rows
from datalake.errors import InputError, NotFoundError, SchemaError
from datalake.lake import Lake, open_lake
from datalake.schema import media_field
from datalake.tables import Table, create_table
from tests.robots import CAMERA, FPS, write_robots

LENGTHS = (12, 7, 20, 9, 15)
CAMERA_HZ, ARM_HZ, SOUND_HZ = 30.0, 200.0, 16_000
RECORDINGS = pa.schema([pa.field("episode_id", pa.string()), media_field("audio", "audio")])
SENSORS = pa.schema(
    [
        pa.field("episode_id", pa.string()),
        pa.field("timestamp", pa.float64()),
        pa.field("gyro/xyz", pa.list_(pa.float32(), 3)),
        pa.field("state", pa.string()),
        pa.field("blob", pa.large_binary()),
    ]
)


def episode(number: int) -> str:
    return f"robots/{number:06d}"


def sound(number: int) -> np.ndarray:
    """A recording, a little shorter than its episode, whose samples tell which they are."""
    length = round((LENGTHS[number] / CAMERA_HZ - 0.05) * SOUND_HZ)
    return ((np.arange(length) * (2 * number + 3)) % 4001 - 2000).astype(np.float32) / 32768


def recording(number: int) -> bytes:
    if number % 2:
        return encode_flac(sound(number), SOUND_HZ)
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SOUND_HZ)
        file.writeframes((sound(number) * 32768).astype("<i2").tobytes())
    return out.getvalue()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return open_lake(tmp_path_factory.mktemp("streams") / "lake")


@pytest.fixture(scope="module")
def episodes(lake: Lake) -> EpisodeSet:
    return write_robots(lake, "cams", lengths=LENGTHS, fps=CAMERA_HZ, image=False)


@pytest.fixture(scope="module")
def arm(lake: Lake) -> EpisodeSet:
    """The same episodes at 200 Hz, in another order than the cameras'; some end earlier."""
    lengths = [round(n / CAMERA_HZ * ARM_HZ) - 9 * (i % 2) for i, n in enumerate(LENGTHS)]
    made = write_robots(lake, "arm", lengths=lengths, fps=ARM_HZ, image=False, video=False)
    assert made.index.episode_ids.to_pylist() == [episode(i) for i in range(5)]
    return made


@pytest.fixture(scope="module")
def recordings() -> Table:
    rows = [{"episode_id": episode(i), "audio": recording(i)} for i in (3, 1, 4, 0, 2)]
    table = create_table("memory://streams/sound", RECORDINGS, format="memory")
    return table.append(pa.Table.from_pylist(rows, schema=RECORDINGS))


def sensor_rows() -> list[dict[str, Any]]:
    """About 50 Hz, unevenly, from before the episode's beginning, with a hole in the middle."""
    rng = np.random.default_rng(5)
    rows: list[dict[str, Any]] = []
    for number in (2, 0, 4, 3, 1):
        times = np.cumsum(rng.uniform(0.001, 0.04, 60)) - 0.1
        times = times[(times < 0.2) | (times > 0.27)]
        rows += [
            {
                "episode_id": episode(number),
                "timestamp": time_s,
                "gyro/xyz": [number, place, time_s],
                "state": f"{number}:{place}",
                "blob": None,
            }
            for place, time_s in enumerate(times.tolist())
        ]
    return rows


@pytest.fixture(scope="module")
def sensors() -> Table:
    rows = sensor_rows()
    table = create_table("memory://streams/imu", SENSORS, format="memory")
    # Episodes run on over the edges of commits.
    for start in range(0, len(rows), 37):
        table = table.append(pa.Table.from_pylist(rows[start : start + 37], schema=SENSORS))
    return table


def nearest(times: list[float], time_s: float) -> int:
    return min(range(len(times)), key=lambda i: (abs(times[i] - time_s), i))


@pytest.mark.filterwarnings("ignore")
def test_three_rates_in_one_example(
    episodes: EpisodeSet, arm: EpisodeSet, recordings: Table, sensors: Table
) -> None:
    steps = [-0.02, -0.0173, 0.0, 0.06]
    windows = Windows(
        episodes,
        delta_indices={"action": [0, 1, 2], CAMERA: [-1, 0]},
        columns=["observation.state"],
        streams={
            "arm": FrameStream(arm, steps, ["observation.state", "note"]),
            "imu": FrameStream.span(sensors, -0.1, 0.1, 8, tolerance_s=0.02),
            "audio": AudioStream(recordings, -0.05, 0.05),
        },
    )
    windows = pickle.loads(pickle.dumps(windows))
    rows = np.random.default_rng(0).permutation(sum(LENGTHS)).tolist()
    batch = windows.batch([*rows, rows[0]])
    plain = Windows(
        episodes,
        delta_indices={"action": [0, 1, 2], CAMERA: [-1, 0]},
        columns=["observation.state"],
    ).batch([*rows, rows[0]])
    for key, values in plain.items():
        assert np.array_equal(batch[key], values)
    assert {key: (batch[key].shape[1:], batch[key].dtype.name) for key in batch.keys() - plain} == {
        "arm.observation.state": ((4, 3), "float32"),
        "arm.note": ((4,), "object"),
        "arm.timestamp": ((4,), "float64"),
        "arm_is_pad": ((4,), "bool"),
        "imu.gyro.xyz": ((8, 3), "float32"),
        "imu.state": ((8,), "object"),
        "imu.timestamp": ((8,), "float64"),
        "imu_is_pad": ((8,), "bool"),
        "audio": ((1600,), "float32"),
        "audio_is_pad": ((1600,), "bool"),
    }
    arms = arm.frames.scan().read_all().to_pylist()
    imus = sensor_rows()
    spread = [-0.1 + 0.025 * k for k in range(8)]
    num_pads = dict.fromkeys(("arm", "imu", "audio"), 0)
    for place in range(len(rows) + 1):
        owner, time_s = batch["episode_id"][place], batch["timestamp"][place]
        for name, stored, offsets, tolerance_s in [
            ("arm", arms, steps, 1 / ARM_HZ),
            ("imu", imus, spread, 0.02),
        ]:
            own = [row for row in stored if row["episode_id"] == owner]
            times = [row["timestamp"] for row in own]
            for k, offset in enumerate(offsets):
                row = own[nearest(times, time_s + offset)]
                for key in batch:
                    if key.startswith(f"{name}."):
                        value = row[key.removeprefix(f"{name}.").replace(".", "/")]
                        assert np.array_equal(
                            batch[key][place, k], np.array(value, batch[key].dtype)
                        )
                is_pad = abs(row["timestamp"] - (time_s + offset)) > tolerance_s + 1e-6
                assert batch[f"{name}_is_pad"][place, k] == is_pad
                num_pads[name] += is_pad
        first = int(np.floor((time_s - 0.05) * SOUND_HZ + 0.5))
        whole = sound(int(owner[-1]))
        at = np.arange(first, first + 1600)
        is_pad = (at < 0) | (at >= len(whole))
        assert (batch["audio_is_pad"][place] == is_pad).all()
        expected = np.where(is_pad, 0, whole[at.clip(0, len(whole) - 1)])
        assert (batch["audio"][place] == expected).all()
        num_pads["audio"] += int(is_pad.sum())
    assert all(num_pads.values())
    assert (batch["imu_is_pad"] & (batch["imu.timestamp"] > 0.15)).any()  # The hole.
    nothing = windows.batch([])
    assert {key: value.shape[1:] for key, value in nothing.items()} == {
        key: value.shape[1:] for key, value in batch.items()
    }
    assert windows.keys().keys() == batch.keys()
    windows.prefetch(np.array(rows))
    windows.expect(np.array(rows), 1.0)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.lists(st.integers(-20, 60), min_size=1, max_size=30), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.floats(-30, 70), st.integers(-9, 99)), max_size=20),
)
def test_the_nearest_row_is_found_from_any_guess(
    stored: list[list[int]], asked: list[tuple[int, float, int]]
) -> None:
    times = [sorted(each) for each in stored]
    flat = np.concatenate(times).astype(np.float64)
    ends = np.cumsum([len(each) for each in times])
    owners = np.array([owner % len(times) for owner, _, _ in asked], np.int64)
    wanted = np.array([time_s for _, time_s, _ in asked], np.float64)
    guesses = np.array([guess for _, _, guess in asked], np.int64)
    starts = ends - [len(each) for each in times]
    found = nearest_rows(wanted, starts[owners], ends[owners], guesses, lambda rows: flat[rows])
    assert (found.times_s == flat[found.rows]).all()
    for owner, time_s, row in zip(owners, wanted, found.rows, strict=True):
        assert starts[owner] <= row < ends[owner]
        own = times[owner]
        assert abs(flat[row] - time_s) == min(abs(each - time_s) for each in own)
        assert flat[row] == own[nearest(own, time_s)]


def test_the_span_of_a_stream() -> None:
    table = create_table("memory://streams/none", SENSORS, format="memory")
    stream = FrameStream.span(table, -1, 1, 4)
    assert stream.delta_timestamps == (-1, -0.5, 0, 0.5)
    for from_s, to_s, num_steps in [(0, 0, 3), (1, 0, 3), (0, 1, 0), (np.nan, 1, 3)]:
        with pytest.raises(InputError, match="span"):
            FrameStream.span(table, from_s, to_s, num_steps)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"timestamp": 9.0}, InputError, "forward in time"),
        ({"timestamp": float("nan")}, InputError, "forward in time"),
        ({"episode_id": episode(1)}, InputError, "stand together.*robots/000001"),
        ({"episode_id": None}, InputError, "forward in time"),
    ],
)
def test_a_table_that_is_no_stream_is_refused(
    episodes: EpisodeSet, change: dict[str, Any], error: type[Exception], match: str
) -> None:
    rows = sensor_rows()
    rows[3] |= change
    table = create_table(f"memory://streams/bad-{match[:3]}-{change}", SENSORS, format="memory")
    table = table.append(pa.Table.from_pylist(rows, schema=SENSORS))
    with pytest.raises(error, match=match):
        Windows(episodes, streams={"imu": FrameStream(table)})


def test_what_makes_no_stream_is_refused(
    episodes: EpisodeSet, arm: EpisodeSet, sensors: Table, recordings: Table
) -> None:
    for streams, error, match in [
        ({"imu": FrameStream(recordings)}, SchemaError, "timestamp"),
        ({"imu": FrameStream(sensors, [])}, InputError, "offsets of the stream imu"),
        ({"imu": FrameStream(sensors, columns=["gyro.xy"])}, NotFoundError, r"gyro\.xyz"),
        ({"imu": FrameStream(sensors, columns=["blob"])}, NotFoundError, "imu has no numbers"),
        ({"task": FrameStream(sensors)}, InputError, "taken"),
        ({"action": FrameStream(sensors)}, InputError, "taken"),
        ({"audio": AudioStream(sensors, 0, 1)}, SchemaError, "no audio"),
        ({"audio": AudioStream(recordings, 1, 1)}, InputError, "span"),
        ({"audio": AudioStream(recordings, 0, np.inf)}, InputError, "span"),
    ]:
        with pytest.raises(error, match=match):
            Windows(episodes, streams=streams)
    twice = recordings.append(recordings.take([2]))
    with pytest.raises(InputError, match=r"several recordings.*robots/000004"):
        Windows(episodes, streams={"audio": AudioStream(twice, 0, 1)})


def test_an_episode_without_a_stream_is_named(
    episodes: EpisodeSet, arm: EpisodeSet, recordings: Table
) -> None:
    rows = recordings.take([0, 1, 2]).set_column(
        1, RECORDINGS.field(1), pa.array([None, b"noise", recording(4)], pa.large_binary())
    )
    table = create_table("memory://streams/few", RECORDINGS, format="memory").append(rows)
    windows = Windows(episodes, columns=[], streams={"audio": AudioStream(table, 0, 0.1)})
    assert windows.batch([sum(LENGTHS) - 1])["audio"].shape == (1, 1600)
    with pytest.raises(InputError, match="robots/000000 has nothing in the stream audio"):
        windows.batch([sum(LENGTHS) - 1, 0])
    with pytest.raises(InputError, match="recording of the stream audio is missing"):
        windows.batch([sum(LENGTHS[:3])])
    with pytest.raises(BadAudio):
        windows.batch([LENGTHS[0]])
    windows.prefetch(np.arange(sum(LENGTHS)))


def test_far_rows_are_padded_by_the_streams_own_rate(episodes: EpisodeSet, arm: EpisodeSet) -> None:
    windows = Windows(
        episodes, columns=[], streams={"arm": FrameStream(arm, [-0.006, -0.004, 0.0])}
    )
    assert windows.batch([0])["arm_is_pad"].tolist() == [[True, False, False]]
    assert FPS != CAMERA_HZ
