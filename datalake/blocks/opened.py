"""What a block holds, as it is cached and as it is looked at without a copy.

`encoded` makes of rows as a table gives them the record batch that is cached. All that costs time
for each row happens there, once:

    numbers  `values`, without nulls, and `valid` (a byte a row) if some row has none
    texts    `values`: dictionary-encoded with the null as an entry of its own where texts repeat,
             else as they are
    media    `values`, as they are
"""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.blocks.layout import Layout
from datalake.tables.mapped import Bytes

__all__ = [
    "RECIPES",
    "Block",
    "MediaBlock",
    "NumberBlock",
    "Rows",
    "TextBlock",
    "encoded",
    "opened",
]

Rows: TypeAlias = npt.NDArray[np.int64]

RECIPES: Final = {"numbers": "numbers/1", "texts": "texts/1", "media": ""}
"""What the cache is told about how a block was made; a change of `encoded` needs a new number."""

_MOST_DISTINCT: Final = 4096
_MOST_INTERNED: Final = 1 << 16


class Block(Protocol):
    """A block of one column, looked at where it lies."""

    batch: pa.RecordBatch
    """Keeps the block from being evicted."""


class NumberBlock:
    """Numbers: `values` (rows,) or (rows, width), `valid` (rows,) or None for all."""

    def __init__(self, batch: pa.RecordBatch, layout: Layout) -> None:
        self.batch = batch
        self.values = _numbers(batch["values"], layout)
        self.valid: npt.NDArray[np.bool_] | None = None
        if "valid" in batch.schema.names:
            self.valid = batch["valid"].to_numpy().view(np.bool_)


class TextBlock:
    """Texts: each distinct one an object of its own, or read where they lie."""

    def __init__(self, batch: pa.RecordBatch, interned: dict[str, str]) -> None:
        self.batch = batch
        column = batch["values"]
        self.codes: npt.NDArray[np.int32] | None = None
        self.distinct: list[str | None] = []
        self._objects: npt.NDArray[np.object_] | None = None
        if pa.types.is_dictionary(column.type):
            self.codes = column.indices.to_numpy()
            texts = column.dictionary.to_pylist()
            if len(interned) < _MOST_INTERNED:
                texts = [t if t is None else interned.setdefault(t, t) for t in texts]
            self.distinct = texts
            self._objects = np.array(self.distinct, dtype=object)
        else:
            self._lying = _Lying(column)

    def texts(self, rows: Rows) -> list[str | None]:
        """The texts of rows of the block."""
        if self._objects is not None:
            found: list[str | None] = self._objects[self.codes[rows]].tolist()  # type: ignore[index]
            return found
        data = memoryview(self._lying.data)  # type: ignore[arg-type]
        return [
            None if begin is None else str(data[begin:end], "utf-8")
            for begin, end in self._lying.spans(rows)
        ]


class MediaBlock:
    """Values of bytes."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self._lying = _Lying(batch["values"])

    def views(self, rows: Rows) -> list[Bytes | None]:
        """Each row's bytes where they lie, read-only."""
        data = self._lying.data
        return [
            None if begin is None else data[begin:end] for begin, end in self._lying.spans(rows)
        ]

    def sizes(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Each row's number of bytes, 0 for null."""
        return self._lying.sizes(rows)


class _Lying:
    """Values of any length in an Arrow array, where they lie."""

    def __init__(self, column: pa.Array) -> None:
        wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
        bitmap, offsets, data = column.buffers()
        self._shift = column.offset
        self._offsets: npt.NDArray[Any] = np.zeros(1, np.int64)
        if offsets is not None:
            self._offsets = np.frombuffer(offsets, np.int64 if wide else np.int32)
        self._bitmap = np.frombuffer(bitmap, np.uint8) if column.null_count else None
        self.data: Bytes = np.frombuffer(data or b"", np.uint8)
        self.data.flags.writeable = False

    def _missing(self, places: Rows) -> npt.NDArray[np.bool_] | None:
        if self._bitmap is None:
            return None
        bits: npt.NDArray[np.uint8] = self._bitmap[places >> 3] >> (places & 7).astype(np.uint8)
        missing: npt.NDArray[np.bool_] = bits & 1 == 0
        return missing

    def spans(self, rows: Rows) -> list[tuple[Any, Any]]:
        """Where each row begins and ends in `data`; (None, None) for null."""
        places = rows + self._shift
        spans = list(
            zip(self._offsets[places].tolist(), self._offsets[places + 1].tolist(), strict=True)
        )
        missing = self._missing(places)
        if missing is not None:
            for index in np.flatnonzero(missing).tolist():
                spans[index] = (None, None)
        return spans

    def sizes(self, rows: Rows) -> npt.NDArray[np.int64]:
        places = rows + self._shift
        sizes: npt.NDArray[np.int64] = np.subtract(
            self._offsets[places + 1], self._offsets[places], dtype=np.int64
        )
        missing = self._missing(places)
        if missing is not None:
            sizes[missing] = 0
        return sizes


def opened(batch: pa.RecordBatch, layout: Layout, interned: dict[str, str]) -> Block:
    """What `encoded` made, to look at.

    Args:
        batch: in memory or mapped.
        layout: of the column.
        interned: texts that exist already, to which those of the block are added.
    """
    if layout.kind == "numbers":
        return NumberBlock(batch, layout)
    if layout.kind == "texts":
        return TextBlock(batch, interned)
    return MediaBlock(batch)


def encoded(rows: pa.ChunkedArray, layout: Layout) -> pa.RecordBatch:
    """Rows of a column as the batch that is cached."""
    column = _joined(rows)
    if layout.kind == "numbers":
        return _encoded_numbers(column, layout)
    values = _encoded_texts(column) if layout.kind == "texts" else column
    return pa.RecordBatch.from_arrays([values], ["values"])


def _joined(rows: pa.ChunkedArray) -> pa.Array:
    if rows.num_chunks == 1:
        return rows.chunk(0)
    joined = rows.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):  # More than an array of this type can hold.
        wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
        joined = rows.cast(wide[rows.type]).combine_chunks()
    return joined


def _encoded_numbers(column: pa.Array, layout: Layout) -> pa.RecordBatch:
    assert layout.dtype is not None
    missing = None
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
    if layout.width is not None:
        # The elements of null rows are there too, whatever they are.
        start, length = column.offset * layout.width, len(column) * layout.width
        values = column.values.slice(start, length)
    else:
        values = column
    if values.null_count:
        inner = values.is_null().to_numpy(zero_copy_only=False)
        if layout.dtype.kind != "f":
            # A whole number has no value for "none", so that the row has none.
            inner_rows = inner.reshape(len(column), -1).any(axis=1)
            missing = inner_rows if missing is None else missing | inner_rows
        values = values.fill_null(_nothing(layout.dtype, values.type))
    stored = layout.dtype if layout.dtype.kind != "b" else np.dtype(np.uint8)
    plain = values.to_numpy(zero_copy_only=False).astype(stored, copy=missing is not None)
    if missing is not None:
        plain.reshape(len(column), -1)[missing] = np.nan if layout.dtype.kind == "f" else 0
    flat = pa.array(plain)
    if layout.width is not None:
        flat = pa.FixedSizeListArray.from_arrays(flat, layout.width)
    if missing is None:
        return pa.RecordBatch.from_arrays([flat], ["values"])
    valid = pa.array((~missing).view(np.uint8))
    return pa.RecordBatch.from_arrays([flat, valid], ["values", "valid"])


def _nothing(dtype: np.dtype[np.generic], stored: pa.DataType) -> pa.Scalar:
    return pa.scalar(np.nan if dtype.kind == "f" else False if dtype.kind == "b" else 0, stored)


def _numbers(column: pa.Array, layout: Layout) -> npt.NDArray[Any]:
    if layout.width is None:
        flat: npt.NDArray[Any] = column.to_numpy()
    else:
        start, length = column.offset * layout.width, len(column) * layout.width
        flat = column.values.slice(start, length).to_numpy().reshape(len(column), layout.width)
    return flat.view(np.bool_) if layout.dtype is not None and layout.dtype.kind == "b" else flat


def _encoded_texts(column: pa.Array) -> pa.Array:
    # A look at some rows spares the encoding of ids.
    few = column.slice(0, 4 * _MOST_DISTINCT)
    if pc.count_distinct(few, mode="all").as_py() > min(_MOST_DISTINCT, len(few) // 2 + 1):
        return column
    found = column.dictionary_encode()
    num_distinct = len(found.dictionary)
    if num_distinct > _MOST_DISTINCT:
        return column
    codes, dictionary = found.indices, found.dictionary
    if column.null_count:
        codes = codes.fill_null(num_distinct)
        dictionary = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
    return pa.DictionaryArray.from_arrays(codes, dictionary)
