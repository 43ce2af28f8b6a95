"""Which layout an HDF5 file of robot data has: from outside they look alike."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from connectors.hdf5.files import Hdf5Files, find_hdf5, h5py_module, open_hdf5, reading
from connectors.refused import RefusedError
from datalake.connector import Evidence
from datalake.errors import MissingPackageError
from datalake.uri import Location

if TYPE_CHECKING:
    import h5py

__all__ = ["ALOHA", "LIBERO", "ROBOMIMIC", "evidence", "layout_of"]

ROBOMIMIC: Final = "robomimic"
LIBERO: Final = "libero"
ALOHA: Final = "aloha"

_LIBERO_ATTRIBUTES: Final = frozenset({"bddl_file_name", "problem_info", "macros_image_convention"})
_MOST_LOOKED_AT: Final = 8
_SEEN: Final = {
    ROBOMIMIC: "demonstrations below /data",
    LIBERO: "demonstrations below /data and the attributes of LIBERO's tasks",
    ALOHA: "/action and /observations",
}


def layout_of(file: h5py.File) -> str | None:
    """`robomimic`, `libero` or `aloha`; None for a file of another layout.

    Raises:
        RefusedError: the file is damaged where one has to look.
    """
    h5py = h5py_module()
    with reading(file.filename if isinstance(file.filename, str) else "the file"):
        data = file.get("data")
        if isinstance(data, h5py.Group):
            if _LIBERO_ATTRIBUTES & set(data.attrs):
                return LIBERO
            is_demo = any(name.startswith("demo") for name in data)
            return ROBOMIMIC if is_demo or {"env_args", "total"} & set(data.attrs) else None
        if isinstance(file.get("observations"), h5py.Group) and "action" in file:
            return ALOHA
        return None


def evidence(root: Location, layout: str) -> Evidence | None:
    """The evidence that the HDF5 files at `root` have the layout; looks into eight of them."""
    files = find_hdf5(root)
    if not files.paths:
        return None
    step = max(1, len(files.paths) // _MOST_LOOKED_AT)
    looked_at = files.paths[::step][:_MOST_LOOKED_AT]
    try:
        counts = Counter(_layout_at(files, path) for path in looked_at)
    except MissingPackageError as error:
        return Evidence(layout, 0.1, (f"HDF5 files; to look into them: {error.fix}",))
    if not counts[layout]:
        return None
    num_found, num_looked_at = counts[layout], len(looked_at)
    where = f"in {num_found} of {num_looked_at} HDF5 files" if num_looked_at > 1 else looked_at[0]
    return Evidence(
        layout, round(0.9 * num_found / num_looked_at, 2), (f"{_SEEN[layout]}: {where}",)
    )


def _layout_at(files: Hdf5Files, path: str) -> str | None:
    try:
        with open_hdf5(files.tree, path) as file:
            return layout_of(file)
    except RefusedError:
        return None
