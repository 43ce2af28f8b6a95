"""Publishing staged units: the driver's half of an ingest, and what a crash at each step costs.

Units are published in groups. The steps of a group, in this order:

1. Refused items are merged into the quarantine table. *Crash after it*: the rows are there before
   their part is finished; the next run writes the same rows over them.
2. New rows are committed to the table against the version that the plan has seen. *Crash before
   it*: pieces that nobody sees. *Crash after it*: the ledger does not know; the next run compares
   these parts with the table by keys and finds nothing to write.
3. Changed rows are merged by utt_id. *Crash before it*: their stamps still differ, so they are read
   again. An upsert may be repeated.
4. For parts whose last unit this was: quarantine rows that no longer hold are removed. *Crash
   before or after it*: the part is compared once more, with the same outcome.
5. These parts are entered in the ledger. *Crash before it*: a comparison, as after step 2.

A worker that dies has published nothing; its unit is staged again.

Another writer may be faster. If it wrote none of the group's ids, the same pieces are committed on
top of its version. If it did (a second ingest of the same corpus), the group is dropped, and the
plan is made anew from what the table then holds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from datalake.errors import ConflictError
from datalake.lake import Lineage
from datalake.pipelines.conflicts import MAX_ATTEMPTS, until_landed
from datalake.pipelines.ledger import Finished, Ledger
from datalake.pipelines.plan import Plan
from datalake.pipelines.refusals import Quarantine
from datalake.pipelines.refused import Refused
from datalake.pipelines.report import RunReport
from datalake.pipelines.stage import StagedUnit
from datalake.pipelines.units import read_unit
from datalake.tables import Table
from datalake.uri import Location

__all__ = ["OvertakenError", "Publisher"]

_GROUP_BYTES: Final = 8 << 30
_GROUP_UNITS: Final = 4096
_GROUP_REPLACED_BYTES: Final = 256 << 20


class OvertakenError(ConflictError):
    """Another writer wrote rows of this corpus meanwhile: the plan is out of date."""


class Publisher:
    """Collects staged units and publishes them in groups."""

    def __init__(
        self,
        table: Table,
        plan: Plan,
        *,
        units: Location,
        buckets: Sequence[int],
        ledger: Ledger,
        quarantine: Quarantine | None,
        commit_every_s: float,
        lineage: Lineage,
        report: RunReport,
    ) -> None:
        self.table = table
        self._plan = plan
        self._units = units
        self._buckets = buckets
        self._ledger = ledger
        self._quarantine = quarantine
        self._commit_every_s = commit_every_s
        self._properties = lineage.properties()
        self._run_id = lineage.run_id
        self._report = report
        self._group: list[StagedUnit] = []
        self._group_since = time.monotonic()
        num_units = Counter(buckets)
        self._left = {bucket: num_units[bucket] for bucket in plan.parts}
        self._added: Counter[int] = Counter()

    def add(self, unit: StagedUnit) -> None:
        """Take a staged unit; publish the group if it is large or old enough."""
        self._group.append(unit)
        if (
            len(self._group) >= _GROUP_UNITS
            or time.monotonic() - self._group_since >= self._commit_every_s
            or sum(unit.num_bytes for unit in self._group) >= _GROUP_BYTES
            or sum(unit.num_bytes for unit in self._group if unit.replacing)
            >= _GROUP_REPLACED_BYTES
        ):
            self.publish()

    def publish(self) -> None:
        """Publish what has been taken so far.

        Raises:
            OvertakenError: another writer wrote some of these rows.
            StoreError: the store refused.
        """
        group = sorted(self._group, key=lambda unit: unit.index)
        self._quarantine_refused(group)
        self._append(group)
        self._replace(group)
        self._finish_parts(group)
        self._count(group)
        self._group = []
        self._group_since = time.monotonic()

    def _bucket(self, unit: StagedUnit) -> int:
        return self._buckets[unit.index]

    def _quarantine_refused(self, group: Sequence[StagedUnit]) -> None:
        if self._quarantine is None:
            return
        refused: dict[str, list[Refused]] = {}
        for unit in group:
            part_id = self._plan.parts[self._bucket(unit)].part_id
            refused.setdefault(part_id, []).extend(unit.refused)
        self._quarantine.put(refused)

    def _append(self, group: Sequence[StagedUnit]) -> None:
        pieces = [piece for unit in group for piece in unit.added]
        if not pieces:
            return
        for _ in range(MAX_ATTEMPTS):
            try:
                self.table = self.table.commit(
                    pieces, expected_version=self.table.version, properties=self._properties
                )
            except ConflictError as error:
                latest = self.table.at()
                if latest.schema != self.table.schema or self._holds_any(latest, group):
                    raise OvertakenError(
                        "Another writer is ingesting the same corpus",
                        where=self.table.uri,
                        fix="Run the same command again when the other run is over",
                    ) from error
                self.table = latest
            else:
                return
        raise ConflictError(
            "Other writers were faster every time",
            where=self.table.uri,
            found=f"{MAX_ATTEMPTS} commits that came between",
            fix="Run the same command again: it goes on where it stopped",
        )

    def _holds_any(self, table: Table, group: Sequence[StagedUnit]) -> bool:
        """Whether the table has rows with ids of the group's new items."""
        items = [read_unit(self._units, unit.index) for unit in group]
        new = [batch.filter(pc.equal(batch.column("action"), "add")) for batch in items]
        ids = pa.chunked_array([batch.column("utt_id") for batch in new], pa.string())
        return any(
            pc.any(pc.is_in(batch.column(0), value_set=ids)).as_py()
            for batch in table.scan(["utt_id"])
        )

    def _replace(self, group: Sequence[StagedUnit]) -> None:
        places = [unit.replacing for unit in group if unit.replacing is not None]
        if not places:
            return

        def merge() -> Table:
            latest = self.table.at()
            rows = pa.RecordBatchReader.from_batches(latest.schema, _streams(places))
            return latest.merge(rows, "utt_id", properties=self._properties)

        self.table = until_landed(merge)

    def _finish_parts(self, group: Sequence[StagedUnit]) -> None:
        for unit in group:
            bucket = self._bucket(unit)
            self._left[bucket] -= 1
            self._added[bucket] += unit.num_added
        finished: dict[str, Finished] = {}
        for bucket in [bucket for bucket, left in self._left.items() if left == 0]:
            part = self._plan.parts[bucket]
            num_rows = part.num_held + self._added[bucket]
            finished[part.part_id] = Finished(part.fingerprint, num_rows)
            del self._left[bucket]
        if not finished:
            return
        if self._quarantine is not None:
            self._quarantine.resolve(finished)
        self._ledger.enter(finished, run_id=self._run_id, properties=self._properties)

    def _count(self, group: Sequence[StagedUnit]) -> None:
        report = self._report
        for unit in group:
            report.num_added += unit.num_added
            report.num_replaced += unit.num_replaced
            report.num_unchanged += unit.num_unchanged
            report.num_bytes += unit.num_bytes
            report.refused.update(item.reason for item in unit.refused)
        report.version_after = self.table.version


def _streams(places: Sequence[Location]) -> Iterator[pa.RecordBatch]:
    for place in places:
        filesystem, path = place.filesystem()
        with filesystem.open(path, "rb") as source, pa.ipc.open_stream(source) as batches:
            yield from batches
