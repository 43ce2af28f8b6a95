"""Writes the RLDS datasets that the tests read, with TensorFlow Datasets itself.

    python scripts/make_rlds_fixture.py tests/connectors/robots/data/rlds

Needs an environment with tensorflow and tensorflow-datasets (4.9); the project does not. Beside
each dataset it writes `<name>.json`: the episodes as TFDS reads them back, integers as lists,
floats as their bytes in hexadecimal, pictures and depth as the SHA-256 of their decoded pixels.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

F = tfds.features


class TinyArm(tfds.core.GeneratorBasedBuilder):
    """A usual arm: two cameras, state, a vector of actions, language a step, two splits."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        step = {
            "observation": {
                "image": F.Image(shape=(12, 16, 3), encoding_format="jpeg"),
                "wrist_image": F.Image(encoding_format="png"),
                "state": F.Tensor(shape=(4,), dtype=np.float32),
                "gripper": {"width": F.Scalar(np.float64), "closed": F.Scalar(np.bool_)},
            },
            "action": F.Tensor(shape=(3,), dtype=np.float32),
            "reward": F.Scalar(np.float32),
            "discount": F.Scalar(np.float32),
            "is_first": np.bool_,
            "is_last": np.bool_,
            "is_terminal": np.bool_,
            "language_instruction": F.Text(),
            "language_embedding": F.Tensor(shape=(5,), dtype=np.float32),
        }
        metadata = {"file_path": F.Text(), "episode_id": np.int32, "success": np.bool_}
        return _info(self, {"steps": F.Dataset(step), "episode_metadata": metadata})

    def _split_generators(self, _manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples(0, 3), "val": self._generate_examples(3, 5)}

    def _generate_examples(self, start: int, stop: int) -> Iterator[tuple[str, Any]]:
        for number in range(start, stop):
            random = np.random.default_rng(number)
            length = 2 + number % 3
            steps = []
            for step in range(length):
                last = step == length - 1
                steps.append(
                    {
                        "observation": {
                            "image": _picture(random),
                            "wrist_image": _picture(random),
                            "state": random.standard_normal(4, np.float32),
                            "gripper": {"width": float(step) / 7, "closed": step % 2 == 1},
                        },
                        "action": random.standard_normal(3, np.float32),
                        "reward": float(last),
                        "discount": 0.9,
                        "is_first": step == 0,
                        "is_last": last,
                        "is_terminal": last and number % 2 == 0,
                        "language_instruction": "Wäsche falten" if step < 2 else "put it away",
                        "language_embedding": random.standard_normal(5, np.float32),
                    }
                )
            metadata = {
                "file_path": f"/data/episode_{number}.npy",
                "episode_id": number,
                "success": number % 2 == 0,
            }
            yield f"{number}", {"steps": steps, "episode_metadata": metadata}


class OddArm(tfds.core.GeneratorBasedBuilder):
    """What else is met: dictionaries of actions, encoded tensors, ragged sequences, odd types."""

    VERSION = tfds.core.Version("0.2.0")

    def _info(self) -> tfds.core.DatasetInfo:
        step = {
            "observation": {
                "natural_language_instruction": F.Text(),
                "depth": F.Tensor(shape=(3, 4, 1), dtype=np.float32, encoding="zlib"),
                "depth_png": F.Image(shape=(3, 4, 1), dtype=np.uint16, encoding_format="png"),
                "raw": F.Tensor(shape=(8, 9, 3), dtype=np.uint8, encoding="bytes"),
                "free": F.Tensor(shape=(None, None), dtype=np.int16, encoding="zlib"),
                "boxes": F.Sequence(F.Tensor(shape=(4,), dtype=np.float32)),
                "names": F.Sequence(F.Text()),
                "counter": np.uint64,
                "small": F.Tensor(shape=(2, 2), dtype=np.int8),
            },
            "action": {
                "world_vector": F.Tensor(shape=(3,), dtype=np.float32),
                "gripper": F.Scalar(np.float64),
                "precise": F.Tensor(shape=(2,), dtype=np.float64, encoding="bytes"),
                "terminate_episode": F.Tensor(shape=(3,), dtype=np.int32),
                "mode": F.ClassLabel(names=["move", "grip"]),
            },
            "reward": F.Scalar(np.float32),
            "is_first": np.bool_,
            "is_last": np.bool_,
            "is_terminal": np.bool_,
        }
        top = {"steps": F.Dataset(step), "invalid": np.bool_, "tags": F.Sequence(F.Text())}
        return _info(self, top)

    def _split_generators(self, _manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[str, Any]]:
        for number in range(3):
            random = np.random.default_rng(100 + number)
            steps = []
            for step in range(4):
                side = 2 + number % 2
                steps.append(
                    {
                        "observation": {
                            "natural_language_instruction": "pick",
                            "depth": random.random((3, 4, 1), np.float32),
                            "depth_png": random.integers(0, 65536, (3, 4, 1), np.uint16),
                            "raw": random.integers(0, 256, (8, 9, 3), np.uint8),
                            "free": random.integers(-9, 9, (side, 3)).astype(np.int16),
                            "boxes": random.random((step % 3, 4), np.float32),
                            "names": ["a", "é"][: step % 3],
                            "counter": 2**63 + step,
                            "small": random.integers(-128, 128, (2, 2)).astype(np.int8),
                        },
                        "action": {
                            "world_vector": random.standard_normal(3, np.float32),
                            "gripper": random.random(),
                            "precise": random.random(2),
                            "terminate_episode": np.array([0, 1, -1], np.int32),
                            "mode": step % 2,
                        },
                        "reward": 0.0,
                        "is_first": step == 0,
                        "is_last": step == 3,
                        "is_terminal": False,
                    }
                )
            yield f"{number}", {"steps": steps, "invalid": number == 2, "tags": ["x", "y"][:number]}


def _info(builder: tfds.core.GeneratorBasedBuilder, features: Any) -> tfds.core.DatasetInfo:
    return tfds.core.DatasetInfo(builder=builder, features=F.FeaturesDict(features))


def _picture(random: np.random.Generator) -> np.ndarray:
    return np.kron(random.integers(0, 256, (3, 4, 3)), np.ones((4, 4, 1))).astype(np.uint8)


def _plain(value: Any) -> Any:
    """The value as JSON: floats in hexadecimal, arrays of three dimensions by their hash."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tf.RaggedTensor):
        return value.to_list()
    if isinstance(value, tf.data.Dataset):
        return [_plain(step) for step in value]
    array = value.numpy() if isinstance(value, tf.Tensor) else value
    if isinstance(array, bytes):
        return array.decode()
    array = np.asarray(array)
    if array.ndim == 3:
        return {"shape": array.shape, "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
    if array.dtype == object:
        return [each.decode() for each in array]
    if array.dtype.kind == "f":
        return {"dtype": array.dtype.name, "shape": array.shape, "hex": array.tobytes().hex()}
    return array.tolist()


def main() -> None:
    """Write both datasets below the folder that the command line names."""
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for kind, shards in ((TinyArm, 2), (OddArm, 1)):
        with tempfile.TemporaryDirectory() as scratch:
            builder = kind(data_dir=scratch)
            config = tfds.download.DownloadConfig(num_shards=shards)
            builder.download_and_prepare(download_config=config)
            expected = {
                split: [_plain(episode) for episode in builder.as_dataset(split=split)]
                for split in builder.info.splits
            }
            shutil.copytree(Path(scratch, builder.name), target / builder.name)
        text = json.dumps(expected, ensure_ascii=False, separators=(",", ":"))
        (target / f"{builder.name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
