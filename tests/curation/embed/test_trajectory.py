"""Embeddings of movements."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.fft
from hypothesis import given
from hypothesis import strategies as st

from curation.embed.trajectory import Trajectory, coefficients
from datalake.episodes.operations import delete
from datalake.errors import InputError, NotFoundError
from datalake.lake import Lake, open_lake
from datalake.pipelines.annotation import annotate
from tests.curation.embed.rows import check_promises, vectors
from tests.robots import LENGTHS, robot_frames, write_robots

_numbers = itertools.count()


@pytest.fixture
def lake() -> Lake:
    return open_lake(f"memory://trajectory{next(_numbers)}")


def slow(values: np.ndarray, num_points: int, num_coefficients: int) -> np.ndarray:
    """By numpy's interpolation and scipy's transform."""
    places = np.linspace(0, len(values) - 1, num_points)
    resampled = [np.interp(places, np.arange(len(values)), column) for column in values.T]
    terms = scipy.fft.dct(np.array(resampled), norm="ortho", axis=1) / np.sqrt(num_points)
    return terms[:, :num_coefficients]


@given(st.integers(1, 200), st.integers(1, 4), st.integers(1, 64), st.integers(0, 2**32 - 1))
def test_coefficients_are_those_of_a_slow_twin(
    num_frames: int, num_dimensions: int, kept: int, seed: int
) -> None:
    values = np.random.default_rng(seed).normal(size=(num_frames, num_dimensions))
    np.testing.assert_allclose(
        coefficients(values, 64, kept), slow(values, 64, kept), rtol=1e-9, atol=1e-12
    )


def test_distance_is_the_mean_square_difference_over_time() -> None:
    one, other = np.random.default_rng(0).normal(size=(2, 64, 3))
    apart = coefficients(one, 64, 64) - coefficients(other, 64, 64)
    assert np.square(apart).sum() == pytest.approx(np.square(one - other).mean(axis=0).sum())


def test_speed_does_not_matter_and_movement_does() -> None:
    time = np.linspace(0, 1, 200)[:, None]
    slowly, fast = np.sin(3 * time), np.sin(3 * time[::4])
    there, still = coefficients(slowly, 64, 8), coefficients(slowly[::-1], 64, 8)
    assert np.linalg.norm(there - coefficients(fast, 64, 8)) < 0.02
    assert np.linalg.norm(there - still) > 4 * 0.02


def test_episodes_are_normalised_by_the_set(lake: Lake) -> None:
    g1 = write_robots(lake, image=False, video=False)
    embedder = Trajectory(lake, "g1.episodes")
    made = check_promises(embedder, g1.episodes.scan().read_all())
    frames = [robot_frames(number, length, image=False) for number, length in enumerate(LENGTHS)]
    moves = [
        np.hstack([np.array(each[c].to_pylist()) for c in ("observation/state", "action")])
        for each in frames
    ]
    everything = np.concatenate(moves)
    normal = [(each - everything.mean(axis=0)) / everything.std(axis=0) for each in moves]
    expected = np.array([slow(each, 64, 8).ravel() for each in normal])
    assert made["trajectory"].type.list_size == 6 * 8
    np.testing.assert_allclose(vectors(made), expected, atol=1e-5)


def test_what_never_moves_is_zero(lake: Lake) -> None:
    g1 = write_robots(lake, image=False, video=False, lengths=(1, 1), idle=(1, 0))
    made = Trajectory(lake, "g1.episodes", ("next.done",)).open()(g1.episodes.scan().read_all())
    assert not vectors(made).any()


def test_episodes_that_came_later_or_went_are_known(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    g1 = write_robots(lake, image=False, video=False)
    work = Trajectory(lake, "g1.episodes").open()
    rows = g1.episodes.scan(["episode_id", "length", "stamp"]).read_all()
    before = work(rows)
    delete(lake, "g1", where="episode_index = 0")
    # Opened again when an id is not found; until then the version that was opened.
    strange = pa.table({"episode_id": ["gone"], "length": [1], "stamp": ["x"]})
    assert work(strange)["error"].to_pylist() == ["the episode is not in the set any more"]
    after = work(rows)
    assert after["error"].null_count == 4
    np.testing.assert_array_equal(vectors(after), vectors(before)[1:])


def test_the_column_is_found_beside_the_episodes(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    write_robots(lake, image=False, video=False)
    report = annotate(lake, "g1.episodes", Trajectory(lake, "g1.episodes"), executor="local")
    assert report.num_annotated == 5
    field = lake["g1.episodes"].schema.field("trajectory")
    assert field.metadata[b"datalake.embedder"] == b"trajectory"


def test_options_are_checked(lake: Lake) -> None:
    write_robots(lake, video=False)
    with pytest.raises(NotFoundError, match=r"observation\.state"):
        Trajectory(lake, "g1.episodes", ("observation.stat",))
    with pytest.raises(InputError, match="not numeric"):
        Trajectory(lake, "g1.episodes", ("note",))
    with pytest.raises(InputError, match="1 to 64"):
        Trajectory(lake, "g1.episodes", num_coefficients=65)
    with pytest.raises(InputError, match="takes episodes"):
        Trajectory(lake, "g1.frames")
