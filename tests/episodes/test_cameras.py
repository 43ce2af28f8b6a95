"""Pictures equal those of a plain decode: any file, any budget, any number of threads."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.episodes import EPISODES, VIDEOS, EpisodeSet
from datalake.episodes.schema import FRAME_KEYS
from datalake.episodes.windows.cameras import Cameras, Failure
from datalake.errors import InputError
from datalake.lake import Lake, Lineage, open_lake
from datalake.recording import Feature
from datalake.telemetry import Meter
from datalake.video import BadVideo, DecoderPool, Film, probe
from tests.patience import PATIENCE_S
from tests.video.clips import HEIGHT, WIDTH, clip, decoded
from tests.video.test_probe import WHOLE

FRONT = "observation.images.front"
KINDS = [
    *("h264", "h264_open_gop", "h264_one_group", "hevc", "av1", "vp9"),
    *("matroska", "hidden_group", "uneven_times"),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return open_lake(tmp_path_factory.mktemp("cameras") / "lake")


def made(
    lake: Lake, name: str, files: Sequence[bytes], *, store: str = "lance", bad: int = -1
) -> EpisodeSet:
    """One episode a file; the one at `bad` is damaged after it was probed."""
    videos, rows = [], []
    for number, data in enumerate(files):
        info = probe(data)
        stored = bytearray(data)
        if number == bad:
            begin = int(info.keyframe_offsets[1])
            stored[begin + 8 : begin + 200] = bytes(192)
        videos.append(
            {
                **dict.fromkeys(VIDEOS.names),
                **info.as_row(),
                "video_id": f"clips/{number}",
                "source": "clips",
                "feature": FRONT,
                "num_bytes": len(data),
                "video": bytes(stored),
            }
        )
        span = {"feature": FRONT, "video_id": f"clips/{number}", "from_s": 0.0}
        rows.append(
            {
                **dict.fromkeys(EPISODES.names),
                "episode_id": f"clips/{number:06d}",
                "source": "clips",
                "episode_index": number,
                "fps": info.fps,
                "length": info.num_frames,
                "duration_s": info.duration_s,
                "videos": [span],
            }
        )
    lineage = Lineage("test")
    keys = [
        {"episode_id": row["episode_id"], "frame_index": number, "timestamp": number / row["fps"]}
        for row in rows
        for number in range(row["length"])
    ]
    frames = pa.Table.from_pylist(keys, schema=FRAME_KEYS)
    return EpisodeSet(
        name,
        lake.create(f"{name}_e", EPISODES, lineage=lineage).append(
            pa.Table.from_pylist(rows, schema=EPISODES)
        ),
        lake.create(f"{name}_f", frames.schema, lineage=lineage).append(frames),
        lake.create(f"{name}_v", VIDEOS, format=store, lineage=lineage).append(
            pa.Table.from_pylist(videos, schema=VIDEOS)
        ),
        (feature(),),
    )


def feature() -> Feature:
    return Feature(FRONT, "video", (HEIGHT, WIDTH, 3), ("height", "width", "channels"))


def cameras(episodes: EpisodeSet, **given: Any) -> Cameras:
    usual = {"tolerance_s": 1e-4, "size": None, "cache_bytes": 1 << 30, "num_threads": 2}
    return Cameras(episodes, [feature()], **{**usual, **given})


@cache
def truth() -> list[tuple[np.ndarray, np.ndarray]]:
    """Frames of each kind and their times."""
    files = [WHOLE[kind]() for kind in KINDS]
    return [(decoded(data)[0], probe(data).times()) for data in files]


def asked(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Episodes and times of pairs of a kind and any number."""
    numbers = [number % len(truth()[kind][1]) for kind, number in pairs]
    times = [truth()[pair[0]][1][number] for pair, number in zip(pairs, numbers, strict=True)]
    return np.array([kind for kind, _ in pairs], np.int64), np.array(times, float)


def right(pictures: np.ndarray, pairs: list[tuple[int, int]]) -> bool:
    expected = [truth()[kind][0][number % len(truth()[kind][1])] for kind, number in pairs]
    return len(pictures) == len(pairs) and all(map(np.array_equal, pictures, expected))


@pytest.fixture(scope="module")
def episodes(lake: Lake) -> EpisodeSet:
    return made(lake, "clips", [WHOLE[kind]() for kind in KINDS])


Pairs = st.lists(st.tuples(st.integers(0, len(KINDS) - 1), st.integers(0, 29)), max_size=12)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(Pairs, Pairs), max_size=4),
    st.sampled_from([0, 1, 50_000, 1 << 30]),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 60_000, 1 << 30]),
)
def test_pictures_are_those_of_a_plain_decode(
    episodes: EpisodeSet,
    calls: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]],
    decoded_bytes: int,
    num_threads: int,
    cache_bytes: int,
) -> None:
    """Whatever was expected: what comes later, or what never comes."""
    each = cameras(
        episodes, decoded_bytes=decoded_bytes, num_threads=num_threads, cache_bytes=cache_bytes
    )
    for pairs, coming in calls:
        each.expect({FRONT: asked(coming)})
        assert right(each.pictures({FRONT: asked(pairs)})[FRONT], pairs)
        if each._kept is not None:
            assert each._kept.num_bytes <= decoded_bytes
    assert len(each._pool) <= 2 * num_threads


def test_pictures_go_where_they_are_told(episodes: EpisodeSet) -> None:
    pairs = [(0, 3), (4, 8), (0, 3)]
    given: list[np.ndarray] = []

    def allocate(shape: Sequence[int], dtype: Any) -> np.ndarray:
        given.append(np.full(shape, 7, dtype))
        return given[-1]

    found = cameras(episodes).pictures({FRONT: asked(pairs)}, allocate=allocate)
    assert found[FRONT] is given[0]
    assert right(found[FRONT], pairs)
    small = cameras(episodes, size=(30, 20)).pictures({FRONT: asked(pairs)})
    assert small[FRONT].shape == (3, 20, 30, 3)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many packets each visit to a decoder was given."""
    fed: list[int] = []
    decode = DecoderPool.decode

    def counting(pool: Any, data: Any, samples: Any, first: int, stop: int, *, base: int) -> Any:
        fed.append(stop - first)
        return decode(pool, data, samples, first, stop, base=base)

    monkeypatch.setattr(DecoderPool, "decode", counting)
    return fed


def test_each_group_is_decoded_once_a_call(
    episodes: EpisodeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AV1 in groups of 5: no more than up to the last wanted frame of each."""
    fed = counted(monkeypatch)
    pairs = [(4, number) for number in (7, 2, 6, 6, 1, 20)]
    assert right(cameras(episodes, num_threads=1).pictures({FRONT: asked(pairs)})[FRONT], pairs)
    assert sorted(fed) == [1, 3, 3]


def test_frames_decoded_on_the_way_stay_for_those_who_come(
    episodes: EpisodeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = counted(monkeypatch)
    each = cameras(episodes, decoded_bytes=1 << 30)
    meter = Meter()
    each.attach(meter)
    order = np.random.default_rng(0).permutation(30).tolist()
    for number in order:
        assert right(each.pictures({FRONT: asked([(4, number)])})[FRONT], [(4, number)])
    # Six groups; a second visit where the first frame wanted was an early one.
    assert len(fed) <= 12
    assert meter.counts()["video_frames_kept"] == 30 - len(fed)
    assert meter.seconds()["decode"] > 0


def test_who_is_expected_is_decoded_for(
    episodes: EpisodeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = counted(monkeypatch)
    # A frame takes 12,288 bytes: room for a group of 30 and little else.
    each = cameras(episodes, decoded_bytes=35 * 12_288, num_threads=1)
    block = [(2, number) for number in np.random.default_rng(1).permutation(30).tolist()]
    each.expect({FRONT: asked(block)})
    for pair in block:
        assert right(each.pictures({FRONT: asked([pair])})[FRONT], [pair])
        # Others pass in between.
        other = (0, pair[1])
        assert right(each.pictures({FRONT: asked([other])})[FRONT], [other])
    assert fed.count(30) == 1
    assert each._kept is not None
    assert each._kept.num_bytes <= 35 * 12_288


# Trouble ------------------------------------------------------------------------------------------


def test_a_damaged_video_is_named_and_the_others_are_there(lake: Lake) -> None:
    files = [clip("av1", seed=seed) for seed in range(3)]
    frames = [decoded(data)[0] for data in files]
    each = cameras(made(lake, "damaged", files, bad=1))
    rows, numbers = np.array([0, 1, 1, 2]), np.array([9, 6, 0, 29])
    wanted = {FRONT: (rows, numbers / 30)}
    with pytest.raises(BadVideo, match="clips/1: "):
        each.pictures(wanted)
    failures: list[Failure] = []
    found = each.pictures(wanted, failures=failures)[FRONT]
    assert [(f.camera, f.places.tolist()) for f in failures] == [(FRONT, [1])]
    assert isinstance(failures[0].error, BadVideo)
    for place in (0, 2, 3):
        assert (found[place] == frames[rows[place]][numbers[place]]).all()


def test_times_without_a_frame_and_episodes_without_a_video(lake: Lake) -> None:
    whole = made(lake, "lacking", [clip("h264"), clip("h264", seed=1)])
    rows = whole.episodes.scan().read_all().to_pylist()
    rows[1]["videos"] = []
    table = whole.episodes.overwrite(pa.Table.from_pylist(rows, schema=EPISODES))
    each = cameras(EpisodeSet("lacking", table, whole.frames, whole.videos, whole.features))
    wanted = {FRONT: (np.array([0, 1, 0]), np.array([0.0, 0.0, 0.5]))}
    with pytest.raises(InputError, match=r"clips/000001 has no video of .*front"):
        each.pictures(wanted)
    failures: list[Failure] = []
    found = each.pictures(wanted, failures=failures)[FRONT]
    assert [f.places.tolist() for f in failures] == [[1]]
    assert (found[[0, 2]] == decoded(clip("h264"))[0][[0, 15]]).all()
    failures.clear()
    each.pictures({FRONT: (np.array([0]), np.array([0.51]))}, failures=failures)
    assert "No frame of the video stands at" in str(failures[0].error)


def test_nothing_runs_on_after_an_error(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gets the error may use the arrays for something else."""
    each = cameras(made(lake, "slow", [clip("av1", seed=i) for i in range(3)], bad=0))
    running = threading.Semaphore(0)
    decode = Film.decode

    def slow(*given: Any) -> Any:
        running.release()
        yield from decode(*given)
        running.acquire()

    monkeypatch.setattr(Film, "decode", slow)
    with pytest.raises(BadVideo):
        each.pictures({FRONT: (np.array([0, 1, 2, 2]), np.array([6, 0, 0, 15]) / 30)})
    # Only the one that failed did not get to its end.
    assert running.acquire(blocking=False)
    assert not running.acquire(blocking=False)


# Memory, threads and processes --------------------------------------------------------------------


@pytest.mark.parametrize("store", ["lance", "delta"])
def test_little_is_held_and_nothing_grows(lake: Lake, store: str) -> None:
    files = [clip("h264", seed=seed) for seed in range(12)]
    frames = [decoded(data)[0] for data in files]
    each = cameras(made(lake, f"many_{store}", files, store=store), cache_bytes=60_000)
    rng = np.random.default_rng(0)
    handles = []
    for _ in range(5):
        for row in rng.permutation(12).tolist():
            number = int(rng.integers(0, 30))
            found = each.pictures({FRONT: (np.array([row]), np.array([number / 30]))})[FRONT]
            assert (found[0] == frames[row][number]).all()
        handles.append(len(os.listdir("/proc/self/fd")))
    assert handles[-1] <= handles[0]
    assert each._films._num_bytes <= 60_000
    assert len(each._pool) == 1
    assert len(each._films) == 12 if store == "lance" else len(each._films) <= 3


def test_threads_share_and_copies_do_not(episodes: EpisodeSet) -> None:
    each = cameras(episodes, decoded_bytes=300_000)
    each.pictures({FRONT: asked([(0, 3)])})
    again = pickle.loads(pickle.dumps(each))
    assert (len(again._films), len(again._pool)) == (0, 0)

    def ok(seed: int) -> bool:
        drawn = np.random.default_rng(seed).integers(0, [len(KINDS), 30], (8, 2)).tolist()
        pairs = [(kind, number) for kind, number in drawn]
        again.expect({FRONT: asked(pairs)})
        return right(again.pictures({FRONT: asked(pairs)})[FRONT], pairs)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(ok, range(40)))


def in_child(each: Cameras, wanted: Any, queue: Any) -> None:
    queue.put(each.pictures({FRONT: wanted})[FRONT])


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_other_processes(episodes: EpisodeSet, start: str) -> None:
    each = cameras(episodes, decoded_bytes=1 << 30)
    pairs = [(kind, 7) for kind in range(len(KINDS))]
    each.pictures({FRONT: asked(pairs)})
    if start == "fork":
        each.prepare_fork()
    context: Any = multiprocessing.get_context(start)
    queue = context.Queue()
    children = [
        context.Process(target=in_child, args=(each, asked(pairs), queue)) for _ in range(2)
    ]
    for child in children:
        child.start()
    assert all(right(queue.get(timeout=PATIENCE_S), pairs) for _ in children)
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert right(each.pictures({FRONT: asked(pairs)})[FRONT], pairs)


def test_a_table_that_is_not_mapped_is_not_for_forks(lake: Lake) -> None:
    each = cameras(made(lake, "elsewhere", [clip("h264")], store="delta"))
    with pytest.raises(InputError, match="spawned"):
        each.prepare_fork()
