"""Statistics against NumPy on the whole, and against what a real dataset says of itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from datalake.episodes.statistics import (
    QUANTILES,
    Accumulator,
    FeatureStats,
    merge_stats,
    numbers_of,
    sampled_frames,
    summarise,
    summarise_pictures,
    summarise_set,
    summarise_stream,
)
from datalake.errors import InputError
from datalake.lake import open_lake
from datalake.recording import Feature
from tests.robots import LENGTHS, write_robots

LEVELS = list(QUANTILES.values())
DTYPES = ("bool", "int8", "uint8", "int32", "uint64", "int64", "float16", "float32", "float64")


def vectors(values: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def feature(values: np.ndarray) -> Feature:
    return Feature("observation.x", str(values.dtype), (values.shape[1],))


def column(values: np.ndarray) -> pa.Array:
    return pa.array(values[:, 0]) if values.shape[1] == 1 else vectors(values)


def numpy_of(values: np.ndarray) -> dict[str, np.ndarray]:
    """The slow twin: one element at a time, NaN left out."""
    figures: dict[str, list[float]] = {name: [] for name in ("min", "max", "mean", "std")}
    figures |= {name: [] for name in QUANTILES}
    with np.errstate(all="ignore"):
        for element in values.astype("float64").T:
            there = element[~np.isnan(element)]
            for name, function in (("min", np.min), ("max", np.max), ("mean", np.mean)):
                figures[name].append(function(there) if len(there) else np.nan)
            figures["std"].append(np.std(there) if len(there) else np.nan)
            for name, level in QUANTILES.items():
                figures[name].append(np.quantile(there, level) if len(there) else np.nan)
    return {name: np.array(figure) for name, figure in figures.items()}


def assert_equal(found: FeatureStats, values: np.ndarray) -> None:
    """Order statistics to the bit; moments up to rounding, relative to the largest value."""
    expected = numpy_of(values)
    assert found.count == len(values)
    for name in ("min", "max", *QUANTILES):
        np.testing.assert_array_equal(getattr(found, name), expected[name], err_msg=name)
    wide = np.abs(values.astype("float64"))
    scale = np.max(wide, initial=0.0, where=np.isfinite(wide))
    for name in ("mean", "std"):
        np.testing.assert_allclose(
            getattr(found, name), expected[name], rtol=1e-9, atol=1e-12 * scale, err_msg=name
        )


def streamed(values: np.ndarray, batch_rows: int, memory_bytes: int) -> tuple[FeatureStats, int]:
    """The statistics of a stream of batches, and how many passes it took."""
    table = pa.table({"observation/x": column(values)})
    passes = 0

    def scan(columns: Sequence[str]) -> list[pa.RecordBatch]:
        nonlocal passes
        passes += 1
        return table.select(columns).to_batches(max_chunksize=batch_rows)

    (found,) = summarise_stream(scan, [feature(values)], memory_bytes=memory_bytes)
    return found, passes


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.tuples(st.integers(1, 60), st.integers(1, 3)))
    elements = None
    if dtype.kind == "f":
        # Squares of larger ones are infinite, in NumPy too.
        most = {2: 2.0**15, 4: 2.0**100, 8: 2.0**500}[dtype.itemsize]
        numbers = npst.from_dtype(dtype, min_value=-most, max_value=most, allow_nan=False)
        elements = st.one_of(numbers, st.sampled_from([0.0, -0.0, 1.0, np.nan]).map(dtype.type))
    return draw(npst.arrays(dtype, shape, elements=elements))


# One episode --------------------------------------------------------------------------------------


@given(arrays())
def test_one_episode_equals_numpy(values: np.ndarray) -> None:
    (found,) = summarise(pa.table({"observation.x": column(values)}), [feature(values)])
    assert_equal(found, values)


def test_columns_are_found_by_either_name_and_others_passed_over() -> None:
    frames = pa.table({"a/b": [1.0, 3.0], "text": ["x", "y"], "timestamp": [0.0, 0.1]})
    features = [
        Feature("a.b", "float64", (1,)),
        Feature("text", "string", (1,)),
        Feature("absent", "float32", (2,)),
        Feature("camera", "video", (4, 4, 3)),
        Feature("timestamp", "float64", (1,)),
    ]
    found = summarise(frames, features)
    assert [stats.feature for stats in found] == ["a.b", "timestamp"]
    assert (found[0].mean.tolist(), found[0].std.tolist()) == ([2.0], [1.0])


def test_nulls_are_left_out() -> None:
    frames = pa.table(
        {
            "row": pa.array([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float32(), 2)),
            "int": pa.array([1, None, 3]),
        }
    )
    row, integer = summarise(
        frames, [Feature("row", "float32", (2,)), Feature("int", "int64", (1,))]
    )
    assert (row.count, row.min.tolist(), row.max.tolist()) == (2, [1.0, 2.0], [3.0, 2.0])
    assert (integer.count, integer.mean.tolist()) == (2, [2.0])


def test_no_frames_give_nan() -> None:
    frames = pa.table({"x": pa.array([], pa.list_(pa.float32(), 3))})
    (found,) = summarise(frames, [Feature("x", "float32", (3,))])
    assert found.count == 0
    assert all(np.isnan(figure).all() and len(figure) == 3 for figure in found.as_dict().values())


def test_numbers_of_nested_and_odd_columns() -> None:
    nested = pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.int16())))
    assert numbers_of(nested).tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert numbers_of(pa.chunked_array([[1.0], [2.0]])).tolist() == [[1.0], [2.0]]
    with pytest.raises(InputError, match="no numbers"):
        numbers_of(pa.array(["a"]))
    with pytest.raises(InputError, match="unlike length"):
        numbers_of(pa.array([[1.0], [1.0, 2.0]]))
    with pytest.raises(InputError, match="unlike length"):
        numbers_of(pa.array([[1.0], []]))


def test_rows_bring_the_statistics_back() -> None:
    values = np.array([[1.0, np.nan], [2.0, np.nan]])
    (found,) = summarise(pa.table({"observation.x": vectors(values)}), [feature(values)])
    assert FeatureStats.from_row(found.as_row()) == found
    bare = FeatureStats.from_row({"feature": "x", "mean": [1.0, 2.0], "count": 3})
    assert bare.mean.tolist() == [1.0, 2.0]
    assert np.isnan(bare.q50).tolist() == [True, True]


# Streams ------------------------------------------------------------------------------------------


@given(arrays(), st.randoms(use_true_random=False), st.data())
def test_any_cut_and_any_order_give_the_same_moments(
    values: np.ndarray, random: Any, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    parts = np.split(values, cuts)
    random.shuffle(parts)
    accumulators = []
    for part in parts:
        accumulators.append(Accumulator(values.shape[1]))
        accumulators[-1].add(part)
    while len(accumulators) > 1:
        one = accumulators.pop(random.randrange(len(accumulators)))
        accumulators[-1].merge(one)
    whole = accumulators[0]
    expected = numpy_of(values)
    wide = np.abs(values.astype("float64"))
    scale = np.max(wide, initial=0.0, where=np.isfinite(wide))
    np.testing.assert_array_equal(whole.min, expected["min"])
    np.testing.assert_array_equal(whole.max, expected["max"])
    np.testing.assert_allclose(whole.mean, expected["mean"], rtol=1e-9, atol=1e-12 * scale)
    np.testing.assert_allclose(whole.std, expected["std"], rtol=1e-9, atol=1e-12 * scale)


def test_a_large_offset_costs_no_digits() -> None:
    values = np.random.default_rng(1).normal(size=(10_000, 1)) + 1e9
    accumulator = Accumulator(1)
    for part in np.array_split(values, 97):
        accumulator.add(part)
    # Means of parts are rounded to 1e-7 here. A sum of squares, 1e18, would have no digit at all.
    np.testing.assert_allclose(accumulator.std, (values - 1e9).std(), rtol=1e-8)


def test_infinite_values_are_as_in_numpy() -> None:
    values = np.array([[1.0, -np.inf, np.inf], [np.inf, 2.0, -np.inf], [3.0, 4.0, 0.0]])
    accumulator = Accumulator(3)
    for row in values:
        accumulator.add(row[None])
    assert accumulator.mean.tolist()[:2] == [np.inf, -np.inf]
    assert np.isnan(accumulator.mean[2])
    assert np.isnan(accumulator.std).all()
    found, _ = streamed(values, 1, 8)
    assert_equal(found, values)


@given(arrays(), st.integers(1, 20), st.sampled_from([1, 64, 1 << 20]))
def test_a_stream_equals_numpy_on_the_whole(
    values: np.ndarray, batch_rows: int, memory_bytes: int
) -> None:
    found, _ = streamed(values, batch_rows, memory_bytes)
    assert_equal(found, values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_passes_are_bounded_whatever_the_values(dtype: str) -> None:
    """A pass that counts, one for every 12 bits, one that collects."""
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype)
    raw = rng.integers(0, 256, 4000 * kind.itemsize, dtype=np.uint8)
    values = raw % 2 == 0 if dtype == "bool" else raw.view(kind)
    if kind.kind == "f":
        values = values[np.isfinite(values)]
        values = values.clip(-1e100, 1e100) if dtype == "float64" else values
    found, passes = streamed(values[:3000, None], 500, 1)
    assert passes <= 2 + -(-kind.itemsize * 8 // 12)
    expected = np.quantile(values[:3000].astype("float64"), LEVELS)
    assert [float(getattr(found, name)[0]) for name in QUANTILES] == expected.tolist()


def test_one_pass_where_memory_holds_the_values() -> None:
    values = np.random.default_rng(0).normal(size=(1000, 4)).astype("float32")
    assert streamed(values, 100, 1 << 20)[1] == 1
    found, passes = streamed(values, 100, 4000)
    assert passes <= 4
    assert_equal(found, values)


def test_a_whole_set_equals_numpy(tmp_path: Path) -> None:
    episodes = write_robots(open_lake(tmp_path / "lake", create=True))
    by_name = {stats.feature: stats for stats in summarise_set(episodes, memory_bytes=64)}
    assert sorted(by_name) == ["action", "next.done", "next.reward", "observation.state"]
    frames = episodes.frames.scan().read_all()
    for name, found in by_name.items():
        assert found.count == sum(LENGTHS)
        assert_equal(found, numbers_of(frames[name.replace(".", "/")]))
    (times,) = summarise_set(episodes, [Feature("timestamp", "float64", (1,))])
    assert times.max.tolist() == [max(frames["timestamp"].to_pylist())]


# Pictures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "number"),
    [(0, 0), (1, 1), (50, 50), (100, 100), (500, 105), (1000, 177), (2000, 299), (20_000, 1681),
     (10**9, 10_000)],
)  # fmt: skip
def test_as_many_frames_as_lerobot_takes(length: int, number: int) -> None:
    frames = sampled_frames(length)
    assert len(frames) == number
    if length:
        assert (frames[0], frames[-1]) == (0, length - 1)


@pytest.mark.parametrize("shape", [(24, 32, 3), (480, 640, 3), (320, 240, 1)])
def test_pictures_equal_numpy_per_channel(shape: tuple[int, int, int]) -> None:
    pictures = np.random.default_rng(5).integers(3, 250, (7, *shape), dtype=np.uint8)
    found = summarise_pictures("camera", iter(pictures))
    step = 1 if max(shape) < 300 else max(shape) // 150
    values = pictures[:, ::step, ::step].reshape(-1, shape[2]) / 255
    expected = numpy_of(values)
    assert found is not None
    assert found.count == 7
    for name, figure in found.as_dict().items():
        np.testing.assert_allclose(figure, expected[name], rtol=1e-12, err_msg=name)


def test_pictures_that_cannot_be_summarised() -> None:
    assert summarise_pictures("camera", []) is None
    with pytest.raises(InputError, match="uint8"):
        summarise_pictures("camera", [np.zeros((4, 4, 3), np.float32)])  # type: ignore[list-item]
    with pytest.raises(InputError, match="unlike channels"):
        summarise_pictures("camera", [np.zeros((4, 4, 3), np.uint8), np.zeros((4, 4, 1), np.uint8)])


def test_merged_figures_of_pictures() -> None:
    pictures = np.random.default_rng(6).integers(0, 256, (9, 8, 8, 3), dtype=np.uint8)
    parts = [summarise_pictures("camera", part) for part in np.split(pictures, [2, 5])]
    whole = summarise_pictures("camera", pictures)
    assert whole is not None
    merged = merge_stats([part for part in parts if part is not None])
    assert merged.count == whole.count
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), rtol=1e-12)
    # An average of quantiles is near, and is no quantile.
    np.testing.assert_allclose(merged.q50, whole.q50, atol=0.1)
    with pytest.raises(InputError, match="cannot be merged"):
        merge_stats([])


# Real data ----------------------------------------------------------------------------------------


@pytest.mark.shared
def test_equal_to_what_a_real_dataset_says(shared_dir: Path) -> None:
    """LeRobot computes in float32; min and max are copies and equal to the bit."""
    root = shared_dir / "data/robot/g1_pick_v21"
    features = [Feature(name, "float32", (26,)) for name in ("observation.state", "action")]
    lines = (root / "meta/episodes_stats.jsonl").read_text("utf-8").splitlines()
    for line in map(json.loads, lines):
        path = root / f"data/chunk-000/episode_{line['episode_index']:06d}.parquet"
        for found in summarise(pq.read_table(path), features):
            said = line["stats"][found.feature]
            assert [found.count] == said["count"]
            assert (found.min.tolist(), found.max.tolist()) == (said["min"], said["max"])
            np.testing.assert_allclose(found.mean, said["mean"], rtol=0, atol=3e-6)
            np.testing.assert_allclose(found.std, said["std"], rtol=0, atol=3e-7)
