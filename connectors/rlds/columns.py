"""The columns of an RLDS episode: from the flat lists of its Example to one value a step.

What TFDS cannot tell in advance, sequences within a step and arrays of unknown size, differs from
step to step and fits no column of fixed size; it is kept as JSON text, with all digits.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.encoded_pictures import shape_among
from connectors.frame_arrays import number_column
from connectors.pictures import AXES, channels_last, encode_png, picture_shape
from connectors.refused import RefusedError
from connectors.rlds.tf_example import Values
from connectors.rlds.tfds_features import Leaf
from datalake.quarantine import Reason
from datalake.recording import BOOKKEEPING, Feature

__all__ = ["column_of_steps", "feature_name", "feature_of_leaf", "value_of"]

_Array: TypeAlias = npt.NDArray[Any]


def feature_name(leaf: Leaf) -> str:
    """The feature that a leaf below `steps` becomes."""
    first, *rest = leaf.path[1:] or ("step",)
    if first == "observation":
        if is_camera(leaf):
            rest = rest[1:] if rest[:1] == ["images"] and len(rest) > 1 else rest
            return ".".join(["observation.images", *(rest or ["image"])])
        return ".".join(["observation", *(rest or ["state"])])
    if first == "reward" and not rest:
        return "next.reward"
    name = ".".join([first, *rest])
    return f"source.{name}" if name in BOOKKEEPING else name


def is_camera(leaf: Leaf) -> bool:
    """Whether a leaf holds one picture a step: encoded, or raw pixels in an observation."""
    return leaf.kind == "picture" or _raw_shape(leaf) is not None


def feature_of_leaf(leaf: Leaf) -> Feature:
    """The feature as features.json declares it; unknown sizes of pictures are 1."""
    name, info = feature_name(leaf), dict(leaf.info)
    if is_camera(leaf):
        height, width, channels = _raw_shape(leaf) or (size or 1 for size in leaf.shape)
        info |= {"dtype": leaf.dtype} if leaf.dtype != "uint8" else {}
        return Feature(name, "image", (height, width, channels), AXES, info=info)
    if _as_text(leaf):
        is_plain = leaf.kind == "text" and not leaf.whole_shape
        info |= {} if is_plain else {"encoding": "json"}
        return Feature(name, "string", (1,), info=info)
    shape = tuple(size for size in leaf.whole_shape if size is not None)
    # A number a step has the shape (1,), as LeRobot writes it.
    return Feature(name, leaf.dtype, shape or (1,), info=info)


def column_of_steps(
    leaf: Leaf, lists: Mapping[str, Values], num_steps: int | None
) -> tuple[Feature, pa.Array]:
    """One value a step, and the feature that says what it is.

    Args:
        leaf: what features.json says.
        lists: the episode's Example.
        num_steps: how many there must be; None: as many as there are.

    Raises:
        RefusedError: the lists do not hold so many values of the shape and type that are said.
    """
    feature = feature_of_leaf(leaf)
    column: pa.Array
    if feature.dtype == "image":
        feature, column = _pictures(leaf, lists, feature)
    elif feature.dtype == "string":
        texts = _ragged(leaf, lists)
        if "encoding" in feature.info:
            texts = [json.dumps(_plain(value), ensure_ascii=False) for value in texts]
        column = pa.array(texts, pa.string())
    else:
        values = _Nested.of(leaf, lists).stacked() if leaf.dimensions else _arrays(leaf, lists)
        column = number_column(values, feature)
    if num_steps is not None and len(column) != num_steps:
        raise _bad(f"{leaf.key} has {len(column)} values for {num_steps} steps")
    return feature, column


def value_of(leaf: Leaf, lists: Mapping[str, Values]) -> Any:
    """The value of a leaf outside of `steps`, as a JSON value; None for what is no such value.

    Raises:
        RefusedError: the list holds something else than features.json says.
    """
    if leaf.kind in ("picture", "unknown"):
        return None
    # Without the sequence of steps the outermost of its own takes that part.
    values = _ragged(Leaf(leaf.path, leaf.kind, leaf.dtype, leaf.shape, leaf.encoding), lists)
    if leaf.dimensions:
        return [_plain(value) for value in values]
    return _plain(values[0]) if values else None


def _raw_shape(leaf: Leaf) -> tuple[int, int, int] | None:
    """(height, width, channels) of raw pixels of an observation, unknown sizes 1; None if none."""
    if leaf.kind != "numbers" or leaf.dimensions or leaf.path[:2] != ("steps", "observation"):
        return None
    if None not in leaf.shape:
        return picture_shape(tuple(size or 0 for size in leaf.shape), np.dtype(leaf.dtype))
    is_rgb = leaf.dtype == "uint8" and len(leaf.shape) == 3 and leaf.shape[2] in (1, 3, 4)
    return (leaf.shape[0] or 1, leaf.shape[1] or 1, leaf.shape[2] or 1) if is_rgb else None


def _as_text(leaf: Leaf) -> bool:
    return leaf.kind == "text" or None in leaf.whole_shape or 0 in leaf.whole_shape


def _pictures(
    leaf: Leaf, lists: Mapping[str, Values], feature: Feature
) -> tuple[Feature, pa.Array]:
    pictures: Sequence[bytes | memoryview]
    if leaf.kind == "picture":
        pictures = _blobs(leaf.key, lists)
    else:
        height, width, channels = feature.shape
        is_plain = leaf.encoding == "none"
        arrays = _arrays(leaf, lists) if is_plain else _decoded(leaf, lists, leaf.key)
        is_known = None not in leaf.shape
        pictures = [
            encode_png(channels_last(pixels, (height, width, channels)) if is_known else pixels)
            for pixels in arrays
        ]
    if None in leaf.shape:
        feature = replace(feature, shape=shape_among(pictures) or feature.shape)
    return feature, pa.array(pictures, pa.large_binary())


# Values -------------------------------------------------------------------------------------------


def _list(key: str, lists: Mapping[str, Values]) -> Values:
    try:
        return lists[key]
    except KeyError:
        raise _bad(f"{key} is not there") from None


def _blobs(key: str, lists: Mapping[str, Values]) -> list[memoryview]:
    values = _list(key, lists)
    if isinstance(values, list):
        return values
    raise _bad(f"{key} holds {values.dtype} where bytes should be")


def _text(value: memoryview) -> str:
    return str(value, "utf-8", "backslashreplace")


def _arrays(leaf: Leaf, lists: Mapping[str, Values]) -> _Array:
    """One array a step, stacked: (steps, *shape). For leaves of known shape."""
    if leaf.encoding == "none":
        known = math.prod(size for size in leaf.shape if size is not None)
        values = _numbers(leaf, _list(leaf.key, lists))
        if len(values) % known:
            raise _bad(f"{leaf.key} has {len(values)} numbers, no multiple of {known}")
        return values.reshape(-1, *(size or 1 for size in leaf.shape))
    found = _decoded(leaf, lists, leaf.key)
    return np.stack(found) if found else np.empty((0, *(size or 1 for size in leaf.shape)))


def _decoded(leaf: Leaf, lists: Mapping[str, Values], key: str) -> list[_Array]:
    """The arrays whose bytes are stored, one a value."""
    is_dynamic = leaf.shape.count(None) > 1
    blobs = _blobs(f"{key}/value" if is_dynamic else key, lists)
    shapes: Sequence[tuple[int, ...]] = [tuple(size or -1 for size in leaf.shape)] * len(blobs)
    if is_dynamic:
        sizes = np.asarray(_list(f"{key}/shape", lists))
        if len(sizes) != len(blobs) * len(leaf.shape):
            raise _bad(f"{key}/shape has {len(sizes)} numbers for {len(blobs)} arrays")
        shapes = [tuple(row) for row in sizes.reshape(-1, len(leaf.shape)).tolist()]
    found = []
    for blob, shape in zip(blobs, shapes, strict=True):
        try:
            data = zlib.decompress(blob) if leaf.encoding == "zlib" else blob
            found.append(np.frombuffer(data, np.dtype(leaf.dtype)).reshape(shape))
        except (ValueError, zlib.error) as error:
            raise _bad(f"{key} holds bytes that are no such array: {error}") from error
    return found


def _numbers(leaf: Leaf, values: Values) -> _Array:
    """Stored numbers in their own type. TFDS stores float32 and int64 only."""
    if isinstance(values, list):
        if values:
            raise _bad(f"{leaf.key} holds bytes where {leaf.dtype} should be")
        return np.empty(0, leaf.dtype)
    if leaf.dtype == "uint64":
        return values.view(np.uint64)
    if (values.dtype.kind == "f") != leaf.dtype.startswith("float"):
        raise _bad(f"{leaf.key} holds {values.dtype} where {leaf.dtype} should be")
    cast = values.astype(leaf.dtype)
    if leaf.dtype != "bool" and cast.dtype.kind in "iu" and not np.array_equal(cast, values):
        raise _bad(f"{leaf.key} holds numbers that are no {leaf.dtype}")
    return cast


@dataclass(frozen=True)
class _Nested:
    """Sequences within each step: what they hold, one after another, and how many each has."""

    items: list[Any] | _Array
    row_lengths: list[list[int]]
    dimensions: tuple[int | None, ...]

    @classmethod
    def of(cls, leaf: Leaf, lists: Mapping[str, Values]) -> _Nested:
        """Of a leaf that lies in sequences."""
        key = f"{leaf.key}/ragged_flat_values"
        if f"{leaf.key}/ragged_row_lengths_0" not in lists:
            raise _bad(f"{leaf.key}/ragged_row_lengths_0 is not there")
        lengths = [
            np.asarray(_list(f"{leaf.key}/ragged_row_lengths_{level}", lists)).tolist()
            for level in range(len(leaf.dimensions))
        ]
        items: list[Any] | _Array
        if leaf.kind == "numbers" and leaf.encoding != "none":
            items = _decoded(leaf, lists, key)
        elif leaf.kind == "numbers":
            items = _arrays(Leaf((key,), "numbers", leaf.dtype, leaf.shape), lists)
        else:
            items = [_text(value) for value in _blobs(key, lists)]
        if len(items) != sum(lengths[-1]):
            raise _bad(f"{key} has {len(items)} values for {sum(lengths[-1])}")
        return cls(items, lengths, leaf.dimensions)

    def stacked(self) -> _Array:
        """All items as one array, where every sequence has its declared length."""
        for lengths, size in zip(self.row_lengths, self.dimensions, strict=True):
            if set(lengths) - {size}:
                raise _bad(f"a sequence has {lengths} values, not {size}")
        return np.asarray(self.items)

    def rows(self) -> list[Any]:
        """The items in lists of lists, one a step."""
        rows: list[Any] = list(self.items)
        for lengths in reversed(self.row_lengths):
            ends = np.cumsum(lengths).tolist()
            rows = [rows[end - size : end] for end, size in zip(ends, lengths, strict=True)]
        return rows


def _ragged(leaf: Leaf, lists: Mapping[str, Values]) -> list[Any]:
    """One value a step, of whatever size."""
    if leaf.dimensions:
        return _Nested.of(leaf, lists).rows()
    if leaf.kind == "numbers":
        if leaf.encoding != "none":
            return list(_decoded(leaf, lists, leaf.key))
        return list(_arrays(leaf, lists))
    return [_text(value) for value in _blobs(leaf.key, lists)]


def _plain(value: Any) -> Any:
    """The value as JSON. A float32 is written as the double that it equals."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _bad(detail: str) -> RefusedError:
    return RefusedError(Reason.SHAPE_CHANGED, detail)
