"""Decoded clips kept for the next epochs, which then run at the speed of memory.

What is kept is the part of the work that is the same in every epoch: the whole clip, mono, at the
rate wanted, float32 (resampled samples and those of lossy formats fit in nothing smaller without
loss). Each clip has a slot of the block cache, whose size follows from the table's columns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from datalake.audio import BadAudio
from datalake.blocks.cache import BlockCache, Key
from datalake.blocks.reader import TableReader
from datalake.blocks.slots import Slots, open_slots
from datalake.errors import InputError
from datalake.loader.order.order import Indices
from datalake.loader.sources.clips import Samples
from datalake.loader.sources.cutting import Cutting
from datalake.loader.sources.due import Due
from datalake.tables.mapped import Bytes
from datalake.telemetry import Meter

__all__ = ["Keep", "KeptClips"]

Keep: TypeAlias = Literal["encoded", "decoded"]
"""What is kept of a clip between epochs: its bytes, or its samples too."""

_SAMPLE_BYTES: Final = 4
# A power of two. A file of slots of clips of 3 s has 50 MB.
_RUN_ROWS: Final = 256
# Runs that are open keep their files from being evicted.
_SHARE_OPEN: Final = 2
_MOST_OPEN: Final = 4096


@dataclass(frozen=True)
class _Run:
    """Consecutive rows of a table."""

    slots: Slots
    sizes: list[int]
    """Bytes of each clip; 0 for clips that are not kept."""
    num_bytes: int


class KeptClips:
    """Decoded clips of one table by row. Thread-safe and picklable.

    Clips that are plain (16-bit PCM of one channel at the rate wanted, by the table's columns) are
    not kept, as reading them in place is quicker; nor are those whose duration the table does not
    tell, or tells wrong.

    Args:
        reader: of the table.
        cache: where the slots are.
        cutting: the rate wanted.

    Raises:
        InputError: the table does not tell durations, or lives in this process alone.
    """

    def __init__(self, reader: TableReader, cache: BlockCache, cutting: Cutting) -> None:
        self._reader, self._cache, self._cutting = reader, cache, cutting
        self._columns = _columns(reader)
        table = reader.table
        if not table.capabilities.survives_process:
            raise InputError(
                "Decoded clips of a table in memory cannot be kept",
                where=table.uri,
                found=f"the format {table.format}: another table may have this name tomorrow",
                fix="Leave keep='decoded' out",
            )
        # A table may lie where another one of the same version lay before.
        made = f"{table.num_bytes()} bytes, {table.fingerprint()}"
        self._recipe = f"float32 mono {cutting.sample_rate_hz} Hz of {reader.num_rows} rows, {made}"
        self._meter = Meter()
        self._runs: OrderedDict[int, _Run | None] = OrderedDict()
        self._num_bytes = 0
        self._most_bytes: int | None = None
        # A stream is done with blocks of audio, of which a run has several.
        self._piece_rows = min(reader.block_rows("audio"), _RUN_ROWS)
        self._due = Due(-(-reader.num_rows // self._piece_rows))

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptClips, (self._reader, self._cache, self._cutting)

    def view(self, reader: TableReader) -> KeptClips:
        """The same clips, counted for another stream, which has a reader of its own."""
        return KeptClips(reader, self._cache, self._cutting)

    def attach(self, meter: Meter) -> None:
        """Count into this meter from now on: `decoded_hits`, `decoded_misses`, and the cache's."""
        self._meter = meter

    def find(self, rows: Indices) -> dict[int, Samples]:
        """The clips that are at hand, by their place among the rows; valid as long as they are
        referenced."""
        found, num_missed = self._look(rows)
        if found:
            self._meter.count("decoded_hits", len(found))
        if num_missed:
            self._meter.count("decoded_misses", num_missed)
        return found

    def _look(self, rows: Indices) -> tuple[dict[int, Samples], int]:
        """Clips that are at hand, and how many others should be."""
        found: dict[int, Samples] = {}
        num_missed = 0
        for place, row in enumerate(rows.tolist()):
            run = self._run(row // _RUN_ROWS)
            if run is None or not run.sizes[row % _RUN_ROWS]:
                continue
            clip = run.slots.get(row % _RUN_ROWS)
            if clip is None:
                num_missed += 1
            else:
                found[place] = clip.view(np.float32)
        return found, num_missed

    def add(
        self, rows: Indices, files: Sequence[Bytes | None], decoded: dict[int, Samples]
    ) -> None:
        """Decode the clips that are to be kept and are not yet, and put them beside the others.

        Clips that cannot be decoded are left out: who cuts them will say so.

        Args:
            rows: (n,).
            files: their encoded bytes.
            decoded: what `find` gave; gets the new clips.
        """
        for place, row in enumerate(rows.tolist()):
            run = self._run(row // _RUN_ROWS)
            if place in decoded or run is None or not run.sizes[row % _RUN_ROWS]:
                continue
            try:
                clip = self._cutting.open(files[place])
                samples = np.empty(clip.num_samples, np.float32)
                clip.write(samples, 0)
            except BadAudio:
                continue
            decoded[place] = samples
            if samples.nbytes != run.sizes[row % _RUN_ROWS]:
                self._meter.count("decoded_of_other_length")
            elif run.slots.put(row % _RUN_ROWS, samples.view(np.uint8)):
                # The mapped copy, so that a batch of long clips takes no memory.
                kept = run.slots.get(row % _RUN_ROWS)
                decoded[place] = samples if kept is None else kept.view(np.float32)

    def missing(self, rows: Indices) -> Indices:
        """Those of the rows whose encoded bytes are still needed."""
        kept, _ = self._look(rows)
        return rows[[place for place in range(len(rows)) if place not in kept]]

    def expect(self, rows: Indices, in_s: float) -> None:
        """The clips of these rows are done with, and wanted again in about so many seconds.

        So are runs, each once all of the blocks in it are: of which all rows are given.
        """
        size, num_rows = self._piece_rows, self._reader.num_rows
        pieces, counts = np.unique(np.unique(rows) // size, return_counts=True)
        whole = pieces[counts == np.minimum((pieces + 1) * size, num_rows) - pieces * size]
        self._due.tell(whole, in_s)
        for number in np.unique(whole * size // _RUN_ROWS).tolist():
            if self._runs.get(number) is None:
                continue
            key = self._key(number)
            due_s = self._due.of(key.first // size, -(-key.stop // size))
            if due_s is not None:
                self._cache.expect(key, due_s)

    def _key(self, number: int) -> Key:
        first = number * _RUN_ROWS
        stop = min(first + _RUN_ROWS, self._reader.num_rows)
        table = self._reader.table
        return Key(table.uri, table.version, "audio", first, stop, self._recipe)

    def _run(self, number: int) -> _Run | None:
        # No lock, which a fork could leave locked: two threads may open a run at a time.
        try:
            run = self._runs[number]
        except KeyError:
            opened = self._open(number)
            run = self._runs.setdefault(number, opened)
            if run is opened and run is not None:
                self._num_bytes += run.num_bytes
                self._let_go()
            return run
        with suppress(KeyError):  # Another thread let it go; ours it still is.
            self._runs.move_to_end(number)
        return run

    def _open(self, number: int) -> _Run | None:
        key = self._key(number)
        sizes = self._sizes(np.arange(key.first, key.stop))
        if not sizes.any():
            return None
        slots = open_slots(self._cache, key, sizes, meter=self._meter)
        return _Run(slots, sizes.tolist(), int(sizes.sum()))

    def _let_go(self) -> None:
        if self._most_bytes is None:
            self._most_bytes = _budget_bytes(self._cache) // _SHARE_OPEN
        most_bytes = self._most_bytes
        while len(self._runs) > _MOST_OPEN or (
            self._num_bytes > most_bytes and len(self._runs) > 1
        ):
            try:
                _, run = self._runs.popitem(last=False)
            except KeyError:
                return
            self._num_bytes -= 0 if run is None else run.num_bytes

    def _sizes(self, rows: Indices) -> Indices:
        """Bytes of each decoded clip, (n,); 0 for those that are not kept."""
        reader, rate_hz = self._reader, self._cutting.sample_rate_hz
        durations_s = reader.numbers("duration_s", rows, fill=0).astype(np.float64)
        rates_hz = reader.numbers("sample_rate_hz", rows, fill=0).astype(np.int64)
        known = (durations_s > 0) & np.isfinite(durations_s) & (rates_hz > 0)
        lengths = np.rint(np.where(known, durations_s, 0) * rates_hz).astype(np.int64)
        # As many as the resampler makes: the nearest number, halves up.
        divisor = np.where(known, 2 * rates_hz, 1)
        lengths = (2 * lengths * rate_hz + rates_hz) // divisor
        kept = known & ~self._plain(rows, rates_hz)
        return np.where(kept, lengths * _SAMPLE_BYTES, 0)

    def _plain(self, rows: Indices, rates_hz: Indices) -> Any:
        """Which rows need no decoding, as far as the table tells, (n,)."""
        if not {"codec", "num_channels"} <= self._columns.keys():
            return np.zeros(len(rows), np.bool_)
        codecs, names = self._reader.codes("codec", rows)
        is_pcm = codecs == (names.index("pcm_s16le") if "pcm_s16le" in names else -2)
        is_mono = self._reader.numbers("num_channels", rows, fill=0) == 1
        return is_pcm & is_mono & (rates_hz == self._cutting.sample_rate_hz)


def _budget_bytes(cache: BlockCache) -> int:
    try:
        return cache.budget_bytes
    except OSError:
        return 0  # It keeps nothing, and says so itself.


def _columns(reader: TableReader) -> Mapping[str, str]:
    """The table's columns and types; those needed are there.

    Raises:
        InputError: they are not.
    """
    schema = reader.table.schema
    columns = {field.name: str(field.type) for field in schema}
    lacking = [name for name in ("duration_s", "sample_rate_hz") if name not in columns]
    if lacking:
        raise InputError(
            "The table does not tell how long its decoded clips are",
            where=reader.table.uri,
            expected="the columns duration_s and sample_rate_hz",
            found=f"no {' and no '.join(lacking)}",
            fix="Leave keep='decoded' out; or ingest the corpus, which measures durations",
        )
    return columns
