"""Frames of a LeRobot parquet file in the form that our features have.

LeRobot writes a vector as a list, a list of fixed size or an extension type of Hugging Face, which
arrives as lists of lists, and a picture as a struct of bytes and path. Values stay as they are;
what does not have the declared shape stays as it was found, for validation to name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from datalake.recording import BOOKKEEPING, Feature

__all__ = ["formed"]


def formed(
    rows: pa.Table, features: Iterable[Feature], read_picture: Callable[[str], bytes]
) -> pa.Table:
    """The rows with each feature's column in its `arrow_type` where its shape allows it.

    Args:
        rows: as read from parquet.
        features: as declared. Columns of videos are left out, other columns pass as they are.
        read_picture: gives the bytes of a picture that the row only names by its path.
    """
    declared = {feature.name: feature for feature in features}
    columns = {}
    for name in rows.column_names:
        feature = declared.get(name)
        column = rows[name].combine_chunks()
        if feature is None:
            columns[name] = _unnested(column) if name in BOOKKEEPING else column
        elif feature.dtype == "image":
            columns[name] = _pictures(column, read_picture)
        elif feature.is_numeric:
            columns[name] = _numbers(column, feature)
        elif feature.dtype == "string":
            columns[name] = _texts(column)
    return pa.table(columns)


def _unnested(column: pa.Array) -> pa.Array:
    """Numbers of which some writers make lists of one, as info.json gives them the shape [1]."""
    kept_as = column.type
    if pa.types.is_list(kept_as) or pa.types.is_fixed_size_list(kept_as):
        lengths = pc.list_value_length(column)
        if not column.null_count and pc.all(pc.equal(lengths, 1)).as_py():
            return column.flatten()
    return column


def _texts(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()) if pa.types.is_large_string(column.type) else column


def _numbers(column: pa.Array, feature: Feature) -> pa.Array:
    wanted = feature.arrow_type
    if column.type == wanted:
        return column
    values = column.storage if isinstance(column, pa.ExtensionArray) else column
    size = 1
    while (
        pa.types.is_list(values.type)
        or pa.types.is_large_list(values.type)
        or (pa.types.is_fixed_size_list(values.type))
    ):
        if values.null_count:
            return column
        if pa.types.is_fixed_size_list(values.type):
            inner = values.type.list_size
        else:
            lengths = pc.unique(values.value_lengths())
            if len(lengths) > 1:
                return column
            inner = lengths[0].as_py() if len(lengths) else feature.num_elements
        size *= inner
        values = values.flatten()
    item = wanted if feature.num_elements == 1 else wanted.value_type
    if values.type != item or size != feature.num_elements:
        return column
    if feature.num_elements == 1:
        return values
    return pa.FixedSizeListArray.from_arrays(values, type=wanted)


def _pictures(column: pa.Array, read_picture: Callable[[str], bytes]) -> pa.Array:
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return column.cast(pa.large_binary())
    if not pa.types.is_struct(column.type) or "bytes" not in column.type.names:
        return column
    encoded = column.field("bytes").cast(pa.large_binary())
    if not encoded.null_count or "path" not in column.type.names:
        return encoded
    paths = column.field("path").to_pylist()
    return pa.array(
        [
            value if value is not None or path is None else read_picture(path)
            for value, path in zip(encoded.to_pylist(), paths, strict=True)
        ],
        pa.large_binary(),
    )
