"""One episode within an HDF5 file: its arrays, by name, and its frames."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from connectors.frame_arrays import FrameColumn, NoFeatureError, time_columns
from connectors.hdf5.files import h5py_module, reading
from connectors.refused import RefusedError
from datalake.quarantine import Reason
from datalake.recording import Feature

if TYPE_CHECKING:
    import h5py

__all__ = ["Arrays", "Wrap", "arrays_of", "attributes", "frames_of", "left_out"]

_DEEPEST = 8

Wrap: TypeAlias = "Callable[[str, h5py.Dataset], FrameColumn]"
"""Makes a path within the episode and its dataset a frame array; raises NoFeatureError."""


@dataclass(frozen=True)
class Arrays:
    """The arrays of an episode."""

    length: int
    of_frames: Mapping[str, FrameColumn]
    """Those that have a row a frame, by their feature's name."""
    others: Mapping[str, str]
    """Why each other one is no feature, by its path."""


def arrays_of(
    group: h5py.Group,
    wrap: Wrap,
    *,
    main: str,
    skip: Sequence[str] = (),
    must: Sequence[str] = (),
) -> Arrays:
    """The arrays of the episode in `group`.

    Args:
        group: holds the episode; its links may lead to groups and datasets of any depth.
        wrap: see there.
        main: the path of the array whose length is the episode's.
        skip: patterns of paths that are not looked at.
        must: patterns of paths that must have a row a frame.

    Raises:
        RefusedError: there is no main array, it has no rows, one that must have as many has not, a
            link leads nowhere, or two arrays would be one feature.
    """
    with reading(group.name):
        found = [
            (path, dataset)
            for path, dataset in _datasets(group, skip)
            if not any(fnmatch.fnmatchcase(path, pattern) for pattern in skip)
        ]
        shapes = {path: _shape(dataset) for path, dataset in found}
    if main not in shapes or not shapes[main]:
        raise RefusedError(Reason.SHAPE_CHANGED, f"{group.name} has no array {main}")
    length = shapes[main][0]
    if not length:
        raise RefusedError(Reason.EMPTY, f"{group.name.rstrip('/')}/{main} has no rows")
    of_frames: dict[str, FrameColumn] = {}
    others = {}
    for path, dataset in found:
        rows = shapes[path][0] if shapes[path] else None
        if rows != length:
            said = "no rows" if rows is None else f"{rows} rows where {main} has {length}"
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in must):
                raise RefusedError(
                    Reason.LENGTH_MISMATCH, f"{group.name.rstrip('/')}/{path} has {said}"
                )
            others[path] = f"it has {said}"
            continue
        try:
            with reading(dataset.name):
                array = wrap(path, dataset)
        except (NoFeatureError, TypeError) as error:  # h5py's word for types that NumPy lacks
            others[path] = str(error)
            continue
        name = array.feature.name
        if name in of_frames:
            paths = f"{of_frames[name].path} and {path}"
            raise RefusedError(Reason.UNSUPPORTED, f"{paths} would both be the feature {name}")
        of_frames[name] = array
    return Arrays(length, of_frames, others)


def frames_of(arrays: Arrays, features: Sequence[Feature], fps: float, where: str) -> pa.Table:
    """The frames of an episode that has exactly these features.

    Raises:
        RefusedError: it lacks a feature, has another one, or one of another dtype or shape; an
            array cannot be read.
    """
    declared = {feature.name for feature in features}
    for name, extra in arrays.of_frames.items():
        if name not in declared:
            raise RefusedError(
                Reason.SHAPE_CHANGED,
                f"{where}/{extra.path} is a feature that the dataset's first episode lacks "
                "(the option skip leaves arrays out)",
            )
    columns = time_columns(arrays.length, fps)
    for feature in features:
        array = arrays.of_frames.get(feature.name)
        if array is None:
            raise RefusedError(Reason.SHAPE_CHANGED, f"{where} has no {feature.name}")
        found = array.feature
        if (found.dtype, found.shape) != (feature.dtype, feature.shape):
            raise RefusedError(
                Reason.SHAPE_CHANGED,
                f"{where}/{array.path} is {found.dtype} of shape {found.shape} a frame, in the "
                f"dataset's first episode {feature.dtype} of shape {feature.shape}",
            )
        with reading(f"{where}/{array.path}"):
            columns[feature.name] = array.column(slice(0, arrays.length))
    return pa.table(columns)


def left_out(arrays: Arrays, where: str) -> list[str]:
    """Sentences about the arrays of an episode that are no feature."""
    return [f"{where}/{path} is left out: {why}" for path, why in sorted(arrays.others.items())]


def attributes(node: h5py.Group, leave_out: Sequence[str] = ()) -> dict[str, Any]:
    """The attributes of a group as JSON values; text that is a JSON object is parsed.

    Raises:
        RefusedError: the file is damaged where they are.
    """
    with reading(f"the attributes of {node.name}"):
        names = sorted(_in_utf8(name) for name in node.attrs)
        return {name: _json_value(node.attrs[name]) for name in names if name not in leave_out}


def _datasets(
    group: h5py.Group, skip: Sequence[str], path: str = "", depth: int = 0
) -> Iterator[tuple[str, h5py.Dataset]]:
    h5py = h5py_module()
    if depth > _DEEPEST:
        raise RefusedError(
            Reason.UNSUPPORTED, f"{group.name} lies too deep, or a link leads back above it"
        )
    for name in map(_in_utf8, group):
        below = f"{path}{name}"
        if below in skip or f"{below}/*" in skip:
            continue
        try:
            node = group[name]
        except KeyError as error:
            raise _lost(group, name, error) from error
        if isinstance(node, h5py.Group):
            yield from _datasets(node, skip, f"{below}/", depth + 1)
        elif isinstance(node, h5py.Dataset):
            yield below, node


def _lost(group: h5py.Group, name: str, error: KeyError) -> RefusedError:
    h5py = h5py_module()
    link = group.get(name, getlink=True)
    if isinstance(link, h5py.SoftLink | h5py.ExternalLink):
        return RefusedError(
            Reason.NOT_FOUND,
            f"{group.name}/{name} is a link to {link.path}, which is not there",
        )
    return RefusedError(Reason.CORRUPT, f"{group.name}/{name} cannot be opened: {error}")


def _in_utf8(name: str | bytes) -> str:
    """The name of a child or an attribute, which HDF5 lets be any bytes."""
    if isinstance(name, str) and name.isprintable():
        return name
    raise RefusedError(Reason.UNSUPPORTED, f"the name {name!r} cannot be a feature's")


def _shape(dataset: h5py.Dataset) -> tuple[int, ...]:
    return tuple(dataset.shape or ())


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        if value.lstrip()[:1] == "{":
            try:
                return json.loads(value)
            except ValueError:
                return value
        return value
    if isinstance(value, np.ndarray):
        return [_json_value(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        return _json_value(value.item())
    return value if isinstance(value, bool | int | float | list) else str(value)
