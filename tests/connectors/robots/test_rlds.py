"""RLDS: equal to what TensorFlow Datasets reads of its own datasets, and what damage is called.

The datasets were written by TFDS, and the JSON beside them says how it reads them back:
`scripts/make_rlds_fixture.py`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import imagecodecs
import numpy as np
import pytest

from connectors.rlds.connector import CONNECTOR
from connectors.rlds.corpus import RLDSCorpus
from connectors.rlds.tfrecord import masked_crc32c
from datalake.errors import ConfigError, InputError
from datalake.quarantine import Reason
from datalake.recording import BadEpisode, EpisodeData, Severity
from datalake.testing.episode_connector_suite import EpisodeConnectorSuite, read_all
from datalake.uri import locate

DATA = Path(__file__).parent / "data" / "rlds"
TINY = DATA / "tiny_arm" / "1.0.0"
ODD = DATA / "odd_arm" / "0.2.0"


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in _below(folder)}


def _below(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


class TestTinyArm(EpisodeConnectorSuite):
    connector = CONNECTOR

    @pytest.fixture
    def dataset(self) -> Mapping[str, bytes]:
        return _files(TINY)


class TestOddArmFromAbove(EpisodeConnectorSuite):
    connector = CONNECTOR
    options: ClassVar = {"fps": "5", "embodiment": "odd", "invalid": "keep"}

    @pytest.fixture
    def dataset(self) -> Mapping[str, bytes]:
        return {f"odd_arm/0.2.0/{path}": data for path, data in _files(ODD).items()}


def _open(folder: Path, **options: str) -> RLDSCorpus:
    return CONNECTOR.open(locate(folder), options)


def _episodes(folder: Path, **options: str) -> list[EpisodeData]:
    read = read_all(_open(folder, **options))
    assert all(isinstance(data, EpisodeData) for data in read), read
    return [data for data in read if isinstance(data, EpisodeData)]


def _expected(name: str) -> list[Any]:
    splits = json.loads((DATA / f"{name}.json").read_text())
    return [episode for split in splits.values() for episode in split]


# Values -------------------------------------------------------------------------------------------

NAMES = {
    "observation/image": "observation.images.image",
    "observation/wrist_image": "observation.images.wrist_image",
    "observation/depth_png": "observation.images.depth_png",
    "observation/raw": "observation.images.raw",
    "reward": "next.reward",
}
TASKS = {"language_instruction", "observation/natural_language_instruction"}


@pytest.mark.parametrize("name", ["tiny_arm", "odd_arm"])
def test_every_value_is_the_one_that_tfds_reads(name: str) -> None:
    read = _episodes(DATA / name, invalid="keep")
    expected = _expected(name)
    assert len(read) == len(expected) == {"tiny_arm": 5, "odd_arm": 3}[name]
    for data, episode in zip(read, expected, strict=True):
        steps = [dict(_flat(step)) for step in episode["steps"]]
        rows = data.frames.to_pylist()
        assert len(rows) == len(steps)
        shapes = {feature.name: feature for feature in data.features}
        seen = {"timestamp", "task_index"}
        for row, step in zip(rows, steps, strict=True):
            for key, value in step.items():
                if key in TASKS:
                    assert data.tasks[row["task_index"]] == value
                    continue
                feature = NAMES.get(key, key.replace("/", "."))
                seen.add(feature)
                _check(row[feature], value, shapes[feature].dtype, shapes[feature].shape)
        assert seen == set(data.frames.column_names)
        said = {key: value for key, value in episode.items() if key != "steps"}
        assert data.metadata == said


def _flat(value: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, each in value.items():
        if isinstance(each, dict) and "shape" not in each:
            yield from _flat(each, f"{above}{key}/")
        else:
            yield above + key, each


def _check(found: Any, expected: Any, dtype: str, shape: tuple[int, ...]) -> None:
    if isinstance(expected, dict) and "sha256" in expected:
        if dtype == "image":
            pixels = _pixels(found).reshape(expected["shape"])
        else:
            pixels = np.array(found, dtype).reshape(shape)
        assert list(pixels.shape) == expected["shape"]
        # Decoders of JPEG differ by a rounding; PNG and arrays are exact.
        if not (dtype == "image" and found[:2] == b"\xff\xd8"):
            assert hashlib.sha256(pixels.tobytes()).hexdigest() == expected["sha256"]
    elif dtype == "string":
        if isinstance(expected, dict):
            array = np.array(json.loads(found), expected["dtype"]).reshape(expected["shape"])
            assert array.tobytes().hex() == expected["hex"]
        else:
            assert json.loads(found) == expected
    elif isinstance(expected, dict):
        assert dtype == expected["dtype"]
        assert np.array(found, dtype).tobytes().hex() == expected["hex"]
    else:
        assert np.array(found).ravel().tolist() == np.array(expected).ravel().tolist()


def _pixels(encoded: bytes) -> np.ndarray:
    is_jpeg = encoded[:2] == b"\xff\xd8"
    return (imagecodecs.jpeg8_decode if is_jpeg else imagecodecs.png_decode)(encoded)


def test_pictures_are_kept_byte_by_byte() -> None:
    shards = b"".join(path.read_bytes() for path in sorted(TINY.glob("*.tfrecord*")))
    for data in _episodes(TINY):
        for camera in ("image", "wrist_image"):
            for picture in data.frames[f"observation.images.{camera}"].to_pylist():
                assert picture in shards
    features = {feature.name: feature for feature in _open(TINY).features}
    assert features["observation.images.wrist_image"].shape == (12, 16, 3)


def test_tasks_change_within_an_episode() -> None:
    data = _episodes(TINY)[0]
    longest = max(_episodes(TINY), key=lambda data: data.frames.num_rows)
    assert data.tasks[0] == "Wäsche falten"
    assert longest.tasks == {0: "Wäsche falten", 1: "put it away"}
    assert longest.frames["task_index"].to_pylist() == [0, 0, 1, 1]


def test_success_split_and_times_are_told() -> None:
    episodes = _episodes(TINY, fps="20")
    assert [data.split for data in episodes] == ["train"] * 3 + ["val"] * 2
    for data in episodes:
        assert data.success is (data.metadata["episode_metadata"]["episode_id"] % 2 == 0)
        times = data.frames["timestamp"].to_numpy()
        assert np.array_equal(times, np.arange(len(times)) / 20)


# Options ------------------------------------------------------------------------------------------


def test_the_frame_rate_is_assumed_unless_given() -> None:
    (found,) = _open(TINY).findings()
    assert (found.reason, found.severity) == (Reason.ASSUMED, Severity.WARNING)
    assert _open(TINY).fps == 10
    assert not list(_open(TINY, fps="7.5").findings())
    assert _open(TINY, fps="7.5").fps == 7.5


def test_one_split_keeps_its_numbers() -> None:
    refs = list(_open(TINY, split="val").episodes())
    assert [ref.episode_id for ref in refs] == ["tiny_arm/000003", "tiny_arm/000004"]
    with pytest.raises(ConfigError, match="train"):
        _open(TINY, split="trian")


def test_the_last_step_is_left_out_when_asked() -> None:
    for whole, cut in zip(_episodes(TINY), _episodes(TINY, drop_last="yes"), strict=True):
        assert cut.frames.num_rows == whole.frames.num_rows - 1
        assert not any(cut.frames["is_last"].to_pylist())
        assert cut.frames["action"].equals(whole.frames["action"].slice(0, cut.frames.num_rows))


def test_the_task_may_be_another_text_or_given() -> None:
    data = _episodes(ODD, invalid="keep", task="tidy up")[0]
    assert data.tasks == {0: "tidy up"}
    assert data.frames["observation.natural_language_instruction"][0].as_py() == "pick"
    asked = "observation.natural_language_instruction"
    assert _episodes(ODD, invalid="keep", task_feature=asked)[0].tasks == {0: "pick"}
    with pytest.raises(ConfigError, match="task_feature"):
        _open(ODD, task_feature="action.mode")


def test_invalid_episodes_are_refused_unless_asked_for() -> None:
    read = read_all(_open(ODD))
    bad = [data for data in read if isinstance(data, BadEpisode)]
    assert [data.reason for data in bad] == [Reason.MARKED_INVALID]
    assert len(read) == 3


# Damage -------------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(TINY, tmp_path / "1.0.0")
    return tmp_path / "1.0.0"


def _shard(folder: Path, number: int) -> Path:
    return folder / f"tiny_arm-train.tfrecord-{number:05d}-of-00002"


def test_a_wrong_checksum_costs_one_episode(copy: Path) -> None:
    data = bytearray(_shard(copy, 0).read_bytes())
    data[500] ^= 1
    _shard(copy, 0).write_bytes(data)
    read = read_all(_open(copy))
    assert isinstance(read[0], BadEpisode)
    assert read[0].reason is Reason.CORRUPT
    assert "tiny_arm-train.tfrecord-00000-of-00002:0" in read[0].detail
    assert all(isinstance(each, EpisodeData) for each in read[1:])


def test_a_truncated_shard_refuses_what_is_lost_and_moves_no_number(copy: Path) -> None:
    whole = {ref.episode_id: ref for ref in _open(copy).episodes()}
    data = _shard(copy, 0).read_bytes()
    _shard(copy, 0).write_bytes(data[:-100])
    corpus = _open(copy)
    refs = list(corpus.episodes())
    assert [ref.episode_id for ref in refs] == list(whole)
    assert [ref.refusal and ref.refusal[0] for ref in refs[:3]] == [None, Reason.TRUNCATED, None]
    (error,) = [found for found in corpus.findings() if found.severity is Severity.ERROR]
    assert error.origin == _shard(copy, 0).name
    assert "1 of 2 episodes" in error.detail
    assert len(read_all(corpus)) == 4


def test_a_missing_shard_refuses_its_episodes(copy: Path) -> None:
    _shard(copy, 0).unlink()
    refs = list(_open(copy).episodes())
    assert [ref.refusal is None for ref in refs] == [False, False, True, True, True]
    assert refs[0].refusal is not None
    assert refs[0].refusal[0] is Reason.NOT_FOUND


def test_a_damaged_length_loses_what_follows(copy: Path) -> None:
    data = bytearray(_shard(copy, 0).read_bytes())
    data[0] ^= 1
    _shard(copy, 0).write_bytes(data)
    refusals = [ref.refusal for ref in _open(copy).episodes()]
    assert [refusal and refusal[0] for refusal in refusals[:3]] == [
        Reason.CORRUPT,
        Reason.CORRUPT,
        None,
    ]


def test_a_record_that_is_no_example_is_bad(copy: Path) -> None:
    _shard(copy, 1).write_bytes(_framed(b"\x0a\x04nope"))
    (copy / "dataset_info.json").unlink()
    read = read_all(_open(copy))
    bad = [data for data in read if isinstance(data, BadEpisode)]
    assert [data.reason for data in bad] == [Reason.CORRUPT]
    assert "no tf.train.Example" in bad[0].detail


def test_an_episode_without_what_features_promise_is_bad(copy: Path) -> None:
    _shard(copy, 1).write_bytes(_framed(b""))
    read = read_all(_open(copy))
    (bad,) = [data for data in read if isinstance(data, BadEpisode)]
    assert bad.reason is Reason.SHAPE_CHANGED
    assert "steps/is_first is not there" in bad.detail


def test_a_pointer_in_the_place_of_a_shard_is_named(copy: Path) -> None:
    _shard(copy, 0).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    refs = list(_open(copy).episodes())
    assert refs[0].refusal is not None
    assert refs[0].refusal[0] is Reason.LFS_POINTER


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"a": {}}'])
def test_without_features_json_there_is_a_finding_and_no_episode(
    copy: Path, content: bytes | None
) -> None:
    if content is None:
        (copy / "features.json").unlink()
    else:
        (copy / "features.json").write_bytes(content)
    corpus = _open(copy)
    assert list(corpus.episodes()) == []
    errors = [found for found in corpus.findings() if found.severity is Severity.ERROR]
    assert [found.reason for found in errors] == [Reason.EMPTY_METADATA]
    evidence = CONNECTOR.detect(locate(copy))
    assert evidence is not None
    assert evidence.confidence < 0.95


def test_without_dataset_info_all_that_lies_there_is_read(copy: Path) -> None:
    (copy / "dataset_info.json").unlink()
    corpus = _open(copy)
    assert {ref.hint[1] for ref in corpus.episodes()} == {"train", "val"}
    assert len(read_all(corpus)) == 5
    assert Reason.EMPTY_METADATA in {found.reason for found in corpus.findings()}


def test_of_several_versions_the_newest_and_of_several_datasets_none(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0"):
        shutil.copytree(ODD, tmp_path / "odd_arm" / version)
    assert _open(tmp_path).root.name == "0.10.0"
    shutil.copytree(TINY, tmp_path / "tiny_arm" / "1.0.0")
    with pytest.raises(InputError, match="several datasets"):
        _open(tmp_path)


def test_the_older_spelling_of_features_json_is_read(copy: Path) -> None:
    expected = [data.frames for data in _episodes(TINY)]
    found = json.loads((copy / "features.json").read_text())
    (copy / "features.json").write_text(json.dumps(_older(found)))
    assert [data.frames for data in _episodes(copy)] == expected


def _older(node: dict[str, Any]) -> dict[str, Any]:
    """A feature as TFDS before 4.6 wrote it."""
    content: Any = {}
    if "featuresDict" in node:
        features = node["featuresDict"]["features"]
        content = {name: _older(feature) for name, feature in features.items()}
    elif "sequence" in node:
        content = {"feature": _older(node["sequence"]["feature"]), "length": None}
    elif "tensor" in node or "image" in node:
        said = node.get("tensor") or node["image"]
        shape = [int(size) for size in said["shape"].get("dimensions", [])]
        content = {
            "shape": [None if size < 0 else size for size in shape],
            "dtype": said["dtype"],
            "encoding": said.get("encoding", "none"),
        }
    return {"type": node["pythonClassName"], "content": content}


def _framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join(
        [
            length,
            struct.pack("<I", masked_crc32c(length)),
            data,
            struct.pack("<I", masked_crc32c(data)),
        ]
    )
