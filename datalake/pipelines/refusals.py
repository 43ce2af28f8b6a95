"""The quarantine table of an ingest: refused items while they stand refused."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from datalake.lake import Lake, Lineage
from datalake.pipelines.conflicts import until_landed
from datalake.pipelines.part_ids import count_by_part
from datalake.pipelines.refused import Refused
from datalake.quarantine import QUARANTINE_SUFFIX
from datalake.schema import QUARANTINE

__all__ = ["Quarantine"]


class Quarantine:
    """`<table>.quarantine`, as far as it is about one corpus.

    A row is known by part, path and reason, so writing it again changes nothing. When a part is
    finished, the rows that this run did not write are about faults that are mended: they go.
    """

    def __init__(
        self,
        lake: Lake,
        table_name: str,
        corpus: str,
        *,
        format: str,  # noqa: A002 - the word everybody uses
        lineage: Lineage,
    ) -> None:
        self._lake = lake
        self._name = table_name + QUARANTINE_SUFFIX
        self._corpus = corpus
        self._format = format
        self._lineage = lineage
        self._before = frozenset(self._count())

    def _count(self) -> Counter[str]:
        """The number of rows of each part of the corpus."""
        if self._name not in self._lake:
            return Counter()
        return count_by_part(self._lake[self._name].scan(["part_id"]), self._corpus)

    def num_rows(self) -> int:
        """Rows of the corpus that stand refused."""
        return self._count().total()

    def put(self, refused: Mapping[str, Iterable[Refused]]) -> None:
        """Write refused items, by part id."""
        now = dt.datetime.now(dt.UTC)
        rows: dict[tuple[str, str, str], Refused] = {}
        repeats: Counter[tuple[str, str, str]] = Counter()
        for part_id, items in refused.items():
            for item in items:
                key = (part_id, item.path, item.reason)
                rows.setdefault(key, item)
                repeats[key] += 1
        if not rows:
            return
        if self._name not in self._lake:
            self._lake.create(self._name, QUARANTINE, format=self._format, lineage=self._lineage)
        data = pa.Table.from_pylist(
            [
                {
                    "part_id": part_id,
                    "path": path,
                    "utt_id": item.utt_id,
                    "reason": reason,
                    "detail": item.detail
                    + (f" ({repeats[key]} rows alike)" if repeats[key] > 1 else ""),
                    "run_id": self._lineage.run_id,
                    "created_at": now,
                }
                for key, item in rows.items()
                for part_id, path, reason in [key]
            ],
            schema=QUARANTINE,
        )
        properties = self._lineage.properties()
        until_landed(
            lambda: self._lake[self._name].merge(
                data, ["part_id", "path", "reason"], properties=properties
            )
        )

    def resolve(self, finished: Iterable[str]) -> None:
        """Remove what earlier runs wrote of these parts and this run did not."""
        stale = sorted(self._before.intersection(finished))
        if not stale:
            return
        among = ", ".join("'" + part_id.replace("'", "''") + "'" for part_id in stale)
        where = f"part_id IN ({among}) AND run_id <> '{self._lineage.run_id}'"
        properties = self._lineage.properties()
        until_landed(lambda: self._lake[self._name].delete(where, properties=properties))
