"""What is read of LIBERO's files, value by value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from datalake.errors import InputError
from tests.connectors.robots import demos
from tests.connectors.robots.reading import assert_numbers, assert_pictures, bad, good, opened

OWN = {"actions": "action", "rewards": "next.reward", "dones": "next.done"}


def files() -> dict[str, bytes]:
    return {
        "libero_goal/b_demo.hdf5": demos.libero(1, states=45, instruction='"open the drawer"'),
        "libero_goal/a_demo.hdf5": demos.libero(0),
    }


@pytest.mark.parametrize("flip", ["no", "yes"])
def test_every_value_is_the_files(tmp_path: Path, flip: str) -> None:
    corpus = opened("libero", tmp_path / "libero", files(), flip=flip)
    assert (corpus.embodiment, corpus.fps) == ("Panda", 20.0)
    episodes = good(corpus)
    assert [data.ref.episode_id for data in episodes] == [
        f"libero/libero_goal/{task}_demo/demo_{number}" for task in "ab" for number in (0, 1)
    ]
    assert [data.ref.episode_index for data in episodes] == [0, 1, 2, 3]
    assert [data.ref.length for data in episodes] == [3, 2, 3, 2]
    assert [data.tasks[0] for data in episodes] == [demos.INSTRUCTION] * 2 + ["open the drawer"] * 2
    for number, data in enumerate(episodes):
        seed, length = 10 * (number // 2) + number % 2, (3, 2)[number % 2]
        arrays = demos.libero_demo(seed, length, states=(79, 45)[number // 2])
        assert data.metadata["init_state"] == arrays["states"][0].tolist()
        assert data.metadata["bddl_file_name"] == "bddl_files/x.bddl"
        for path, values in arrays.items():
            key = path.partition("/")[2]
            if path.endswith("_rgb"):
                upright = values[:, ::-1] if flip == "yes" else values
                assert_pictures(data.frames, f"observation.images.{key}", upright)
            elif path != "states":
                name = OWN.get(path) or (f"observation.{key}" if key else path)
                assert_numbers(data.frames, name, values)
        assert "states" not in data.frames.column_names
    convention = {f.info["image_convention"] for f in corpus.features if f.dtype == "image"}
    assert convention == {"opencv" if flip == "yes" else "opengl"}


def test_the_simulators_states_are_kept_where_they_are_of_one_size(tmp_path: Path) -> None:
    corpus = opened("libero", tmp_path / "mixed", files(), states="keep")
    assert {reason for reason, _ in bad(corpus).values()} == {"shape_changed"}
    one = {"a_demo.hdf5": demos.libero(0)}
    (first, _) = good(opened("libero", tmp_path / "one", one, states="keep"))
    assert_numbers(first.frames, "states", demos.libero_demo(0, 3, states=79)["states"])


def test_a_broken_file_is_one_refused_episode(tmp_path: Path) -> None:
    data = {
        **files(),
        "libero_goal/c_demo.hdf5": demos.libero(2)[:5000],
        "libero_goal/d_demo.hdf5": b"",
        "libero_goal/e_demo.hdf5": b"version https://git-lfs.github.com/spec/v1\noid 1\n",
        "libero_goal/f_demo.hdf5": b"not HDF5 at all" * 100,
        "libero_goal/g_demo.hdf5": demos.robomimic(),
    }
    corpus = opened("libero", tmp_path / "libero", data)
    assert {name: reason for name, (reason, _) in bad(corpus).items()} == {
        "c_demo": "truncated",
        "d_demo": "empty",
        "e_demo": "lfs_pointer",
        "f_demo": "corrupt",
        "g_demo": "unsupported",
    }
    assert len([ref for ref in corpus.episodes() if ref.refusal is None]) == 4


def test_totals_are_compared(tmp_path: Path) -> None:
    def edit(file: object) -> None:
        file["data"].attrs["num_demos"] = 50  # type: ignore[index]
        file["data"].attrs["total"] = np.int64(7)  # type: ignore[index]

    data = {"a_demo.hdf5": demos.edited(demos.libero(0), edit)}
    details = [finding.detail for finding in opened("libero", tmp_path, data).findings()]
    assert [detail.split(",")[0] for detail in details] == ["total is 7", "num_demos is 50"]


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no HDF5 file"):
        opened("libero", tmp_path, {"a_demo.hdf5": b"junk" * 100})
