"""The key columns of utterances: all that splitting and checking need; no audio is read."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datalake.errors import InputError, SchemaError
from datalake.lake import Selection
from datalake.schema import BONAFIDE, SPOOF
from datalake.tables import Table

__all__ = ["KEYS", "is_bonafide", "read_keys", "texts", "with_weights"]

KEYS: Final = ("utt_id", "label", "domain", "source", "generator", "speaker_id", "sha256")
"""The columns read, besides `row_index`. All but the first three may be missing from a table."""

_REQUIRED: Final = KEYS[:3]


def read_keys(
    table: Table, *, where: str | None = None, selection: Selection | None = None
) -> pa.Table:
    """The keys of the labelled rows, in the order of the table.

    Args:
        table: the version that is read; for a selection the one it was made from.
        where: keep only rows for which this holds.
        selection: keep only its rows.

    Returns:
        `row_index` (uint64) and the columns `KEYS`, strings; a column that the table does not have
        is null throughout. Rows whose label is neither `bonafide` nor `spoof` are left out.

    Raises:
        SchemaError: the table has no utt_id, label or domain.
        PredicateError: `where` does not parse.
    """
    present = [name for name in KEYS if name in table.schema.names]
    if missing := [name for name in _REQUIRED if name not in present]:
        raise SchemaError(
            "The table has no columns to judge a detector by",
            where=table.uri,
            expected=", ".join(_REQUIRED),
            found=f"no {', '.join(missing)}",
        )
    labelled = f"label IN ('{BONAFIDE}', '{SPOOF}') AND domain IS NOT NULL"
    predicate = f"({where}) AND {labelled}" if where else labelled
    keys = table.scan(present, where=predicate, with_row_index=True).read_all()
    if selection is not None:
        chosen = np.isin(keys["row_index"].to_numpy(), selection.rows["row_index"].to_numpy())
        keys = keys.filter(pa.array(chosen))
    for name in KEYS:
        if name not in present:
            keys = keys.append_column(name, pa.nulls(keys.num_rows, pa.string()))
    return keys.select(["row_index", *KEYS])


def with_weights(keys: pa.Table, selection: Selection) -> pa.Table:
    """The rows of `keys` that a Weight selection draws, with a column `weight` (float64).

    Rows that the selection does not have, or has with a weight of 0, are left out: they are never
    drawn.

    Args:
        keys: rows of the version that the selection was made from, as `read_keys` gives them.
        selection: whose weights.

    Raises:
        InputError: nothing is left.
    """
    indices = selection.rows["row_index"].to_numpy()
    order = np.argsort(indices, kind="stable")
    rows = keys["row_index"].to_numpy()
    places = np.searchsorted(indices, rows, sorter=order)
    found = np.take(order, places, mode="clip") if len(order) else np.empty(0, np.int64)
    weights = np.zeros(len(rows))
    if len(order):
        same = indices[found] == rows
        weights[same] = selection.rows["weight"].to_numpy()[found[same]]
    if not (weights > 0).any():
        raise InputError(
            "The weights are of other rows than those to train on",
            where=selection.name,
            found=f"{len(order):,} weighted rows and {len(rows):,} to train on, none in common",
        )
    drawn = pa.array(weights > 0)
    return keys.append_column("weight", pa.array(weights)).filter(drawn)


def is_bonafide(keys: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows are bona fide, shape (num_rows,)."""
    return np.asarray(pc.equal(keys["label"], BONAFIDE))


def texts(keys: pa.Table, column: str) -> list[str | None]:
    """A column as Python strings."""
    values: list[str | None] = keys[column].to_pylist()
    return values
