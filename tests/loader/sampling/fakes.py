"""A source that only counts rows, and selections of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from datalake.lake import SELECTION_ROWS, Selection


class Counted:
    """The pure side of a source: numbers of rows, names and versions."""

    kind = "counted"

    def __init__(self, num_rows: int, uri: str = "memory://a", block_rows: int = 8) -> None:
        self.num_rows = num_rows
        self.block_rows = block_rows
        self.uri = uri

    def view(self) -> Counted:
        return Counted(self.num_rows, self.uri, self.block_rows)

    def identity(self) -> Mapping[str, str | int]:
        return {"table": self.uri, "table_version": 3}

    def ids(self, rows: Any) -> list[str]:
        return [f"u{row}" for row in rows.tolist()]

    def domains(self, rows: Any) -> list[str | None]:
        raise NotImplementedError

    attach = read = prefetch = expect = costs = prepare_fork = domains


def selection(
    rows: Sequence[int],
    domains: Sequence[str],
    weights: Sequence[float] | None = None,
    version: int = 3,
) -> Selection:
    table = pa.table(
        {
            "row_index": pa.array(rows, pa.uint64()),
            "utt_id": [f"u{row}" for row in rows],
            "domain": pa.array(domains, pa.string()),
            "rank": pa.array(range(len(rows)), pa.uint64()),
            "weight": pa.array(weights or [1.0] * len(rows), pa.float64()),
        },
        schema=SELECTION_ROWS,
    )
    return Selection("chosen", "a", version, table, pa.table({}), "test", {})


def stream(sampler: Any, num_epochs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sources, rows and visits of whole epochs, one after another."""
    picks = [sampler.picks(epoch, np.arange(sampler.num_examples)) for epoch in range(num_epochs)]
    return tuple(  # type: ignore[return-value]
        np.concatenate([getattr(one, name) for one in picks])
        for name in ("sources", "rows", "visits")
    )
