"""What is read of robomimic's files, value by value, and what is said of broken ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

from datalake.connector import Evidence
from datalake.detection import connector, detect
from datalake.errors import ConfigError, InputError
from datalake.testing.connector_suite import lay_down
from datalake.uri import locate
from tests.connectors.robots import demos
from tests.connectors.robots.reading import assert_numbers, assert_pictures, bad, good, opened

NAMES = {"actions": "action", "states": "states", "rewards": "next.reward", "dones": "next.done"}
PICTURES = ("agentview_image", "depth_image")


def test_every_value_is_the_files(tmp_path: Path) -> None:
    corpus = opened("robomimic", tmp_path, {"lift.hdf5": demos.robomimic()})
    assert (corpus.embodiment, corpus.fps) == ("Panda", 20.0)
    episodes = good(corpus)
    assert [data.ref.episode_id.rpartition("/")[2] for data in episodes] == list(demos.LENGTHS)
    assert [data.ref.origin for data in episodes][1] == "lift.hdf5:/data/demo_2"
    for data, (name, arrays) in zip(episodes, demos.demos().items(), strict=True):
        frames = data.frames
        assert data.tasks == {0: "Lift"}
        assert data.metadata["env_args"]["env_name"] == "Lift"
        assert "model_file" not in data.metadata
        length = demos.LENGTHS[name]
        assert frames["timestamp"].to_pylist() == [i / 20 for i in range(length)]
        assert frames["frame_index"].to_pylist() == list(range(length))
        expected = {"timestamp", "frame_index", "task_index"}
        for path, values in arrays.items():
            head, _, key = path.partition("/")
            if head == "next_obs":
                continue
            if key in PICTURES:
                feature = f"observation.images.{key}"
                assert_pictures(frames, feature, values)
            else:
                feature = NAMES.get(path) or f"observation.{key}"
                assert_numbers(frames, feature, values)
            expected.add(feature)
        assert set(frames.column_names) == expected


def test_a_demonstrations_share_of_the_file_is_its_frames(tmp_path: Path) -> None:
    data = demos.robomimic()
    corpus = opened("robomimic", tmp_path, {"lift.hdf5": data})
    sizes = [ref.num_bytes for ref in corpus.episodes()]
    assert sizes == [len(data) * length // 12 for length in demos.LENGTHS.values()]


def test_what_is_left_out_can_be_kept(tmp_path: Path) -> None:
    file = {"lift.hdf5": demos.robomimic()}
    corpus = opened("robomimic", tmp_path, file, next_obs="keep", model_file="keep", skip="obs/*")
    (first, *_) = good(corpus)
    names = {feature.name for feature in corpus.features}
    assert not any(name.startswith("observation.") for name in names)
    arrays = demos.demos()["demo_0"]
    assert_numbers(first.frames, "next.observation.object", arrays["next_obs/object"])
    feature = "next.observation.images.agentview_image"
    assert_pictures(first.frames, feature, arrays["next_obs/agentview_image"])
    assert first.metadata["model_file"] == "<mujoco/>"


def test_a_filter_key_is_the_split(tmp_path: Path) -> None:
    mask = {
        "train": ["demo_0", "demo_10"],
        "valid": ["demo_2", "demo_77"],
        "20_percent": ["demo_0"],
    }
    corpus = opened("robomimic", tmp_path, {"lift.hdf5": demos.robomimic(mask=mask)})
    assert [data.split for data in good(corpus)] == ["train", "valid", "train"]
    assert good(corpus)[0].metadata["filter_keys"] == ["20_percent", "train"]
    said = {str(finding.reason): finding.detail for finding in corpus.findings()}
    assert "demo_77" in said["metadata_mismatch"]
    assert "1, 3, 4" in said["index_gap"]


def test_the_rate_must_be_known(tmp_path: Path) -> None:
    file = {"lift.hdf5": demos.robomimic(env_args={"env_name": "real"})}
    with pytest.raises(ConfigError, match="fps=20"):
        opened("robomimic", tmp_path, file)
    corpus = opened("robomimic", tmp_path, file, fps="12.5", embodiment="fr3", task="lift it")
    assert (corpus.fps, corpus.embodiment) == (12.5, "fr3")
    assert good(corpus)[0].tasks == {0: "lift it"}
    for wrong in ("0", "-1", "nan", "inf", "fast"):
        with pytest.raises(ConfigError, match="fps"):
            opened("robomimic", tmp_path, file, fps=wrong)


def test_several_files_are_chosen_and_never_mixed_unasked(tmp_path: Path) -> None:
    files = {"low_dim.hdf5": demos.robomimic(), "image.hdf5": demos.robomimic()}
    with pytest.raises(InputError, match=r"image.hdf5, low_dim.hdf5"):
        opened("robomimic", tmp_path, files)
    assert len(good(opened("robomimic", tmp_path, files, files="low*"))) == 3
    ids = [data.ref.episode_id for data in good(opened("robomimic", tmp_path, files, files="*"))]
    assert len(set(ids)) == 6
    assert ids[0].endswith("/image/demo_0")
    with pytest.raises(InputError, match="nope"):
        opened("robomimic", tmp_path, files, files="nope")


def test_names_that_every_dataset_has_get_their_folders(tmp_path: Path) -> None:
    lay_down({"lift/ph/low_dim_v141.hdf5": demos.robomimic()}, locate(tmp_path))
    path = locate(tmp_path / "lift" / "ph" / "low_dim_v141.hdf5")
    corpus = connector("robomimic").open(path, {})
    assert corpus.source == "lift_ph_low_dim_v141"
    assert connector("robomimic").open(path, {"source": "lift"}).source == "lift"
    with pytest.raises(ConfigError, match="source"):
        connector("robomimic").open(path, {"source": "a/b"})


def test_nested_arrays_and_others_as_isaac_lab_writes_them(tmp_path: Path) -> None:
    def edit(file: h5py.File) -> None:
        for name, length in demos.LENGTHS.items():
            group = file["data"][name]
            group["states_of/arm/joint"] = np.arange(length * 6, dtype="float32").reshape(length, 6)
            group["initial_state/arm"] = np.zeros((1, 6))
            group["note"] = [f"step {i} ✓" for i in range(length)]
            group["index"] = np.arange(length)
            group["flag"] = np.arange(length) % 2 == 0
            group["big_endian"] = np.arange(length, dtype=">i4")
            group.attrs["success"] = name != "demo_2"
            group.attrs["ep_meta"] = '{"lang": "lift the cube"}'

    corpus = opened("robomimic", tmp_path, {"a.hdf5": demos.edited(demos.robomimic(), edit)})
    first, second, _ = good(corpus)
    assert_numbers(
        first.frames, "states_of.arm.joint", np.arange(30, dtype="float32").reshape(5, 6)
    )
    assert first.frames["note"].to_pylist() == [f"step {i} ✓" for i in range(5)]
    assert first.frames["source.index"].to_pylist() == list(range(5))
    assert first.frames["flag"].type == pa.bool_()
    assert_numbers(first.frames, "big_endian", np.arange(5, dtype="int32"))
    assert (first.success, second.success) == (True, False)
    assert first.tasks == {0: "lift the cube"}
    assert any("initial_state/arm is left out" in finding.detail for finding in corpus.findings())


# Faults -----------------------------------------------------------------------------------------


def _drop(path: str) -> Callable[[h5py.Group], None]:
    def edit(group: h5py.Group) -> None:
        del group[path]

    return edit


def _put(path: str, values: Any) -> Callable[[h5py.Group], None]:
    def edit(group: h5py.Group) -> None:
        if path in group:
            del group[path]
        group[path] = values

    return edit


def _loop(group: h5py.Group) -> None:
    group["obs/again"] = h5py.SoftLink(group.name)


@pytest.mark.parametrize(
    ("edit", "reason", "words"),
    [
        (_drop("actions"), "shape_changed", "no array actions"),
        (_drop("obs/object"), "shape_changed", "observation.object"),
        (_put("actions", np.zeros((0, 7))), "empty", "no rows"),
        (_put("rewards", np.zeros(9)), "length_mismatch", "9 rows where actions has 3"),
        (_put("obs/object", np.zeros((2, 2, 2))), "length_mismatch", "obs/object"),
        (_put("obs/object", np.float32(1)), "length_mismatch", "no rows"),
        (_put("obs/robot0_eef_pos", np.zeros((3, 3), "f4")), "shape_changed", "float32"),
        (_put("obs/robot0_eef_pos", np.zeros((3, 4))), "shape_changed", r"\(4,\)"),
        (_put("obs/robot0_eef_pos", np.zeros((3, 3), "c16")), "shape_changed", "eef_pos"),
        (_put("obs/agentview_image", np.zeros((3, 12, 20, 3), "u1")), "shape_changed", "20"),
        (_put("obs/extra", np.zeros((3, 2))), "shape_changed", "first episode lacks"),
        (_put("obs/gone", h5py.SoftLink("/nowhere")), "not_found", "/nowhere"),
        (_put("obs/ext", h5py.ExternalLink("no.hdf5", "/x")), "not_found", "ext"),
        (_loop, "unsupported", "link leads back"),
    ],
)
def test_a_broken_demonstration_is_refused_alone(
    tmp_path: Path, edit: Callable[[h5py.Group], None], reason: str, words: str
) -> None:
    data = demos.edited(demos.robomimic(), lambda file: edit(file["data/demo_2"]))
    corpus = opened("robomimic", tmp_path, {"lift.hdf5": data})
    ((name, (found, detail)),) = bad(corpus).items()
    assert (name, found) == ("demo_2", reason)
    assert re.search(words, detail), detail


def test_a_demonstration_that_is_a_link_into_nowhere(tmp_path: Path) -> None:
    def edit(file: h5py.File) -> None:
        file["data/demo_5"] = h5py.SoftLink("/data/nowhere")

    data = demos.edited(demos.robomimic(), edit)
    assert set(bad(opened("robomimic", tmp_path, {"lift.hdf5": data}))) == {"demo_5"}


def test_a_chunk_that_cannot_be_unpacked(tmp_path: Path) -> None:
    def edit(file: h5py.File) -> None:
        for name in demos.LENGTHS:
            group = file["data"][name]
            values = group["obs/object"][()]
            del group["obs/object"]
            made = group.create_dataset("obs/object", data=values, compression="gzip")
            if name == "demo_2":
                made.id.write_direct_chunk((0, 0, 0), b"no deflate stream")

    data = demos.edited(demos.robomimic(), edit)
    ((name, (reason, detail)),) = bad(opened("robomimic", tmp_path, {"lift.hdf5": data})).items()
    assert (name, reason) == ("demo_2", "corrupt")
    assert "/data/demo_2/obs/object cannot be read" in detail


def test_detection_looks_into_the_files(tmp_path: Path) -> None:
    kinds = {
        "robomimic": {"a.hdf5": demos.robomimic()},
        "libero": {"a_demo.hdf5": demos.libero(), "b_demo.hdf5": demos.libero(1)},
        "aloha": {"episode_0.hdf5": demos.aloha(demos.aloha_arrays(0))},
    }
    for name, files in kinds.items():
        lay_down(files, locate(tmp_path / name))
        found = detect(tmp_path / name)
        assert [evidence.connector for evidence in found] == [name]
        assert found[0].confidence == 0.9
        assert [e.connector for e in detect(tmp_path / name / next(iter(files)))] == [name]
    mixed = {
        f"{name}_{path}": data for name, files in kinds.items() for path, data in files.items()
    }
    lay_down({**mixed, "broken.hdf5": b"\x89HDF"}, locate(tmp_path / "mixed"))
    found = detect(tmp_path / "mixed")
    assert [evidence.connector for evidence in found] == ["libero", "aloha", "robomimic"]
    assert all(isinstance(evidence, Evidence) and evidence.confidence < 0.5 for evidence in found)
    lay_down(
        {"x.hdf5": demos.hdf5(lambda file: file.create_dataset("x", data=[1]))},
        locate(tmp_path / "other"),
    )
    assert detect(tmp_path / "other") == []
