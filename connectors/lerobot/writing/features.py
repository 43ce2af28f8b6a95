"""Features as LeRobot declares and stores them.

The Parquet files follow the types of Hugging Face's `datasets`: a vector is a list of fixed size, a
larger array lists of lists, a picture a struct of bytes and path. A vector of one element is a
scalar.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from datalake.recording import NUMERIC_DTYPES, Feature

__all__ = ["BOOKKEEPING_FEATURES", "definition", "parquet_column", "parquet_schema", "shape_of"]

BOOKKEEPING_FEATURES: Final = (
    Feature("timestamp", "float32", (1,)),
    Feature("frame_index", "int64", (1,)),
    Feature("episode_index", "int64", (1,)),
    Feature("index", "int64", (1,)),
    Feature("task_index", "int64", (1,)),
)
"""What every LeRobot dataset has beside its own features, in its order."""

_PICTURE_AXES: Final = ["height", "width", "channels"]
_MOST_BYTES: Final = 1 << 30


def shape_of(feature: Feature) -> tuple[int, ...]:
    """The shape as declared; LeRobot knows no shape without axes."""
    return feature.shape or (1,)


def definition(feature: Feature, video: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The feature's entry in info.json.

    What its source said beyond our columns comes back as it was, such as names that are nested.

    Args:
        feature: the feature.
        video: the row of the first video file, for a camera whose source said nothing of it, or
            whose videos were encoded anew.
    """
    said = {key: value for key, value in feature.info.items() if key not in ("dtype", "shape")}
    names = said.pop("names", None)
    if feature.names and tuple(_leaves(names)) != feature.names:
        names = list(feature.names)
    if feature.dtype in ("image", "video") and not names:
        # Policies look there for the axis of the channels.
        names = _PICTURE_AXES
    found: dict[str, Any] = {
        "dtype": feature.dtype,
        "shape": list(shape_of(feature)),
        "names": names,
        **said,
    }
    if video is not None:
        found.pop("video_info", None)
        found["info"] = {
            **(said.get("info") or {}),
            "video.height": video["height"],
            "video.width": video["width"],
            "video.codec": video["codec"],
            "video.pix_fmt": video["pix_fmt"],
            "video.fps": _whole(video["fps"]),
            "video.channels": feature.shape[-1],
            "video.is_depth_map": bool((said.get("info") or {}).get("video.is_depth_map", False)),
            "has_audio": False,
        }
    return found


def parquet_schema(features: Iterable[Feature]) -> pa.Schema:
    """The schema of a data file, with the metadata by which `datasets` knows its types."""
    stored = [feature for feature in features if feature.dtype != "video"]
    types = {feature.name: _hugging_face_type(feature) for feature in stored}
    return pa.schema(
        [pa.field(feature.name, _parquet_type(feature)) for feature in stored],
        metadata={"huggingface": json.dumps({"info": {"features": types}})},
    )


def parquet_column(feature: Feature, values: pa.Array) -> pa.Array | pa.ChunkedArray:
    """The stored column of frames in the type that `parquet_schema` gives it. Copies no number."""
    wanted = _parquet_type(feature)
    if feature.dtype == "image":
        return pa.chunked_array(_pictures(values), type=wanted)
    if len(shape_of(feature)) == 1 or not feature.is_numeric:
        return values
    flat = values.flatten() if pa.types.is_fixed_size_list(values.type) else values
    return _nested(flat, shape_of(feature), wanted)


def _parquet_type(feature: Feature) -> pa.DataType:
    if feature.dtype == "image":
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    shape = shape_of(feature)
    if len(shape) == 1 or not feature.is_numeric:
        return feature.arrow_type
    found = NUMERIC_DTYPES[feature.dtype]
    for _ in shape:
        found = pa.list_(found)
    return found


def _pictures(encoded: pa.Array) -> list[pa.Array]:
    """Structs of bytes and path, in pieces that Arrow's 32 bit offsets can hold."""
    if encoded.nbytes > _MOST_BYTES and len(encoded) > 1:
        half = len(encoded) // 2
        return [*_pictures(encoded[:half]), *_pictures(encoded[half:])]
    paths = pa.nulls(len(encoded), pa.string())
    return [pa.StructArray.from_arrays([encoded.cast(pa.binary()), paths], names=["bytes", "path"])]


def _nested(flat: pa.Array, shape: tuple[int, ...], wanted: pa.DataType) -> pa.Array:
    """Lists of lists over numbers in C order."""
    levels = [wanted]
    while pa.types.is_list(levels[-1]):
        levels.append(levels[-1].value_type)
    found = flat
    for size, level in zip(reversed(shape), reversed(levels[:-1]), strict=True):
        offsets = np.arange(0, len(found) + 1, size, dtype=np.int32)
        found = pa.ListArray.from_arrays(pa.array(offsets), found, type=level)
    return found


def _hugging_face_type(feature: Feature) -> dict[str, Any]:
    """The type as `datasets` writes it; `Sequence` is read by all of its versions."""
    shape = shape_of(feature)
    if feature.dtype == "image":
        return {"_type": "Image"}
    value = {"dtype": feature.dtype, "_type": "Value"}
    if not feature.is_numeric or shape == (1,):
        return value
    if len(shape) == 1:
        return {"feature": value, "length": shape[0], "_type": "Sequence"}
    return {"shape": list(shape), "dtype": feature.dtype, "_type": f"Array{len(shape)}D"}


def _leaves(names: Any) -> Iterator[str]:
    """The names within lists and mappings, in order."""
    if isinstance(names, Mapping):
        names = list(names.values())
    if isinstance(names, list):
        for name in names:
            yield from _leaves(name)
    elif names is not None:
        yield str(names)


def _whole(number: float) -> float:
    """30.0 as 30, as LeRobot writes frame rates."""
    return int(number) if math.isfinite(number) and number == int(number) else number
