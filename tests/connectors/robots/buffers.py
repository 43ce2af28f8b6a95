"""Small replay buffers as UMI and Push-T have them, written with zarr and imagecodecs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from imagecodecs.numcodecs import Jpegxl, register_codecs
from numcodecs import Blosc
from zarr.storage import LocalStore, ZipStore

register_codecs(codecs=["imagecodecs_jpegxl"], verbose=False)

Values = dict[str, npt.NDArray[Any]]

ENDS = (4, 5, 11)


def umi(seed: int = 0, length: int = ENDS[-1]) -> Values:
    rng = np.random.default_rng([3, seed])
    return {
        "robot0_eef_pos": rng.normal(size=(length, 3)).astype("float32"),
        "robot0_eef_rot_axis_angle": rng.normal(size=(length, 3)).astype("float32"),
        "robot0_gripper_width": rng.random((length, 1)).astype("float32"),
        "robot0_demo_start_pose": rng.normal(size=(length, 6)),
        "robot0_demo_end_pose": rng.normal(size=(length, 6)),
        "camera0_rgb": rng.integers(0, 256, (length, 24, 32, 3), "uint8"),
    }


def pusht(seed: int = 0, length: int = ENDS[-1]) -> Values:
    rng = np.random.default_rng([4, seed])
    return {
        "img": rng.integers(0, 256, (length, 16, 16, 3)).astype("float32"),
        "state": rng.normal(size=(length, 5)).astype("float32"),
        "action": rng.uniform(0, 512, (length, 2)).astype("float32"),
        "keypoint": rng.uniform(0, 512, (length, 9, 2)).astype("float32"),
        "n_contacts": rng.integers(0, 3, (length, 1)).astype("float32"),
    }


def write(
    path: Path,
    arrays: Mapping[str, npt.NDArray[Any]],
    ends: Any = ENDS,
    *,
    zarr_format: int = 2,
    lossless: bool = True,
    empty_chunks: bool = True,
) -> None:
    """Write a replay buffer, cameras as JPEG XL, a chunk a frame.

    `empty_chunks`: also chunks of nothing but the fill value, as Zarr did before version 3.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    zipped = path.name.endswith(".zip")
    store = ZipStore(path, mode="w") if zipped else LocalStore(path)
    with zarr.config.set({"array.write_empty_chunks": empty_chunks}):
        root = zarr.open_group(store, mode="w", zarr_format=zarr_format)
        told = np.asarray(ends)
        root.create_array("meta/episode_ends", shape=told.shape, dtype=told.dtype)[:] = told
        for key, values in arrays.items():
            options: dict[str, Any] = {"chunks": (3, *values.shape[1:])}
            if zarr_format == 2:  # The default of those days.
                options["compressors"] = Blosc()
            if key.startswith("camera"):
                options["chunks"] = (1, *values.shape[1:])
                if zarr_format == 2:
                    options["compressors"] = Jpegxl(
                        lossless=lossless, distance=None if lossless else 1
                    )
            array = root.create_array(
                f"data/{key}", shape=values.shape, dtype=values.dtype, **options
            )
            array[:] = values
    store.close()


def files(tmp_path: Path, name: str, *args: Any, **kwargs: Any) -> dict[str, bytes]:
    """The files of a replay buffer of that name, by path."""
    root = tmp_path / "written"
    write(root / name, *args, **kwargs)
    found = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}
