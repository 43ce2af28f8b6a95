"""Record batches of the data, for the peers that store Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["batches", "schema"]


def schema(dataset: str, *, chunks: bool = True) -> pa.Schema:
    """The columns; frames with their actions to come, or with one action (`chunks=False`)."""
    number, text, data = pa.int64(), pa.string(), pa.binary()
    if dataset == "audio":
        columns = {"idx": number, "id": text, "label": number, "generator": text, "audio": data}
    elif dataset == "records":
        columns = {"idx": number, "id": text, "label": number, "data": data}
    else:
        actions = pa.list_(pa.float32(), 14 * 16 if chunks else 14)
        columns = {
            "idx": number,
            "episode": number,
            "frame": number,
            "task": text,
            "state": pa.list_(pa.float32(), 14),
            "action": actions,
            "cam0": data,
            "cam1": data,
        }
    return pa.schema(list(columns.items()))


def batches(data: Any, columns: pa.Schema, num_rows: int = 256) -> Iterator[pa.RecordBatch]:
    """The data in record batches."""
    for begin in range(0, len(data), num_rows):
        records = [data.record(row) for row in range(begin, min(begin + num_rows, len(data)))]
        arrays = []
        for field in columns:
            values = [record[field.name] for record in records]
            if pa.types.is_fixed_size_list(field.type):
                size = field.type.list_size
                flat = np.stack([value.reshape(-1)[:size] for value in values]).reshape(-1)
                arrays.append(pa.FixedSizeListArray.from_arrays(pa.array(flat), size))
            else:
                arrays.append(pa.array(values, field.type))
        yield pa.record_batch(arrays, schema=columns)
