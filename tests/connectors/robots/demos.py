"""Small datasets in the layouts of robomimic, LIBERO and ALOHA, written with h5py."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from PIL import Image

Values = dict[str, npt.NDArray[Any]]

LENGTHS = {"demo_0": 5, "demo_2": 3, "demo_10": 4}
INSTRUCTION = "turn on the stove"


def hdf5(write: Callable[[h5py.File], None]) -> bytes:
    """The bytes of the HDF5 file that `write` fills."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        write(file)
    return buffer.getvalue()


def edited(data: bytes, edit: Callable[[h5py.File], None]) -> bytes:
    """The bytes of the file after `edit`."""
    buffer = io.BytesIO(data)
    with h5py.File(buffer, "r+") as file:
        edit(file)
    return buffer.getvalue()


def pixels(rng: np.random.Generator, *shape: int, dtype: str = "uint8") -> npt.NDArray[Any]:
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def demo(seed: int, length: int, *, states: int = 4) -> Values:
    """The arrays of one robomimic demonstration, by path."""
    rng = np.random.default_rng(seed)
    obs: Values = {
        "robot0_eef_pos": rng.normal(size=(length, 3)),
        "robot0_gripper_qpos": rng.normal(size=(length, 2)).astype("float32"),
        "object": rng.normal(size=(length, 2, 2)).astype("float16"),
        "agentview_image": pixels(rng, length, 12, 16, 3),
        "depth_image": pixels(rng, length, 12, 16, 1, dtype="uint16"),
        "metric_depth": rng.random((length, 12, 16, 1)).astype("float32"),
    }
    obs["robot0_eef_pos"][0, 0] = np.nan
    return {
        "actions": rng.uniform(-1, 1, (length, 7)),
        "states": rng.normal(size=(length, states)),
        "rewards": np.arange(length, dtype="float64") == length - 1,
        "dones": (np.arange(length) == length - 1).astype("int64"),
        **{f"obs/{key}": value for key, value in obs.items()},
        **{f"next_obs/{key}": np.roll(value, -1, 0) for key, value in obs.items()},
    }


def demos() -> dict[str, Values]:
    return {name: demo(seed, length) for seed, (name, length) in enumerate(LENGTHS.items())}


def robomimic(
    groups: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    env_args: Mapping[str, Any] | None = None,
    mask: Mapping[str, Sequence[str]] | None = None,
) -> bytes:
    """A robomimic file."""
    if env_args is None:
        robot = {"robots": ["Panda"], "control_freq": 20}
        env_args = {"env_name": "Lift", "type": 1, "env_kwargs": robot}
    groups = demos() if groups is None else groups

    def write(file: h5py.File) -> None:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps(env_args)
        data.attrs["total"] = sum(len(arrays["actions"]) for arrays in groups.values())
        for name, arrays in groups.items():
            group = data.create_group(name)
            group.attrs["num_samples"] = len(arrays["actions"])
            group.attrs["model_file"] = "<mujoco/>"
            for path, values in arrays.items():
                group.create_dataset(path, data=values)
        for key, names in (mask or {}).items():
            file.create_dataset(f"mask/{key}", data=np.array([name.encode() for name in names]))

    return hdf5(write)


def libero_demo(seed: int, length: int, *, states: int) -> Values:
    rng = np.random.default_rng([7, seed])
    done = (np.arange(length) == length - 1).astype("uint8")
    ee_states = rng.normal(size=(length, 6))
    return {
        "actions": rng.uniform(-1, 1, (length, 7)),
        "states": rng.normal(size=(length, states)),
        "robot_states": rng.normal(size=(length, 9)),
        "rewards": done,
        "dones": done,
        "obs/agentview_rgb": pixels(rng, length, 16, 16, 3),
        "obs/eye_in_hand_rgb": pixels(rng, length, 16, 16, 3),
        "obs/ee_states": ee_states,
        "obs/ee_pos": ee_states[:, :3],
        "obs/ee_ori": ee_states[:, 3:],
        "obs/gripper_states": rng.normal(size=(length, 2)),
        "obs/joint_states": rng.normal(size=(length, 7)),
    }


def libero(seed: int = 0, *, states: int = 79, instruction: str = INSTRUCTION) -> bytes:
    """A LIBERO file of one task with two demonstrations."""

    def write(file: h5py.File) -> None:
        data = file.create_group("data")
        robot = {"robots": ["Panda"], "control_freq": 20}
        data.attrs["env_args"] = json.dumps({"env_name": "Libero_Kitchen", "env_kwargs": robot})
        data.attrs["env_name"] = "Libero_Kitchen"
        data.attrs["problem_info"] = json.dumps({"language_instruction": instruction})
        data.attrs["bddl_file_name"] = "bddl_files/x.bddl"
        data.attrs["macros_image_convention"] = "opengl"
        data.attrs["num_demos"] = 2
        data.attrs["total"] = 5
        for number, length in enumerate((3, 2)):
            group = data.create_group(f"demo_{number}")
            arrays = libero_demo(10 * seed + number, length, states=states)
            group.attrs["num_samples"] = str(length)
            group.attrs["init_state"] = arrays["states"][0]
            group.attrs["model_file"] = "<mujoco/>"
            for path, values in arrays.items():
                group.create_dataset(path, data=values)

    return hdf5(write)


CAMERAS = ("cam_high", "cam_low", "cam_left_wrist")  # In the recorder's order, not the alphabet's.


def aloha_arrays(seed: int, length: int = 4) -> Values:
    rng = np.random.default_rng([9, seed])
    return {
        "action": rng.normal(size=(length, 14)),
        "observations/qpos": rng.normal(size=(length, 14)),
        "observations/qvel": rng.normal(size=(length, 14)),
        **{f"observations/images/{name}": pixels(rng, length, 24, 32, 3) for name in CAMERAS},
    }


def jpeg(frame: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "JPEG", quality=50)
    return buffer.getvalue()


def aloha(arrays: Mapping[str, Any], *, sim: bool = True, compressed: bool = False) -> bytes:
    """An ALOHA file of one episode."""

    def write(file: h5py.File) -> None:
        file.attrs["sim"] = sim
        written = dict(arrays)
        if compressed:
            file.attrs["compress"] = True
            encoded = {
                name: [jpeg(frame) for frame in written[f"observations/images/{name}"]]
                for name in CAMERAS
            }
            width = max(len(data) for frames in encoded.values() for data in frames)
            for name, frames in encoded.items():
                padded = [np.frombuffer(data.ljust(width, b"\0"), np.uint8) for data in frames]
                written[f"observations/images/{name}"] = np.stack(padded)
            lengths = [[len(data) for data in encoded[name]] for name in CAMERAS]
            file.create_dataset("compress_len", data=np.array(lengths, "float32"))
        for path, values in written.items():
            file.create_dataset(path, data=values)

    return hdf5(write)
