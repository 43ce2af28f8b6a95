"""Packed sequences as rows: their columns, and how frames come out of them again.

sequence_index   from 0, without a gap
num_tokens       tokens (or frames) that are no padding
cu_seqlens       where segments begin, and the end of the last
segments         what each segment is of, in order
position_ids     (capacity,) from 0 in each segment; padding 0
segment_ids      (capacity,) from 1; padding 0
modality_ids     (capacity,) see `Modality`; padding 0; only where tokens are counted
<feature>        the values of all frames of all segments, one after the other, without padding
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.packing.sequences import cu_seqlens
from datalake.recording import feature_of

__all__ = ["PACKED_COLUMNS", "SEGMENT", "packed_schema", "sequence_rows", "unpack"]

SEGMENT: Final = pa.struct(
    [
        # The episode set or table.
        pa.field("source", pa.string(), nullable=False),
        # The episode_id, or the table's own id.
        pa.field("item_id", pa.string(), nullable=False),
        # Of the first frame among the frames, or of the item in its table, at the version packed.
        pa.field("row", pa.int64(), nullable=False),
        # The first frame in the episode; of an item of a table its first token of sound or video.
        pa.field("start", pa.int64(), nullable=False),
        # 0 for items that are no frames.
        pa.field("num_frames", pa.int64(), nullable=False),
        pa.field("num_tokens", pa.int64(), nullable=False),
    ]
)

PACKED_COLUMNS: Final = (
    "sequence_index",
    "num_tokens",
    "cu_seqlens",
    "segments",
    "position_ids",
    "segment_ids",
    "modality_ids",
)


def packed_schema(
    capacity: int,
    *,
    token_columns: bool = True,
    modalities: bool = True,
    columns: Sequence[pa.Field] = (),
) -> pa.Schema:
    """The schema of packed sequences.

    Args:
        capacity: tokens (or frames) of a sequence.
        token_columns: whether there are columns with a value a token.
        modalities: whether `modality_ids` is one of them.
        columns: columns of frames whose values are put in.
    """
    fields = [
        pa.field("sequence_index", pa.int64(), nullable=False),
        pa.field("num_tokens", pa.int64(), nullable=False),
        pa.field("cu_seqlens", pa.list_(pa.int32()), nullable=False),
        pa.field("segments", pa.list_(SEGMENT), nullable=False),
    ]
    if token_columns:
        fields += [
            pa.field("position_ids", pa.list_(pa.int32(), capacity), nullable=False),
            pa.field("segment_ids", pa.list_(pa.int32(), capacity), nullable=False),
        ]
    if token_columns and modalities:
        fields.append(pa.field("modality_ids", pa.list_(pa.int8(), capacity), nullable=False))
    fields += [pa.field(column.name, pa.list_(column.type), nullable=False) for column in columns]
    return pa.schema(fields)


def sequence_rows(
    schema: pa.Schema,
    first_index: int,
    sizes: npt.NDArray[np.integer],
    segments: pa.StructArray,
    *,
    modalities: Sequence[npt.NDArray[np.int8]] = (),
    values: pa.Table | None = None,
) -> pa.RecordBatch:
    """Rows of packed sequences, from their segments one after the other.

    Args:
        schema: that `packed_schema` made.
        first_index: the number of the first sequence.
        sizes: segments of each sequence, (sequences,).
        segments: of type `SEGMENT`, (segments,).
        modalities: of each segment's tokens; needed where the schema has them.
        values: the frames of all segments in order; needed where the schema has their columns.
    """
    num = len(sizes)
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    lengths = segments.field("num_tokens").to_numpy()
    ends = np.concatenate([[0], np.cumsum(lengths)])
    columns: dict[str, pa.Array] = {
        "sequence_index": pa.array(np.arange(first_index, first_index + num)),
        "num_tokens": pa.array(np.diff(ends[bounds])),
        "segments": pa.ListArray.from_arrays(pa.array(bounds), segments),
        "cu_seqlens": pa.array(
            [cu_seqlens(lengths[bounds[n] : bounds[n + 1]]) for n in range(num)],
            pa.list_(pa.int32()),
        ),
    }
    if "position_ids" in schema.names:
        columns.update(_token_columns(schema, bounds, lengths, modalities))
    if values is not None:
        frames = np.concatenate([[0], np.cumsum(segments.field("num_frames").to_numpy())])
        offsets = pa.array(frames[bounds].astype(np.int32))
        for name in values.column_names:
            flat = values[name].combine_chunks()
            columns[name] = pa.ListArray.from_arrays(offsets, flat)
    return pa.record_batch([columns[name].cast(schema.field(name).type) for name in schema.names],
                           schema=schema)  # fmt: skip


def _token_columns(
    schema: pa.Schema,
    bounds: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int64],
    modalities: Sequence[npt.NDArray[np.int8]],
) -> dict[str, pa.Array]:
    """The columns with a value a token, of all sequences in one pass."""
    num, capacity = len(bounds) - 1, schema.field("position_ids").type.list_size
    sequence = np.repeat(np.arange(num), np.diff(bounds))
    ends = np.cumsum(lengths)
    before = ends - lengths
    # Where each segment's sequence, and the segment in it, begins among all slots.
    used_before = np.concatenate([[0], ends])[bounds[:-1]]
    first_slot = sequence * capacity + before - used_before[sequence]
    place = np.arange(lengths.sum()) - np.repeat(before, lengths)
    slot = np.repeat(first_slot, lengths) + place
    number = np.arange(len(lengths)) - bounds[:-1][sequence] + 1
    filled: dict[str, npt.NDArray[np.generic]] = {
        "position_ids": place.astype(np.int32),
        "segment_ids": np.repeat(number, lengths).astype(np.int32),
    }
    if "modality_ids" in schema.names:
        filled["modality_ids"] = np.concatenate([*modalities, np.empty(0, np.int8)])
    columns = {}
    for name, values in filled.items():
        slots = np.zeros(num * capacity, values.dtype)
        slots[slot] = values
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(slots), capacity)
    return columns


def unpack(sequences: pa.Table) -> pa.Table:
    """The frames of packed sequences, one row each, in the order in which they lie there.

    Returns:
        `source`, `item_id` and `frame_index`, and each feature that was put in, with its values to
        the bit.
    """
    segments = pa.concat_arrays(
        [chunk.flatten() for chunk in sequences["segments"].chunks] or [pa.array([], SEGMENT)]
    )
    num_frames = segments.field("num_frames").to_numpy()
    owner = np.repeat(np.arange(len(num_frames)), num_frames)
    ends = np.cumsum(num_frames)
    place = np.arange(len(owner)) - np.repeat(ends - num_frames, num_frames)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "source": segments.field("source").take(pa.array(owner)),
        "item_id": segments.field("item_id").take(pa.array(owner)),
        "frame_index": pa.array(segments.field("start").to_numpy()[owner] + place),
    }
    for field in sequences.schema:
        if field.name not in PACKED_COLUMNS:
            flat = [chunk.flatten() for chunk in sequences[field.name].chunks]
            columns[feature_of(field.name)] = pa.chunked_array(flat, field.type.value_type)
    return pa.table(columns)
