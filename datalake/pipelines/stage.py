"""What a worker does with a unit: read the files, look into them, and stage rows that nobody sees.

Memory: a batch of rows (8 MiB and one file), its copy in the table's writer, and what is fetched
ahead (32 MiB, of remote corpora only), whatever the number and the size of the files.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

import pyarrow as pa

from datalake import audio
from datalake.audio import AudioInfo, BadAudio
from datalake.pipelines.files import read_files
from datalake.pipelines.refused import Refused
from datalake.pipelines.settings import Settings
from datalake.pipelines.units import ACTIONS, read_unit
from datalake.quarantine import Reason, Refusal
from datalake.tables import Piece, Stager
from datalake.uri import Location

__all__ = ["StageJob", "StagedUnit", "stage_unit"]

_BATCH_BYTES: Final = 8 << 20
_BATCH_ROWS: Final = 1024


@dataclass(frozen=True)
class StageJob:
    """What all units of an ingest share. Picklable and small."""

    root: Location
    """What paths are relative to."""
    units: Location
    """The file of units."""
    workspace: Location
    """The folder for rows that replace others."""
    stager: Stager
    schema: pa.Schema
    """Of the table."""
    settings: Settings

    def stage(self, index: int) -> StagedUnit:
        """Read the files of a unit and stage its rows."""
        return stage_unit(self, index)


@dataclass
class StagedUnit:
    """What became of a unit. Picklable and small: rows travel by way of the store."""

    index: int
    added: list[Piece] = field(default_factory=list)
    replacing: Location | None = None
    """An Arrow IPC stream of rows that replace those of the same utt_id."""
    num_added: int = 0
    num_replaced: int = 0
    num_unchanged: int = 0
    refused: list[Refused] = field(default_factory=list)
    num_bytes: int = 0
    """Bytes of the files that were read."""

    @property
    def num_items(self) -> int:
        """Items that are dealt with."""
        return self.num_added + self.num_replaced + self.num_unchanged + len(self.refused)


class _Row(NamedTuple):
    """What its file adds to what the protocol says of an item."""

    item: int
    """The item's index in its unit."""
    info: AudioInfo
    sha256: str
    audio: bytes


def stage_unit(job: StageJob, index: int) -> StagedUnit:
    """Read the files of unit `index` and stage its rows. Publishes nothing.

    Raises:
        StoreError: the store refused to give or to take.
    """
    return _Staging(job, index).run()


class _Staging:
    def __init__(self, job: StageJob, index: int) -> None:
        self._job = job
        self._items = read_unit(job.units, index)
        self._paths: list[str] = self._items.column("path").to_pylist()
        self._result = StagedUnit(index)

    def run(self) -> StagedUnit:
        by_action: dict[str, list[int]] = {action: [] for action in ACTIONS}
        for item, action in enumerate(self._items.column("action").to_pylist()):
            by_action[action].append(item)
        self._refuse_known(by_action["refuse"])
        result = self._result
        result.added = self._job.stager.write(self._batches(self._rows(by_action["add"])))
        result.num_added = sum(piece.num_rows for piece in result.added)
        again = chain(
            self._rows(by_action["replace"]), self._rows(by_action["check"], unless_same=True)
        )
        self._write_replacing(self._batches(again))
        return result

    def _refuse_known(self, items: Sequence[int]) -> None:
        known = self._select(["refused", "detail", "origin"], items)
        for item, row in zip(items, known.to_pylist(), strict=True):
            detail = "; ".join(text for text in (row["detail"], row["origin"]) if text)
            self._refuse(item, row["refused"], detail)

    def _select(self, columns: Sequence[str], items: Sequence[int]) -> pa.RecordBatch:
        return self._items.select(columns).take(pa.array(items, pa.int64()))

    def _refuse(self, item: int, reason: str, detail: str) -> None:
        utt_id = self._items.column("utt_id")[item].as_py()
        self._result.refused.append(Refused(self._paths[item], utt_id, str(reason), detail))

    def _rows(self, items: Sequence[int], *, unless_same: bool = False) -> Iterator[_Row]:
        """The items that turn out good, in order; the others are refused.

        Args:
            items: their indices in the unit.
            unless_same: leave out items whose bytes are those the table holds.
        """
        facts = self._select(["size_bytes", "known_sha256"], items)
        sizes, known = (column.to_pylist() for column in facts.columns)
        wanted = zip((self._paths[item] for item in items), sizes, strict=True)
        for item, data, held in zip(items, read_files(self._job.root, wanted), known, strict=True):
            if isinstance(data, Refusal):
                self._refuse(item, data.reason, data.detail)
                continue
            self._result.num_bytes += len(data)
            sha256 = hashlib.sha256(data).hexdigest()
            if unless_same and sha256 == held:
                self._result.num_unchanged += 1
                continue
            try:
                info, stored = self._examine(self._paths[item], data)
            except BadAudio as error:
                self._refuse(item, error.refusal.reason, error.refusal.detail)
                continue
            yield _Row(item, info, sha256, stored)

    def _examine(self, path: str, data: bytes) -> tuple[AudioInfo, bytes]:
        """Look into one file. Returns what it is, and the bytes to store, both as stored.

        Raises:
            BadAudio: the file is refused.
        """
        settings = self._job.settings
        info = audio.inspect(data, suffix=posixpath.splitext(path)[1])
        if info.duration_s < settings.min_duration_s:
            raise _out_of_bounds(Reason.TOO_SHORT, info, settings.min_duration_s)
        if info.duration_s > settings.max_duration_s:
            raise _out_of_bounds(Reason.TOO_LONG, info, settings.max_duration_s)
        if settings.transcode is not None:
            data, info = audio.transcode(data, settings.transcode)
        return info, data

    def _batches(self, rows: Iterable[_Row]) -> Iterator[pa.RecordBatch]:
        """Rows as record batches of the table's schema, bounded by bytes and by rows."""
        batch: list[_Row] = []
        num_bytes = 0
        for row in rows:
            batch.append(row)
            num_bytes += len(row.audio)
            if num_bytes >= _BATCH_BYTES or len(batch) >= _BATCH_ROWS:
                yield self._batch(batch)
                batch, num_bytes = [], 0
        if batch:
            yield self._batch(batch)

    def _batch(self, rows: Sequence[_Row]) -> pa.RecordBatch:
        said = self._items.take(pa.array([row.item for row in rows], pa.int64()))
        measured = {
            "duration_s": [row.info.duration_s for row in rows],
            "sample_rate_hz": [row.info.sample_rate_hz for row in rows],
            "num_channels": [row.info.num_channels for row in rows],
            "codec": [row.info.codec for row in rows],
            "sha256": [row.sha256 for row in rows],
            "audio": [row.audio for row in rows],
        }
        columns = []
        for column in self._job.schema:
            if column.name in measured:
                columns.append(pa.array(measured[column.name], column.type))
            elif column.name in said.schema.names:
                columns.append(said.column(column.name))
            else:
                # A protocol column of another corpus.
                columns.append(pa.nulls(len(rows), column.type))
        return pa.record_batch(columns, schema=self._job.schema)

    def _write_replacing(self, batches: Iterator[pa.RecordBatch]) -> None:
        first = next(batches, None)
        if first is None:
            return
        location = self._job.workspace.join(f"replacing-{self._result.index}.arrow")
        filesystem, path = location.filesystem()
        with filesystem.open(path, "wb") as sink, pa.ipc.new_stream(sink, first.schema) as writer:
            for batch in chain([first], batches):
                writer.write_batch(batch)
                self._result.num_replaced += batch.num_rows
        self._result.replacing = location


def _out_of_bounds(reason: Reason, info: AudioInfo, bound_s: float) -> BadAudio:
    return BadAudio.of(reason, f"{info.duration_s:.3f} s; the bound is {bound_s:g} s")
