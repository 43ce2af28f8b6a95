"""What embedders give: vectors of some rows, and why others have none."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Vectors", "embedding_field"]

Vector = npt.NDArray[np.floating]


def embedding_field(name: str, size: int, settings: Mapping[str, object]) -> pa.Field:
    """The field of an embedding: `fixed_size_list<float32>[size]`.

    Field metadata say what made it: `datalake.embedder` is the embedder's name,
    `datalake.embedding` its settings as JSON. Vectors of two columns may be compared where these
    are equal.
    """
    metadata = {
        "datalake.embedder": str(settings["embedder"]),
        "datalake.embedding": json.dumps(dict(settings), sort_keys=True),
    }
    return pa.field(name, pa.list_(pa.float32(), size), metadata=metadata)


class Vectors:
    """Collects the vectors of rows in their order.

    Args:
        field: what `embedding_field` gave.
    """

    def __init__(self, field: pa.Field) -> None:
        self._field = field
        self._rows: list[Vector | None] = []
        self._errors: list[str | None] = []

    def add(self, vector: Vector) -> None:
        """The next row has this vector, (size,). One that is not finite is no embedding."""
        if np.isfinite(vector).all():
            self._rows.append(vector)
            self._errors.append(None)
        else:
            self.fail("the embedding is not finite")

    def fail(self, reason: str) -> None:
        """The next row has none, for this reason."""
        self._rows.append(None)
        self._errors.append(reason)

    def table(self) -> pa.Table:
        """The rows: the embedding, and `error`."""
        size = self._field.type.list_size
        flat = np.zeros((len(self._rows), size), np.float32)
        for row, vector in enumerate(self._rows):
            if vector is not None:
                flat[row] = vector
        column = pa.FixedSizeListArray.from_arrays(
            pa.array(flat.ravel()),
            size,
            mask=pa.array([vector is None for vector in self._rows], pa.bool_()),
        )
        errors = pa.array(self._errors, pa.string())
        return pa.Table.from_arrays(
            [column, errors], schema=pa.schema([self._field, pa.field("error", pa.string())])
        )
