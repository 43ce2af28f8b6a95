"""Cosines of vectors of length 1, and what of them an order compares."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.selection.orders.order import OrderOptions
from datalake import plugins
from datalake.errors import InputError, SchemaError, nearest

__all__ = ["BLOCK_ROWS", "UNIT", "cosines_to_kept", "embedding_of", "in_units"]

UNIT: Final = 1 << 20
"""Cosines are compared as whole numbers of 2^-20, a little more than float32 products err by. So
equal vectors are equally far from any other, ties are broken by the hash and not by rounding, and
sums do not depend on their order."""

BLOCK_ROWS: Final = 4096


def in_units(cosines: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Cosines as whole numbers of 2^-20."""
    return np.asarray(np.rint(cosines * np.float32(UNIT)), np.int32)


def cosines_to_kept(
    vectors: npt.NDArray[Any], kept: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """The cosine of each row to the nearest kept one, (rows,). Holds 100 MB beside the kept."""
    chosen = np.ascontiguousarray(vectors[np.sort(kept)], np.float32)
    found = np.full(len(vectors), -1, np.float32)
    for start in range(0, len(vectors), BLOCK_ROWS):
        block = np.ascontiguousarray(vectors[start : start + BLOCK_ROWS], np.float32)
        best = found[start : start + len(block)]
        for first in range(0, len(chosen), BLOCK_ROWS):
            products = block @ chosen[first : first + BLOCK_ROWS].T
            np.maximum(best, products.max(axis=1), out=best)
    return found


def embedding_of(schema: pa.Schema, options: OrderOptions, order: str) -> str:
    """The column of vectors that an order needs.

    Raises:
        InputError: none is named.
        SchemaError: it is not there, or holds no vectors.
    """
    column = options.embedding
    vectors = [
        field.name
        for field in schema
        if pa.types.is_fixed_size_list(field.type) and pa.types.is_floating(field.type.value_type)
    ]
    if column is None:
        raise InputError(
            f"The order {order} needs a column of embeddings (--embedding)",
            found=f"columns of vectors: {', '.join(vectors) or 'none'}",
            fix="Name one of them" if vectors else "Run `curate embed TABLE --with lfcc_stats`",
        )
    if column not in schema.names:
        known = plugins.names("datalake.embedders")
        made_by = f"--with {column}" if column in known else f"--with NAME --as {column}"
        raise SchemaError(
            f"The order {order} needs the embedding {column}, which is not a column",
            found=f"columns of vectors: {', '.join(vectors) or 'none'}",
            fix=f"Run `curate embed TABLE {made_by}`, or name another. {nearest(column, vectors)}",
        )
    kind = schema.field(column).type
    is_list = pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind)
    if not is_list or not pa.types.is_floating(kind.value_type):
        raise SchemaError(
            f"The column {column} holds no embeddings",
            expected="a list of floats, the same number in every row",
            found=str(kind),
            fix="Run `curate embed` for one, or name another column",
        )
    return column
