"""Tables with a column of every kind that is read by row, nulls among the values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from datalake.schema import media_field
from datalake.tables import create_table
from datalake.tables.protocol import Table
from datalake.uri import Location

SCHEMA = pa.schema(
    [
        pa.field("whole", pa.int64()),
        pa.field("small", pa.int16()),
        pa.field("real", pa.float64()),
        pa.field("half", pa.float32()),
        pa.field("flag", pa.bool_()),
        pa.field("vector", pa.list_(pa.float32(), 3)),
        pa.field("cell", pa.list_(pa.int32(), 2)),
        pa.field("utt_id", pa.string(), nullable=False),
        pa.field("label", pa.string()),
        media_field("audio", "audio"),
        pa.field("raw", pa.binary()),
    ]
)
NUMBERS = ("whole", "small", "real", "half", "flag", "vector", "cell")


def rows(count: int, *, seed: int = 0, nulls: bool = True, media_bytes: int = 40) -> pa.Table:
    """Rows whose values follow from seed and row."""
    rng = np.random.default_rng(seed)

    def holes() -> np.ndarray | None:
        return rng.random(count) < 0.2 if nulls else None

    def lists(values: np.ndarray, kind: pa.DataType) -> pa.Array:
        gone = holes()
        flat = pa.array(values.ravel())
        mask = None if gone is None else pa.array(gone)
        return pa.FixedSizeListArray.from_arrays(flat, type=kind, mask=mask)

    gone = holes()
    labels = np.array(["bonafide", "spoof", "ünklar"], dtype=object)[rng.integers(0, 3, count)]
    media = [rng.bytes(int(n)) for n in rng.integers(0, 2 * media_bytes + 1, count)]
    return pa.table(
        [
            pa.array(rng.integers(-(2**62), 2**62, count), mask=holes()),
            pa.array(rng.integers(-100, 100, count).astype(np.int16), mask=holes()),
            pa.array(rng.random(count), mask=holes()),
            pa.array(rng.random(count, dtype=np.float32), mask=holes()),
            pa.array(rng.random(count) < 0.5, mask=holes()),
            lists(rng.random((count, 3), dtype=np.float32), SCHEMA.field("vector").type),
            lists(rng.integers(0, 9, (count, 2), np.int32), SCHEMA.field("cell").type),
            pa.array([f"made/{seed}/{row:06d}" for row in range(count)], pa.string()),
            pa.array(labels, pa.string(), mask=gone),
            pa.array(media, pa.large_binary(), mask=holes()),
            pa.array([value[::-1] for value in media], pa.binary(), mask=holes()),
        ],
        schema=SCHEMA,
    )


def table(where: str | Location, data: pa.Table, *, table_format: str, pieces: int = 1) -> Table:
    """A table of these rows, written in so many appends."""
    made = create_table(where, data.schema, format=table_format)
    size = -(-data.num_rows // pieces) if data.num_rows else 1
    for start in range(0, data.num_rows, size):
        made = made.append(data.slice(start, size))
    return made
