"""One HDF5 file of demonstrations below `/data`: their names, arrays and filter keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from connectors.frame_arrays import FrameArray, feature_name
from connectors.hdf5.episode import Arrays, arrays_of, attributes
from connectors.hdf5.files import h5py_module, natural, reading
from connectors.refused import RefusedError
from datalake.quarantine import Reason
from datalake.recording import Finding, Severity

if TYPE_CHECKING:
    import h5py

__all__ = [
    "MODEL_FILE",
    "DemoSettings",
    "FileFacts",
    "arrays_of_demo",
    "data_group",
    "demo_group",
    "demo_names",
    "file_findings",
    "filter_keys",
    "promised_length",
]

_MUST: Final = ("actions", "states", "rewards", "dones", "robot_states", "obs/*", "next_obs/*")
_OWN_NAMES: Final = {"actions": "action", "rewards": "next.reward", "dones": "next.done"}
MODEL_FILE: Final = "model_file"
"""The attribute with the simulator's model: long XML."""


class FileFacts(NamedTuple):
    """What a file says of all its demonstrations."""

    fps: float | None
    embodiment: str | None
    task: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class DemoSettings:
    """What a format, and a user's options, say of how demonstrations are read."""

    layout: str
    """As `layout_of` calls it."""
    facts: Callable[[Mapping[str, Any]], FileFacts]
    """Understands the attributes of `/data`. A function of a module, so that it can be pickled."""
    skip: tuple[str, ...]
    """Patterns of arrays that are left out."""
    task: str | None = None
    """In place of what the file says."""
    fps: float | None = None
    embodiment: str | None = None
    keep_model: bool = False
    flipped: bool = False
    """Whether pictures are turned upright."""

    @property
    def stamp(self) -> str:
        """Changes when the same file would be read otherwise."""
        return "|".join(map(str, (*self.skip, self.task, self.fps, self.keep_model, self.flipped)))


def demo_names(file: h5py.File) -> list[str]:
    """The names of the demonstrations, demo_2 before demo_10.

    Raises:
        RefusedError: the file is damaged where they are.
    """
    with reading("/data"):
        data = data_group(file)
        names = [
            name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in data
        ]
        return sorted((name for name in names if _may_be_demo(data, name)), key=natural)


def _may_be_demo(data: h5py.Group, name: str) -> bool:
    """Whether it is a group, or a link into nowhere: a demonstration that cannot be read."""
    h5py = h5py_module()
    try:
        return data.get(name, getclass=True) in (None, h5py.Group)
    except (KeyError, RuntimeError):
        return True


def arrays_of_demo(group: h5py.Group, settings: DemoSettings, common: Mapping[str, Any]) -> Arrays:
    """The arrays of one demonstration.

    Raises:
        RefusedError: see `arrays_of`.
    """
    convention = common.get("macros_image_convention")
    bottom_up = convention == "opengl"
    flipped = settings.flipped and bottom_up
    info = {"image_convention": "opencv" if flipped else convention} if convention else {}

    def wrap(path: str, dataset: h5py.Dataset) -> FrameArray:
        name, picture_name = _names(path)
        return FrameArray.of(
            path, dataset, name=name, picture_name=picture_name, flipped=flipped, info=info
        )

    return arrays_of(group, wrap, main="actions", skip=settings.skip, must=_MUST)


def _names(path: str) -> tuple[str, str]:
    """The names of a demonstration's array as a feature: of numbers, and of pictures."""
    head, _, below = path.partition("/")
    for folder, prefix in (("obs", "observation"), ("next_obs", "next.observation")):
        if head == folder and below:
            rest = below.replace("/", ".")
            return f"{prefix}.{rest}", f"{prefix}.images.{rest}"
    name = _OWN_NAMES.get(path) or feature_name(path)
    return name, name


def data_group(file: h5py.File) -> h5py.Group:
    """The group that holds the demonstrations.

    Raises:
        RefusedError: there is none, or the file is damaged where it is.
    """
    h5py = h5py_module()
    with reading("/data"):
        data = file["data"]
    if not isinstance(data, h5py.Group):
        raise RefusedError(Reason.UNSUPPORTED, "/data is no group")
    return data


def demo_group(file: h5py.File, demo: str) -> h5py.Group:
    """The group of one demonstration.

    Raises:
        RefusedError: there is none, or the file is damaged where it is.
    """
    h5py = h5py_module()
    with reading(f"/data/{demo}"):
        group = file["data"][demo]
    if not isinstance(group, h5py.Group):
        raise RefusedError(Reason.UNSUPPORTED, f"/data/{demo} is no group")
    return group


def promised_length(data: h5py.Group, demo: str) -> int | None:
    """The frames that a demonstration's attribute promises; None without one that is a number."""
    try:
        with reading(demo):
            return int(data[demo].attrs["num_samples"])
    except (RefusedError, TypeError):
        return None


def filter_keys(file: h5py.File) -> dict[str, frozenset[str]]:
    """The demonstrations of each filter key."""
    h5py = h5py_module()
    with reading("/mask"):
        mask = file.get("mask")
        if not isinstance(mask, h5py.Group):
            return {}
        found = {}
        for name, node in mask.items():
            if isinstance(node, h5py.Dataset) and node.shape:
                values = node[:].ravel().tolist()
                found[name] = frozenset(
                    v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values
                )
        return found


def file_findings(file: h5py.File, path: str) -> Iterator[Finding]:
    """What the file's attributes and filter keys say that is not so, and numbers that are left out.

    Raises:
        RefusedError: the file is damaged where one has to look.
    """

    def about(reason: Reason, detail: str) -> Finding:
        return Finding(reason, Severity.WARNING, detail, origin=path)

    names = demo_names(file)
    data = data_group(file)
    said = attributes(data, (MODEL_FILE,))
    lengths = [promised_length(data, name) for name in names]
    num_frames = sum(length or 0 for length in lengths)
    if None not in lengths and said.get("total", num_frames) != num_frames:
        yield about(
            Reason.METADATA_MISMATCH,
            f"total is {said['total']}, the demonstrations promise {num_frames} frames together",
        )
    if said.get("num_demos", len(names)) != len(names):
        yield about(
            Reason.METADATA_MISMATCH,
            f"num_demos is {said['num_demos']}, there are {len(names)} demonstrations",
        )
    numbers = {int(found[1]) for name in names if (found := re.search(r"(\d+)$", name))}
    if numbers and len(numbers) <= max(numbers) - min(numbers):
        missing = sorted(set(range(min(numbers), max(numbers))) - numbers)
        shown = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        yield about(Reason.INDEX_GAP, f"there is no demonstration of the numbers {shown}")
    for key, demos in sorted(filter_keys(file).items()):
        if unknown := sorted(demos - set(names), key=natural):
            shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
            yield about(
                Reason.METADATA_MISMATCH,
                f"the filter key {key} names demonstrations that are not there: {shown}",
            )
