"""The ledger of a table: one row a finished part, so that a rerun does not look at it again.

It only saves work; the table is the truth. A ledger that lags behind costs a comparison.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from datalake.lake import Lake
from datalake.tables import Table

__all__ = ["LEDGER", "Finished", "Ledger"]

LEDGER: Final = pa.schema(
    [
        pa.field("part_id", pa.string(), nullable=False),
        pa.field("corpus", pa.string(), nullable=False),
        # Of the part's files, protocol rows and the options that matter.
        pa.field("fingerprint", pa.string(), nullable=False),
        # Rows of the part that the table held when the part was finished.
        pa.field("num_rows", pa.int64(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("finished_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)


@dataclass(frozen=True)
class Finished:
    """A finished part: what it was made of, and how many rows the table then held of it."""

    fingerprint: str
    num_rows: int


class Ledger:
    """The ledger of one table, as far as it is about one corpus."""

    def __init__(self, lake: Lake, table_name: str, corpus: str) -> None:
        self._lake = lake
        self._table_name = table_name
        self._corpus = corpus

    def _open(self) -> Table:
        return self._lake.internal("ledgers", self._table_name, LEDGER)

    def read(self) -> dict[str, Finished]:
        """The finished parts, by part id. Makes nothing."""
        if self._table_name not in self._lake:
            return {}
        columns = ["corpus", "part_id", "fingerprint", "num_rows"]
        return {
            part_id: Finished(fingerprint, num_rows)
            for batch in self._open().scan(columns)
            for corpus, part_id, fingerprint, num_rows in zip(
                *(column.to_pylist() for column in batch.columns), strict=True
            )
            if corpus == self._corpus
        }

    def enter(
        self, finished: Mapping[str, Finished], *, run_id: str, properties: Mapping[str, str]
    ) -> None:
        """Record finished parts; an earlier entry of a part is replaced."""
        now = dt.datetime.now(dt.UTC)
        rows = [
            (part_id, self._corpus, part.fingerprint, part.num_rows, run_id, now)
            for part_id, part in finished.items()
        ]
        columns = [
            pa.array(values, field.type)
            for values, field in zip(zip(*rows, strict=True), LEDGER, strict=True)
        ]
        self._open().merge(pa.table(columns, schema=LEDGER), "part_id", properties=properties)
