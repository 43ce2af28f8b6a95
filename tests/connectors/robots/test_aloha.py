"""What is read of ALOHA's files, value by value and JPEG by JPEG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from datalake.detection import connector
from datalake.testing.connector_suite import lay_down
from datalake.uri import locate
from tests.connectors.robots import demos
from tests.connectors.robots.reading import assert_numbers, assert_pictures, bad, good, opened

NAMES = {
    "action": "action",
    "observations/qpos": "observation.state",
    "observations/qvel": "observation.velocity",
    "observations/effort": "observation.effort",
    "base_action": "base_action",
}


def arrays(number: int) -> demos.Values:
    length = 3 + number
    rng = np.random.default_rng(number)
    return {
        **demos.aloha_arrays(number, length),
        "observations/effort": rng.normal(size=(length, 14)).astype("float32"),
        "base_action": rng.normal(size=(length, 2)),
    }


def files(*, compressed: bool, **more: Any) -> dict[str, bytes]:
    return {
        f"aloha_cube/episode_{number}.hdf5": demos.aloha(
            arrays(number), compressed=compressed, **more
        )
        for number in (0, 1, 10, 2)
    }


@pytest.mark.parametrize("compressed", [False, True])
def test_every_value_is_the_files(tmp_path: Path, compressed: bool) -> None:
    data = files(compressed=compressed, sim=not compressed)
    corpus = opened("aloha", tmp_path / "all", data)
    assert (corpus.embodiment, corpus.fps) == ("aloha", 50.0)
    assert list(corpus.findings()) == []
    episodes = good(corpus)
    names = [episode.ref.origin for episode in episodes]
    assert names == [f"aloha_cube/episode_{number}.hdf5" for number in (0, 1, 2, 10)]
    for episode, number in zip(episodes, (0, 1, 2, 10), strict=True):
        assert episode.tasks == {0: "aloha_cube"}
        assert episode.metadata["sim"] is not compressed
        for path, values in arrays(number).items():
            if path in NAMES:
                assert_numbers(episode.frames, NAMES[path], values)
                continue
            name = path.replace("/", ".").replace("observations", "observation")
            if compressed:
                found = episode.frames[name].to_pylist()
                assert found == [demos.jpeg(frame) for frame in values]
            else:
                assert_pictures(episode.frames, name, values)


def test_jpeg_of_lengths_of_their_own(tmp_path: Path) -> None:
    whole = arrays(0)
    path = "observations/images/cam_high"
    encoded = [demos.jpeg(frame) for frame in whole[path]]

    def vlen(file: h5py.File) -> None:
        del file[path]
        rows = file.create_dataset(path, (len(encoded),), h5py.vlen_dtype(np.uint8))
        for number, data in enumerate(encoded):
            rows[number] = np.frombuffer(data, np.uint8)

    def strings(file: h5py.File) -> None:
        del file[path]
        file[path] = np.array(encoded, "S")

    data = {
        f"episode_{number}.hdf5": demos.edited(demos.aloha(whole), edit)
        for number, edit in enumerate((vlen, strings))
    }
    for episode in good(opened("aloha", tmp_path, data)):
        assert episode.frames["observation.images.cam_high"].to_pylist() == encoded


def test_one_file_has_the_ids_that_it_has_in_its_folder(tmp_path: Path) -> None:
    lay_down(files(compressed=False), locate(tmp_path))
    folder = connector("aloha").open(locate(tmp_path / "aloha_cube"), {"task": "pick"})
    one = connector("aloha").open(locate(tmp_path / "aloha_cube" / "episode_2.hdf5"), {})
    assert [ref.episode_id for ref in one.episodes()] == ["aloha_cube/episode_2"]
    assert {ref.episode_id for ref in one.episodes()} < {
        ref.episode_id for ref in folder.episodes()
    }
    assert good(folder)[0].tasks == {0: "pick"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("language_raw", np.array(["fold the shirt é"], h5py.string_dtype())),
        ("language_raw", np.array([b"fold the shirt \xc3\xa9"])),
        ("instruction", "fold the shirt é"),
    ],
)
def test_the_task_is_in_the_file(tmp_path: Path, name: str, value: Any) -> None:
    lay_down(files(compressed=True), locate(tmp_path))
    folder = tmp_path / "aloha_cube"
    with h5py.File(folder / "episode_2.hdf5", "a") as file:
        file[name] = value
    corpus = connector("aloha").open(locate(folder), {})
    assert list(corpus.findings()) == []
    tasks = {data.ref.episode_id: data.tasks[0] for data in good(corpus)}
    assert tasks.pop("aloha_cube/episode_2") == "fold the shirt é"
    assert set(tasks.values()) == {"aloha_cube"}


def test_broken_episodes_are_refused_alone(tmp_path: Path) -> None:
    good_file = demos.aloha(arrays(0), compressed=True)

    def cut_jpeg(file: h5py.File) -> None:
        file["observations/images/cam_low"][1, 60:] = 0

    def black_out(file: h5py.File) -> None:
        file["observations/images/cam_low"][2] = 0

    def shorten(file: h5py.File) -> None:
        del file["observations/qvel"]
        file["observations/qvel"] = np.zeros((2, 14))

    def no_action(file: h5py.File) -> None:
        del file["action"]

    data = {
        "episode_0.hdf5": good_file,
        "episode_1.hdf5": demos.edited(good_file, cut_jpeg),
        "episode_2.hdf5": demos.edited(good_file, black_out),
        "episode_3.hdf5": demos.edited(good_file, shorten),
        "episode_4.hdf5": demos.edited(good_file, no_action),
        "episode_5.hdf5": good_file[: len(good_file) // 2],
        "episode_6.hdf5": b"",
        "episode_7.hdf5": demos.robomimic(),
        "episode_8.hdf5": demos.aloha({k: v for k, v in arrays(0).items() if "effort" not in k}),
    }
    corpus = opened("aloha", tmp_path, data)
    found = bad(corpus)
    assert {name: reason for name, (reason, _) in found.items()} == {
        "episode_1": "corrupt",
        "episode_2": "corrupt",
        "episode_3": "length_mismatch",
        "episode_4": "unsupported",
        "episode_5": "truncated",
        "episode_6": "empty",
        "episode_7": "unsupported",
        "episode_8": "shape_changed",
    }
    assert "picture 1 is no whole JPEG" in found["episode_1"][1]
    assert "picture 2 has no bytes" in found["episode_2"][1]
    again = opened("aloha", tmp_path, {}, skip="observations/effort")
    assert "episode_8" not in bad(again)
