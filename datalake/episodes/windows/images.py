"""Pictures that lie in the frames table, as bytes or decoded."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from datalake.blocks.reader import TableReader
from datalake.episodes.episode_set import Index
from datalake.episodes.windows.cameras import Allocate
from datalake.episodes.windows.columns import refuse_gaps
from datalake.episodes.windows.decoded import DecodedPictures
from datalake.episodes.windows.pictures import Pixels, Size, decode_into, shape_of
from datalake.errors import InputError
from datalake.recording import Feature
from datalake.tables.mapped import Bytes
from datalake.telemetry import Meter
from datalake.video import BadVideo

__all__ = ["decoded_images", "encoded_images", "first_image", "image_recipe"]

Ints = npt.NDArray[np.int64]

_LOOKED_AT: Final = 64


def encoded_images(reader: TableReader, feature: Feature, rows: Ints) -> list[Any]:
    """Encoded pictures as `bytes`, in a list (n), or in lists in a list (n, T).

    Raises:
        InputError: some frame has none.
    """
    flat = [view.tobytes() for view in _views(reader, feature, rows.ravel())]
    if rows.ndim == 1:
        return flat
    return [flat[start : start + rows.shape[1]] for start in range(0, rows.size, rows.shape[1])]


def decoded_images(
    reader: TableReader,
    feature: Feature,
    rows: Ints,
    *,
    size: Size | None,
    kept: DecodedPictures | None,
    allocate: Allocate,
    meter: Meter,
) -> Pixels:
    """Decoded pictures, (*rows.shape, height, width, channels), each row's decoded once.

    With `kept` those that are kept are taken as they are, and the others are kept.

    Raises:
        InputError: some frame has none, or they differ in size.
        BadVideo: one cannot be decoded.
    """
    if not rows.size:
        height_width = feature.shape[:2] if size is None else size[::-1]
        return np.empty((*rows.shape, *height_width, *feature.shape[2:]), np.uint8)
    wanted, firsts, inverse = np.unique(rows, return_index=True, return_inverse=True)
    if kept is not None:
        allocated = allocate((*rows.shape, *kept.shape), kept.dtype)
        pictures = allocated.reshape(rows.size, *kept.shape)
        is_missing = ~kept.take(wanted, pictures, firsts)
    else:
        shape, dtype = shape_of(_views(reader, feature, wanted[:1])[0], size)
        allocated = allocate((*rows.shape, *shape), dtype)
        pictures = allocated.reshape(rows.size, *shape)
        is_missing = np.ones(len(wanted), bool)
    with meter.during("decode", feature.name):
        missing = wanted[is_missing]
        views = _views(reader, feature, missing) if len(missing) else []
        for row, place, view in zip(
            missing.tolist(), firsts[is_missing].tolist(), views, strict=True
        ):
            _decode(feature, view, pictures[place], size)
            if kept is not None:
                kept.put(row, pictures[place])
    if len(wanted) < rows.size:
        sources = firsts[inverse.ravel()]
        repeats = np.flatnonzero(sources != np.arange(rows.size))
        pictures[repeats] = pictures[sources[repeats]]
    return allocated


def first_image(
    reader: TableReader, index: Index, feature: Feature, size: Size | None
) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """The shape and numbers of a feature's first picture: all that are kept have them.

    None if there is no picture in the first frame of any episode.

    Raises:
        BadVideo: it cannot be decoded.
    """
    firsts = index.starts[:-1][index.lengths > 0]
    for start in range(0, len(firsts), _LOOKED_AT):
        for view in reader.views(feature.column, firsts[start : start + _LOOKED_AT], sparse=True):
            if view is not None:
                return shape_of(view, size)
    return None


def image_recipe(size: Size | None) -> str:
    """What decoded pictures follow from beside their row."""
    import PIL

    return f"picture/1 size {size}, pillow {PIL.__version__}"


def _views(reader: TableReader, feature: Feature, rows: Ints) -> list[Bytes]:
    views = reader.views(feature.column, rows)
    if any(view is None for view in views):
        raise refuse_gaps(feature)
    return cast("list[Bytes]", views)


def _decode(feature: Feature, view: Bytes, out: Pixels, size: Size | None) -> None:
    try:
        decode_into(view, out, size)
    except BadVideo:
        raise
    except InputError as error:
        error.where = feature.name
        raise
