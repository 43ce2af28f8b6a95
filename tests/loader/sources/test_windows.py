"""Windows as a source: the same as `Windows.batch`, and every bad row is named."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from datalake.blocks.cache import BlockCache
from datalake.episodes import EpisodeSet
from datalake.episodes.windows import FrameStream, Windows
from datalake.errors import InputError
from datalake.lake import Lake, Lineage, open_lake
from datalake.loader.engine.scattered import Scatterable
from datalake.loader.sources.source import BadRowsError, Source
from datalake.loader.sources.windows import EpisodeWindows
from datalake.telemetry import Meter
from tests.robots import CAMERA, FPS, LENGTHS, TASKS, WRIST, write_robots

NUM_FRAMES = sum(LENGTHS)
WORDS = np.zeros(NUM_FRAMES, np.uint64)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return open_lake(tmp_path_factory.mktemp("sources") / "lake")


@pytest.fixture(scope="module")
def episodes(lake: Lake) -> EpisodeSet:
    return write_robots(lake)


def read(source: Source, rows: list[int]) -> dict[str, Any]:
    return source.read(np.array(rows, np.int64), WORDS[: len(rows)], np.empty)


def test_a_batch_is_that_of_windows(lake: Lake, episodes: EpisodeSet) -> None:
    source = EpisodeWindows.from_lake(lake, "g1", {"action": [0, 0.1], CAMERA: [-0.1, 0]})
    rows = np.random.default_rng(0).permutation(NUM_FRAMES)[:20].tolist()
    columns = read(source, [*rows, rows[0]])
    batch = Windows(episodes, {"action": [0, 0.1], CAMERA: [-0.1, 0]}).batch([*rows, rows[0]])
    assert columns.keys() == batch.keys() | {"row_index"}
    for key, values in batch.items():
        assert np.array_equal(np.array(columns[key], values.dtype), values)
        assert isinstance(columns[key], list) == (values.dtype == object)
    assert columns["row_index"].tolist() == [*rows, rows[0]]
    assert {len(values) for values in columns.values()} == {21}


def test_encoded_pictures_are_lists_of_bytes(episodes: EpisodeSet) -> None:
    stored = episodes.frames.scan(["observation/images/wrist"]).read_all()[0].to_pylist()
    source = EpisodeWindows(Windows(episodes, columns=[WRIST], decode=False))
    assert read(source, [5, 3])[WRIST] == [stored[5], stored[3]]
    source = EpisodeWindows(Windows(episodes, {WRIST: [-0.1, 0]}, columns=[], decode=False))
    assert read(source, [5, 0])[WRIST] == [[stored[4], stored[5]], [stored[0], stored[0]]]
    assert read(source, [])[WRIST] == []


def test_what_is_large_lies_where_it_is_told(episodes: EpisodeSet) -> None:
    made: list[np.ndarray] = []

    def allocate(shape: Any, dtype: Any) -> np.ndarray:
        made.append(np.empty(shape, dtype))
        return made[-1]

    columns = EpisodeWindows(Windows(episodes, columns=[WRIST])).read(
        np.array([4, 2, 4]), WORDS[:3], allocate
    )
    assert np.shares_memory(columns[WRIST], made[0])
    assert (columns[WRIST] == Windows(episodes, columns=[WRIST]).batch([4, 2, 4])[WRIST]).all()


def test_what_a_row_is_called_and_counts_for(episodes: EpisodeSet) -> None:
    source = EpisodeWindows(Windows(episodes, {"action": [0, 0.1, 0.2]}))
    rows = np.array([0, 11, 12, NUM_FRAMES - 1, 12])
    assert source.num_rows == NUM_FRAMES
    assert source.ids(rows) == [
        "robots/000000@0",
        "robots/000000@11",
        "robots/000001@0",
        "robots/000004@14",
        "robots/000001@0",
    ]
    assert source.domains(rows) == [
        f"robots/{robot}/{TASKS[task]}"
        for robot, task in [("arm", 0), ("arm", 0), ("humanoid", 1), ("arm", 0), ("humanoid", 1)]
    ]
    assert source.costs(rows, "examples").tolist() == [1] * 5
    assert source.costs(rows, "frames").tolist() == [3] * 5
    assert source.costs(rows, "seconds").tolist() == pytest.approx([3 / FPS] * 5)
    with pytest.raises(InputError, match="examples, frames or seconds"):
        source.costs(rows, "tokens")
    identity = source.identity()
    assert identity["set"] == "g1"
    for part in ("episodes", "frames", "videos"):
        assert identity[f"{part}_version"] == getattr(episodes, part).version
        assert identity[f"{part}_uri"] == getattr(episodes, part).uri
    assert source.block_rows & (source.block_rows - 1) == 0
    source.prefetch(rows).wait()
    source.expect(rows, 3.0)


def test_sources_of_one_kind_give_the_same_keys_and_shapes(
    lake: Lake, episodes: EpisodeSet
) -> None:
    other = write_robots(lake, "g2", source="b", lengths=(4, 5))
    wider = write_robots(lake, "g3", source="c", lengths=(4,), dim=4)

    def kind(episodes: EpisodeSet, deltas: Any = None, **options: Any) -> str:
        return EpisodeWindows(Windows(episodes, deltas, **options)).kind

    assert kind(episodes) == kind(other) != kind(wider)
    assert kind(episodes).startswith("windows/")
    arm = FrameStream(other, columns=["action"])
    kinds = [
        kind(episodes),
        kind(episodes, {"action": [0]}),
        kind(episodes, {"action": [0, 0.1]}),
        kind(episodes, size=(8, 8)),
        kind(episodes, decode=False),
        kind(episodes, streams={"arm": arm}),
        kind(episodes, streams={"hand": arm}),
    ]
    assert len(set(kinds)) == len(kinds)
    assert kind(episodes, {"action": [0, 0.1]}) == kind(episodes, {"action": [0.1, 0.2]})


def test_rows_of_episodes_are_a_split(episodes: EpisodeSet, lake: Lake) -> None:
    windows = EpisodeWindows(episodes).windows
    ends = np.cumsum(LENGTHS).tolist()
    rows = windows.episode_rows(["robots/000003", "robots/000001"])
    assert rows.tolist() == [*range(ends[2], ends[3]), *range(ends[0], ends[1])]
    assert windows.episode_rows(where="embodiment = 'humanoid'").tolist() == sorted(rows)
    assert windows.episode_rows().tolist() == list(range(NUM_FRAMES))
    assert windows.episode_rows([]).tolist() == []
    read = episodes.episodes.scan().read_all().to_pylist()
    for row, (head, tail) in zip(read, [(2, 3), (0, 7), (None, 1), (9, 9), (0, 0)], strict=True):
        row |= {"idle_head": head, "idle_tail": tail}
    schema = episodes.episodes.schema
    table = lake.create("idle", schema, lineage=Lineage("test"))
    table = table.append(pa.Table.from_pylist(read, schema=schema))
    idle = EpisodeSet("idle", table, episodes.frames, episodes.videos, episodes.features)
    assert Windows(idle).episode_rows(skip_idle=True).tolist() == [
        *range(2, 9),
        *range(ends[1], ends[2] - 1),
        *range(ends[3], ends[4]),
    ]
    assert Windows(idle).episode_rows(["robots/000002"], skip_idle=True)[0] == ends[1]


def test_every_bad_row_is_named(lake: Lake) -> None:
    made = write_robots(lake, "bad", video=False)
    frames = made.frames.scan().read_all()
    cells = frames["observation/images/wrist"].to_pylist()
    cells[4], cells[9], cells[30] = b"no picture", cells[9][:-30], None
    at = frames.schema.get_field_index("observation/images/wrist")
    holed = made.frames.overwrite(
        frames.set_column(at, frames.schema.field(at), pa.array(cells, pa.large_binary()))
    )
    source = EpisodeWindows(EpisodeSet("bad", made.episodes, holed, made.videos, made.features))
    assert len(read(source, [3, 5, 31])["index"]) == 3
    with pytest.raises(BadRowsError) as caught:
        read(source, [3, 9, 4, 30, 9, 31])
    assert [(bad.index, bad.row, bad.reason) for bad in caught.value.bad] == [
        (1, 9, "corrupt"),
        (2, 4, "corrupt"),
        (3, 30, "bad_row"),
        (4, 9, "corrupt"),
    ]
    assert caught.value.bad[0].where.endswith("row 9, robots/000000@9")
    assert "a picture" in caught.value.bad[0].detail
    assert WRIST in caught.value.bad[2].detail


def test_an_episode_without_the_camera_is_a_bad_row(lake: Lake, episodes: EpisodeSet) -> None:
    rows = episodes.episodes.scan().read_all().to_pylist()
    rows[3]["videos"] = []
    schema = episodes.episodes.schema
    table = lake.create("blind", schema, lineage=Lineage("test"))
    table = table.append(pa.Table.from_pylist(rows, schema=schema))
    blind = EpisodeSet("g", table, episodes.frames, episodes.videos, episodes.features)
    first = sum(LENGTHS[:3])
    with pytest.raises(BadRowsError) as caught:
        read(EpisodeWindows(Windows(blind, columns=[CAMERA])), [first, 0, first + 2])
    assert [bad.row for bad in caught.value.bad] == [first, first + 2]
    assert "no video of" in caught.value.bad[0].detail


def test_pictures_that_are_well_but_differ_in_size(lake: Lake) -> None:
    """No row is to blame: the error says so, and no row is substituted."""
    made = write_robots(lake, "sizes", video=False)
    small = write_robots(lake, "sizes2", video=False, lengths=(1,))
    frames = made.frames.scan().read_all()
    cells = frames["observation/images/wrist"].to_pylist()
    from tests.episodes.test_windows_pictures import encoded

    cells[5] = encoded(np.zeros((9, 9, 3), np.uint8), "png")
    at = frames.schema.get_field_index("observation/images/wrist")
    mixed = made.frames.overwrite(
        frames.set_column(at, frames.schema.field(at), pa.array(cells, pa.large_binary()))
    )
    del small
    source = EpisodeWindows(EpisodeSet("sizes", made.episodes, mixed, made.videos, made.features))
    with pytest.raises(InputError, match=r"differ in size.*9, 9"):
        read(source, [4, 5])
    assert read(source, [5])[WRIST].shape == (1, 9, 9, 3)


def test_pickled_in_threads_and_counted(episodes: EpisodeSet) -> None:
    source = EpisodeWindows(Windows(episodes, {"action": [0, 0.1]}, columns=[WRIST]))
    again = pickle.loads(pickle.dumps(source))
    assert again.kind == source.kind
    meter = Meter()
    again.attach(meter)
    rows = np.random.default_rng(0).integers(0, NUM_FRAMES, (12, 7))
    expected = [read(source, each.tolist()) for each in rows]
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(
            pool.map(lambda each: read(again, each.tolist()), rows), expected, strict=True
        ):
            for key, values in wanted.items():
                assert np.array_equal(found[key], values)
    assert meter.seconds()["decode"] > 0


def test_scattered_pictures_are_fetched_alone_where_the_cache_is_small(
    lake: Lake, tmp_path: Path
) -> None:
    """And by blocks otherwise: what is read is the same."""
    episodes = write_robots(lake, "far", source="far", video=False, format="delta")
    words, rows = np.zeros(2, np.uint64), np.array([40, 3])
    found = []
    for budget_bytes in (1, 64 << 20):
        cache = BlockCache(tmp_path / str(budget_bytes), budget_bytes=budget_bytes)
        meter, source = Meter(), EpisodeWindows(Windows(episodes, columns=[WRIST], cache=cache))
        source.attach(meter)
        assert isinstance(source, Scatterable)
        source.scatter(True)
        assert source.windows._reader._sparse == (budget_bytes == 1)
        source.prefetch(rows).wait()
        found.append((source.read(rows, words, np.empty)[WRIST], meter.counts()))
        source.scatter(False)
        assert not source.windows._reader._sparse
    (alone, few), (blocks, all_) = found
    assert np.array_equal(alone, blocks)
    assert few["origin_bytes"] < all_["origin_bytes"]
