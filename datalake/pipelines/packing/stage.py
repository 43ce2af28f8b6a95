"""What a worker does with a unit: read the frames of its sequences and stage their rows.

Memory: the values of 65,536 frames (1,024 where pictures are put in) or of one sequence, and the
token columns of as many sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.packing import Layout
from datalake.packing.rows import SEGMENT, sequence_rows
from datalake.pipelines.units import read_unit
from datalake.schema import is_media
from datalake.tables import Piece, Stager, Table
from datalake.uri import Location

__all__ = ["PackJob", "PackedSource", "StagedSequences"]

_BATCH_FRAMES: Final = 1 << 16
_BATCH_PICTURES: Final = 1 << 10
_BATCH_SLOTS: Final = 1 << 20


@dataclass(frozen=True)
class PackedSource:
    """What workers need to know of a source."""

    name: str
    frames: Table | None
    layouts: tuple[Layout, ...]


@dataclass
class StagedSequences:
    """What became of a unit. Picklable and small."""

    index: int
    pieces: list[Piece] = field(default_factory=list)
    num_sequences: int = 0


@dataclass(frozen=True)
class PackJob:
    """What all units of a packing run share. Picklable and small."""

    units: Location
    stager: Stager
    schema: pa.Schema
    """Of the packed table."""
    budget: int
    sources: tuple[PackedSource, ...]
    columns: tuple[pa.Field, ...]
    """Columns of frames whose values are put in."""

    def stage(self, index: int) -> StagedSequences:
        """Make the rows of a unit's sequences.

        Raises:
            StoreError: the store refused to give or to take.
        """
        plan = read_unit(self.units, index)
        pieces = self.stager.write(self._batches(plan))
        return StagedSequences(index, pieces, sum(piece.num_rows for piece in pieces))

    def _batches(self, plan: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows, some sequences at a time."""
        sequences = plan.column("sequence_index").to_numpy()
        begins = np.flatnonzero(np.diff(sequences, prepend=-1))
        frames = np.add.reduceat(self._num_frames(plan), begins) if len(begins) else begins
        most_frames = _BATCH_PICTURES if any(map(is_media, self.columns)) else _BATCH_FRAMES
        most_sequences = max(1, _BATCH_SLOTS // self.budget)
        first, held = 0, 0
        bounds = [*begins.tolist(), len(sequences)]
        for number, more in enumerate(frames.tolist()):
            full = number - first >= most_sequences or (self.columns and held + more > most_frames)
            if full and number > first:
                yield self._rows(plan, bounds[first : number + 1])
                first, held = number, 0
            held += more
        if len(begins):
            yield self._rows(plan, bounds[first:])

    def _num_frames(self, plan: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Frames of each segment: 0 for what is no episode, (segments,)."""
        source = plan.column("source").to_numpy()
        is_episode = np.array([source.frames is not None for source in self.sources] + [False])
        frames: npt.NDArray[np.int64] = np.where(
            is_episode[source], plan.column("repeats").to_numpy(), 0
        )
        return frames

    def _rows(self, plan: pa.RecordBatch, bounds: list[int]) -> pa.RecordBatch:
        """The rows of sequences whose segments lie between `bounds`."""
        part = plan.slice(bounds[0], bounds[-1] - bounds[0])
        real = part.column("source").to_numpy() >= 0
        sizes = np.add.reduceat(real.astype(np.int64), np.array(bounds[:-1]) - bounds[0])
        first_index = part.column("sequence_index")[0].as_py()
        part = part.filter(pa.array(real))
        num_frames = self._num_frames(part)
        segments = {
            "source": pa.array([source.name for source in self.sources], pa.string()).take(
                part.column("source")
            ),
            "item_id": part.column("item_id"),
            "row": part.column("row"),
            "start": part.column("start"),
            "num_frames": pa.array(num_frames),
            "num_tokens": part.column("num_tokens"),
        }
        return sequence_rows(
            self.schema,
            first_index,
            sizes,
            pa.StructArray.from_arrays(list(segments.values()), fields=list(SEGMENT)),
            modalities=self._modalities(part) if "modality_ids" in self.schema.names else (),
            values=self._values(part, num_frames) if self.columns else None,
        )

    def _modalities(self, part: pa.RecordBatch) -> list[npt.NDArray[np.int8]]:
        keys = (part.column(name).to_pylist() for name in ("source", "layout", "repeats", "head"))
        return [
            _modality_ids(self.sources[source].layouts[layout], repeats, head)
            for source, layout, repeats, head in zip(*keys, strict=True)
        ]

    def _values(self, part: pa.RecordBatch, num_frames: npt.NDArray[np.int64]) -> pa.Table:
        """The values of all frames, in the order of the segments."""
        source_of = np.repeat(part.column("source").to_numpy(), num_frames)
        ends = np.cumsum(num_frames)
        place = np.arange(len(source_of)) - np.repeat(ends - num_frames, num_frames)
        rows = np.repeat(part.column("row").to_numpy(), num_frames) + place
        names = [column.name for column in self.columns]
        taken = [pa.schema(self.columns).empty_table()]
        order = np.empty(len(rows), np.int64)
        num_taken = 0
        for number, source in enumerate(self.sources):
            mine = np.flatnonzero(source_of == number)
            if source.frames is not None and len(mine):
                # Windows overlap: each frame is read once.
                wanted, back = np.unique(rows[mine], return_inverse=True)
                taken.append(source.frames.take(wanted, names))
                order[mine] = num_taken + back
                num_taken += len(wanted)
        return pa.concat_tables(taken, promote_options="default").take(pa.array(order))


@lru_cache(maxsize=256)
def _modality_ids(layout: Layout, repeats: int, head: int) -> npt.NDArray[np.int8]:
    # Windows of one task have the same.
    return layout.modality_ids(repeats, head=head)
