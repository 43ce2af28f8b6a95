"""Speech: utterances of a table as clips of equal length, or one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import Final, get_args

import numpy as np
import numpy.typing as npt

from datalake.blocks.cache import BlockCache
from datalake.blocks.reader import TableReader
from datalake.errors import InputError, StoreError
from datalake.lake import Lake, Selection
from datalake.loader.order.hashing import Words
from datalake.loader.order.order import Indices
from datalake.loader.sources.clips import Crop, Layout, Pad
from datalake.loader.sources.columns import check_fork, read_list, readable
from datalake.loader.sources.cutting import Cutting
from datalake.loader.sources.durations import durations_s
from datalake.loader.sources.kept import Keep, KeptClips
from datalake.loader.sources.labels import label_numbers
from datalake.loader.sources.naming import (
    bad_rows,
    check_columns,
    chosen,
    lost_rows,
    row_domains,
    row_names,
)
from datalake.loader.sources.source import Allocate, BadRowsError, Columns, Prefetch
from datalake.tables.mapped import Bytes
from datalake.tables.protocol import Table
from datalake.telemetry import Meter

__all__ = ["UTTERANCE_KEYS", "Utterances"]

UTTERANCE_KEYS: Final = frozenset({"audio", "num_samples", "label", "row_index"})
"""What every batch holds; the columns asked for stand beside it."""

_UNITS: Final = ("examples", "seconds", "samples")
_AUDIO: Final[Mapping[str, str]] = MappingProxyType({"audio": "num_samples"})
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Utterances:
    """The utterances of a table, decoded, resampled, cropped and padded.

    Gives a batch

        audio        float32 (batch, num_samples), mono, full scale at 1; or flat: (total,)
        num_samples  int64   (batch,): samples of each, without padding
        label        int64   (batch,): 1 bona fide, 0 spoof, -1 unknown
        row_index    int64   (batch,): the row in this version of the table
        <column>     list: one value an example, for each of `columns`

    Where a random crop begins follows from the example's word alone. PCM in WAV is read where it
    lies, and FLAC from where the crop begins, if their rate is the one wanted: no other part of
    such a clip is looked at, so damage there is not found. All else is decoded whole.

    Args:
        table: a table at the version to stream.
        selection: which rows a loader takes, in which order, with which weights.
        columns: more columns to deliver, such as utt_id or domain.
        num_samples: the length of every clip; None for whole clips, padded to the batch's longest.
        sample_rate_hz: clips are resampled to it.
        crop: which part of a longer clip: `random` or its `head`.
        pad: how a shorter clip is filled: `repeat` or `zeros`.
        layout: `padded`: clips as the rows of an array; `flat`: one after the other in one array of
            as many samples as they have together, as packed sequences take them. Shorter clips
            are not filled up then.
        cache: where blocks of tables that cannot be mapped in place are kept; None for the default.
        keep: what is kept of a clip for the next epoch: its bytes, or (`decoded`) its samples too,
            of clips that take decoding or resampling: 4 bytes a sample, in `cache`.

    Raises:
        InputError: an argument is out of range or unknown.
        SchemaError: a column is not there.
    """

    def __init__(
        self,
        table: Table,
        *,
        selection: Selection | None = None,
        columns: Sequence[str] = (),
        num_samples: int | None = 64600,
        sample_rate_hz: int = 16000,
        crop: Crop = "random",
        pad: Pad = "repeat",
        layout: Layout = "padded",
        cache: BlockCache | Path | str | None = None,
        keep: Keep = "encoded",
    ) -> None:
        check_columns(table, ("audio", "label"))
        check_columns(table, columns, UTTERANCE_KEYS)
        _check_choice("crop", crop, get_args(Crop))
        _check_choice("pad", pad, get_args(Pad))
        _check_choice("layout", layout, get_args(Layout))
        _check_choice("keep", keep, get_args(Keep))
        _check_positive("num_samples", num_samples)
        _check_positive("sample_rate_hz", sample_rate_hz)
        self.table = table
        self.selection = selection
        self.columns = tuple(columns)
        self._cutting = Cutting(num_samples, sample_rate_hz, crop, pad, layout)
        store = BlockCache.shared(cache) if isinstance(cache, str | Path) else cache
        self._reader = TableReader(table, cache=store)
        self._kept = (
            KeptClips(self._reader, BlockCache.shared() if store is None else store, self._cutting)
            if keep == "decoded"
            else None
        )
        self._columns_read = readable(self._reader, ("audio", "label", *self.columns))
        self._meter = Meter()

    @classmethod
    def from_lake(
        cls,
        lake: Lake,
        name: str,
        *,
        selection: str | None = None,
        columns: Sequence[str] = (),
        num_samples: int | None = 64600,
        sample_rate_hz: int = 16000,
        crop: Crop = "random",
        pad: Pad = "repeat",
        layout: Layout = "padded",
        cache: BlockCache | Path | str | None = None,
        keep: Keep = "encoded",
    ) -> Utterances:
        """A table of a lake by name: all of its latest version, or a saved selection of it.

        The version is the one that the selection was made from, whatever was committed since.

        Raises:
            NotFoundError: there is no such table or selection.
            InputError: the selection was made from another table.
        """
        table, found = chosen(lake, name, selection)
        return cls(
            table,
            selection=found,
            columns=columns,
            num_samples=num_samples,
            sample_rate_hz=sample_rate_hz,
            crop=crop,
            pad=pad,
            layout=layout,
            cache=cache,
            keep=keep,
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        """What it reads."""
        return (self.table,)

    @property
    def num_rows(self) -> int:
        """Rows of the version."""
        return self._reader.num_rows

    @property
    def kind(self) -> str:
        """Sources of one kind give clips of one length, rate and layout beside the same columns."""
        cutting = self._cutting
        length, rate_hz = str(cutting.num_samples), str(cutting.sample_rate_hz)
        return "/".join(("utterances", length, rate_hz, cutting.layout, *self.columns))

    @property
    def flat(self) -> Mapping[str, str]:
        """The audio in the layout `flat`; see `Flat`."""
        return _AUDIO if self._cutting.layout == "flat" else _NONE

    @property
    def repeated(self) -> Mapping[str, str]:
        """Whole clips that are filled by themselves again; see `Repeated`."""
        cutting = self._cutting
        is_whole = cutting.num_samples is None and cutting.layout == "padded"
        return _AUDIO if is_whole and cutting.pad == "repeat" else _NONE

    @property
    def flat_unit(self) -> str:
        """Clips are counted in samples."""
        return "samples"

    @property
    def block_rows(self) -> int:
        """Consecutive rows whose audio comes from the store together."""
        return self._reader.block_rows("audio")

    def identity(self) -> Mapping[str, str | int]:
        """The table's uri and version."""
        return {"table": self.table.uri, "table_version": self.table.version}

    def view(self) -> Utterances:
        """The same utterances for another stream; see `Source.view`."""
        made = copy(self)
        made._reader = self._reader.view()
        made._kept = None if self._kept is None else self._kept.view(made._reader)
        made.attach(Meter())
        return made

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        self._meter = meter
        self._reader.attach(meter)
        if self._kept is not None:
            self._kept.attach(meter)

    def scatter(self, is_scattered: bool) -> None:
        """Whether rows come one here and one there; see `TableReader.scatter`."""
        self._reader.scatter(is_scattered, self._columns_read)

    def read(self, rows: Indices, words: Words, allocate: Allocate) -> Columns:
        """Clips and labels of rows.

        Raises:
            BadRowsError: some cannot be decoded, their label is unknown, or the table has lost
                them; names all of them.
            StoreError: nothing can be read.
        """
        try:
            return self._read(rows, words, allocate)
        except StoreError as error:
            raise BadRowsError(lost_rows(self._reader, self._columns_read, rows, error)) from error

    def _read(self, rows: Indices, words: Words, allocate: Allocate) -> Columns:
        decoded = {} if self._kept is None else self._kept.find(rows)
        files = self._files(rows, decoded)
        labels, refused = label_numbers(self._reader.texts("label", rows))
        with self._meter.during("decode"):
            if self._kept is not None:
                self._kept.add(rows, files, decoded)
            cut = self._cutting.cut(files, words, allocate, decoded)
        refused |= cut.refused
        if refused:
            raise BadRowsError(bad_rows(self._reader, rows, refused))
        columns: Columns = {
            "audio": cut.audio,
            "num_samples": cut.lengths,
            "label": labels,
            "row_index": rows.copy(),
        }
        for name in self.columns:
            columns[name] = read_list(self._reader, name, rows)
        return columns

    def prefetch(self, rows: Indices) -> Prefetch:
        """Begin to bring the rows near; returns at once, but see `reads_to_prefetch`."""
        if self._kept is None:
            return self._reader.prefetch(self._columns_read, rows)
        narrow = [name for name in self._columns_read if name != "audio"]
        return _Both(
            self._reader.prefetch(["audio"], self._kept.missing(rows)),
            self._reader.prefetch(narrow, rows),
        )

    @property
    def reads_to_prefetch(self) -> bool:
        """Whether `prefetch` may wait for the table: it asks how long decoded clips are."""
        return self._kept is not None

    def expect(self, rows: Indices, in_s: float) -> None:
        """The blocks of these rows are done with, and wanted again in about so many seconds."""
        self._reader.expect(self._columns_read, rows, in_s)
        if self._kept is not None:
            self._kept.expect(rows, in_s)

    def costs(self, rows: Indices, unit: str) -> npt.NDArray[np.float64]:
        """How much of a batch each clip takes before padding, (n,).

        Args:
            rows: (n,).
            unit: `seconds` or `samples` (at the rate wanted, rounded up) of the clip, or of the
                crop where clips are longer; `examples`: 1 each. NaN for a clip whose duration
                is not known.

        Raises:
            InputError: another unit, or the table tells no durations at all.
        """
        if unit not in _UNITS:
            raise InputError("A unit is unknown", expected=" or ".join(_UNITS), found=repr(unit))
        if unit == "examples":
            return np.ones(len(rows))
        rate_hz, longest = self._cutting.sample_rate_hz, self._cutting.num_samples
        seconds = durations_s(self._reader, rows)
        if longest is not None:
            seconds = np.minimum(seconds, longest / rate_hz)
        # Durations are quotients: what they round to is no fraction of a sample.
        return seconds if unit == "seconds" else np.ceil(seconds * rate_hz - 1e-3)

    def domains(self, rows: Indices) -> list[str | None]:
        """The domain of each row; None where the table has none."""
        return row_domains(self._reader, rows)

    def ids(self, rows: Indices) -> list[str]:
        """The utt_id of each row."""
        return row_names(self._reader, rows)

    def prepare_fork(self) -> None:
        """Read what a forked process could not.

        Raises:
            InputError: a forked process cannot read this table.
        """
        check_fork(self._reader, self.columns)
        there = set(self.table.schema.names)
        also = [name for name in ("utt_id", "domain", "duration_s") if name in there]
        self._reader.prepare_fork(list(dict.fromkeys((*self._columns_read, *also))))

    def _files(self, rows: Indices, decoded: Mapping[int, object]) -> Sequence[Bytes | None]:
        """The encoded bytes of rows; None for those that are at hand decoded."""
        if not decoded:
            return self._reader.views("audio", rows)
        files: list[Bytes | None] = [None] * len(rows)
        wanted = [index for index in range(len(rows)) if index not in decoded]
        for index, file in zip(wanted, self._reader.views("audio", rows[wanted]), strict=True):
            files[index] = file
        return files


class _Both:
    """Two things under way."""

    def __init__(self, first: Prefetch, second: Prefetch) -> None:
        self._both = first, second
        self.num_bytes = first.num_bytes + second.num_bytes

    def wait(self) -> None:
        for one in self._both:
            one.wait()


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"{name} is unknown", expected=" or ".join(known), found=repr(value))


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise InputError(f"{name} is too small", expected="1 or more", found=str(value))
