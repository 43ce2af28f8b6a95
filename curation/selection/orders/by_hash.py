"""The hash of a row's id alone: the first rows of a domain are a random sample of it."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from curation.selection.orders.order import OrderOptions

__all__ = ["HASH"]


class HashOrder:
    """SOURCE of the cap, arXiv 2512.18210; OURS that the hash decides. A `RowOrder`."""

    uses: frozenset[str] = frozenset()

    def reads(self, schema: pa.Schema, options: OrderOptions) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing."""
        return ()

    def keys(self, rows: pa.RecordBatch, options: OrderOptions) -> pa.Array:  # noqa: ARG002
        """All rows are equal, so the hash decides."""
        return pa.nulls(rows.num_rows, pa.float64())


HASH: Final = HashOrder()
