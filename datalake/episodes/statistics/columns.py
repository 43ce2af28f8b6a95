"""A column of frames as an array of numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.errors import InputError

__all__ = ["numbers_of"]

_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def numbers_of(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """The numbers of a column, shape (rows that are not null, elements), in their own dtype.

    Lists may be nested (and so may be an extension type's storage); their elements come in C order.
    Integers and booleans among which some are null come as float64, null as NaN.

    Raises:
        InputError: the column holds no numbers, or rows of unlike length.
    """
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(flat, pa.ChunkedArray):
        # Too large for one array of its type.
        return np.concatenate([numbers_of(chunk) for chunk in flat.chunks])
    flat = flat.drop_null()
    num_rows = len(flat)
    while True:
        if isinstance(flat, pa.ExtensionArray):
            flat = flat.storage
        elif any(is_list(flat.type) for is_list in _LISTS):
            _check_even(flat)
            flat = flat.flatten()
        else:
            break
    if not (
        pa.types.is_integer(flat.type)
        or pa.types.is_floating(flat.type)
        or pa.types.is_boolean(flat.type)
    ):
        raise InputError("A column holds no numbers", found=str(flat.type))
    if flat.null_count and not pa.types.is_floating(flat.type):
        flat = flat.cast(pa.float64())
    values: npt.NDArray[Any] = flat.to_numpy(zero_copy_only=False)
    return values.reshape(num_rows, len(values) // num_rows if num_rows else 0)


def _check_even(lists: pa.Array) -> None:
    if pa.types.is_fixed_size_list(lists.type) and not lists.null_count:
        return
    lengths = np.unique(lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    if len(lengths) > 1:
        raise InputError(
            "The rows of a column are of unlike length",
            expected="as many numbers in every row",
            found=f"{lengths[0]} to {lengths[-1]}",
        )
