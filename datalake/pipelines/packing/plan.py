"""The plan of a packing run: which items lie in which sequence. Made from lengths alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.packing import Baselines, Bins, LengthLaw, Mix, Modality, mix, pack_lengths
from datalake.pipelines.packing.report import PackReport, SourceReport
from datalake.pipelines.packing.settings import PackSettings
from datalake.pipelines.packing.sources import Source
from datalake.pipelines.units import UnitWriter
from datalake.uri import Location

__all__ = ["PLANNED", "Plan", "make_plan", "write_plan"]

PLANNED: Final = pa.schema(
    [
        pa.field("sequence_index", pa.int64()),
        # A position in the plan's sources; -1: the sequence is empty, all padding.
        pa.field("source", pa.int32()),
        pa.field("item_id", pa.string()),
        pa.field("row", pa.int64()),
        pa.field("start", pa.int64()),
        pa.field("repeats", pa.int64()),
        pa.field("head", pa.int64()),
        pa.field("layout", pa.int32()),
        pa.field("num_tokens", pa.int64()),
    ]
)
"""The columns of the file of units: one row a segment."""

# What one unit may hold: slots of token columns, and frames whose values are read.
_UNIT_SLOTS: Final = 1 << 22
_UNIT_FRAMES: Final = 1 << 16
_UNITS_PER_WORKER: Final = 4
_WRITTEN_BINS: Final = 1 << 14


@dataclass(frozen=True)
class Plan:
    """What is packed, and how. Some 60 bytes an item in memory."""

    sources: tuple[Source, ...]
    source_of: npt.NDArray[np.int32]
    """The source of each item in the order packed, (items,)."""
    item_of: npt.NDArray[np.int64]
    """Its number there, (items,)."""
    bins: Bins
    report: PackReport


def make_plan(sources: Sequence[Source], settings: PackSettings) -> Plan:
    """Order the items of all sources, pack them, and say how well that went.

    Raises:
        InputError: a weight, or a parameter of the packer, is out of range.
    """
    tokens = [source.tokens() for source in sources]
    sizes = [source.num_items for source in sources]
    source_of = np.repeat(np.arange(len(sources), dtype=np.int32), sizes)
    item_of = np.concatenate([np.arange(size) for size in sizes])
    lengths = np.concatenate(tokens)
    mixed = None
    if settings.weights:
        mixed, order = _mixed(sources, lengths, source_of, settings)
        source_of, item_of, lengths = source_of[order], item_of[order], lengths[order]
    bins = pack_lengths(
        lengths,
        settings.budget,
        method=settings.method,
        window=settings.window,
        carry=settings.carry,
        seed=settings.seed,
        num_ranks=settings.num_ranks,
    )
    report = PackReport(
        unit=settings.unit,
        budget=settings.budget,
        method=settings.method,
        num_sequences=len(bins),
        num_segments=bins.num_pieces,
        num_empty=bins.num_empty,
        num_ranks=settings.num_ranks,
        num_tokens=bins.total,
        utilisation=bins.utilisation,
        lengths=LengthLaw.of(lengths),
        baselines=Baselines.of(lengths, settings.budget, batch_size=settings.batch_size),
        sources=_source_reports(sources, source_of, item_of, lengths, settings.unit),
    )
    if mixed:
        report.asked = dict(zip(mixed.names, mixed.asked, strict=True))
        report.realised = dict(zip(mixed.names, mixed.realised, strict=True))
        report.num_passes = dict(zip(mixed.names, mixed.num_passes, strict=True))
        report.largest_error = mixed.largest_error
    return Plan(tuple(sources), source_of, item_of, bins, report)


def _mixed(
    sources: Sequence[Source],
    lengths: npt.NDArray[np.int64],
    source_of: npt.NDArray[np.int32],
    settings: PackSettings,
) -> tuple[Mix, npt.NDArray[np.int64]]:
    """The mix, and the position of each of its items among all items, source after source."""
    groups: dict[str, npt.NDArray[np.int64]]
    if settings.weight_by == "modality":
        main = np.concatenate([source.by_modality().argmax(axis=1) for source in sources])
        groups = {
            modality.label: np.flatnonzero(main == modality)
            for modality in Modality
            if (main == modality).any()
        }
    else:
        groups = {
            source.name: np.flatnonzero(source_of == number)
            for number, source in enumerate(sources)
        }
    mixed = mix(
        {name: lengths[members] for name, members in groups.items()},
        settings.weights,
        exhausted=settings.exhausted,
    )
    chosen = np.empty(len(mixed), np.int64)
    for number, name in enumerate(mixed.names):
        of_group = mixed.sources == number
        chosen[of_group] = groups[name][mixed.items[of_group]]
    return mixed, chosen


def _source_reports(
    sources: Sequence[Source],
    source_of: npt.NDArray[np.int32],
    item_of: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    unit: str,
) -> list[SourceReport]:
    reports = []
    for number, source in enumerate(sources):
        used = source_of == number
        totals: Mapping[Modality, int] = {}
        if unit == "tokens":
            totals = _totals(source, item_of[used])
        reports.append(
            SourceReport(
                name=source.name,
                versions=source.inputs,
                num_items=source.num_items,
                num_packed=int(np.count_nonzero(used)),
                num_tokens=int(lengths[used].sum()),
                num_left_out=source.num_left_out,
                num_cut=source.num_cut,
                num_lost=source.lost,
                modalities={modality.label: total for modality, total in totals.items() if total},
            )
        )
    return reports


def _totals(source: Source, items: npt.NDArray[np.int64]) -> dict[Modality, int]:
    """Tokens of each modality, of items together; some slices of them at a time."""
    totals = np.zeros(len(Modality), np.int64)
    for start in range(0, len(items), 1 << 20):
        totals += source.by_modality(items[start : start + (1 << 20)]).sum(axis=0)
    return {modality: int(totals[modality]) for modality in Modality}


def write_plan(plan: Plan, location: Location, *, num_workers: int, with_values: bool) -> list[int]:
    """Write the file of units, each a run of sequences that one task makes.

    Args:
        plan: what to write.
        location: the file.
        num_workers: each shall get some units.
        with_values: whether the values of frames are read, which bounds a unit too.

    Returns:
        The sequences of each unit.
    """
    bins = plan.bins
    units = _units(plan, num_workers, with_values)
    with UnitWriter(location, PLANNED) as writer:
        for begin in range(0, len(bins), _WRITTEN_BINS):
            stop = min(begin + _WRITTEN_BINS, len(bins))
            keys, segments = _segments(plan, begin, stop)
            writer.write(units[keys][:, None], segments)
    return np.bincount(units).tolist() if len(units) else []


def _units(plan: Plan, num_workers: int, with_values: bool) -> npt.NDArray[np.int64]:
    """The unit of each sequence, from 0, ascending, (sequences,)."""
    bins = plan.bins
    weights = np.full(len(bins), bins.capacity / _UNIT_SLOTS)
    if with_values and bins.num_pieces:
        frames = np.concatenate(
            [[0], np.cumsum(_by_source(plan, bins.items, lambda source: source.repeats))]
        )
        weights = np.maximum(weights, np.diff(frames[bins.offsets]) / _UNIT_FRAMES)
    limit = min(1.0, weights.sum() / (_UNITS_PER_WORKER * num_workers))
    if not limit:
        return np.zeros(len(bins), np.int64)
    _, units = np.unique(
        np.floor((np.cumsum(weights) - weights) / limit + 1e-9), return_inverse=True
    )
    return units.astype(np.int64)


def _segments(plan: Plan, begin: int, stop: int) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
    """The sequence of each segment, and the rows of the plan, of sequences `begin` to `stop`."""
    bins = plan.bins
    sizes = np.diff(bins.offsets[begin : stop + 1])
    pieces = slice(int(bins.offsets[begin]), int(bins.offsets[stop]))
    items = bins.items[pieces]
    sequences = np.repeat(np.arange(begin, stop), sizes)
    source_of = plan.source_of[items]
    parents = _by_source(plan, items, lambda source: source.parents)
    starts = _by_source(plan, items, lambda source: source.starts)
    ids = np.empty(len(items), object)
    rows, heads, layouts = (np.empty(len(items), np.int64) for _ in range(3))
    for number, source in enumerate(plan.sources):
        mine = source_of == number
        of_mine = parents[mine]
        ids[mine] = source.ids.take(pa.array(of_mine)).to_numpy(zero_copy_only=False)
        rows[mine] = source.rows[of_mine] + (starts[mine] if source.frames is not None else 0)
        heads[mine] = source.heads[of_mine]
        layouts[mine] = source.layout_of[of_mine]
    columns = {
        "sequence_index": sequences,
        "source": source_of,
        "item_id": ids,
        "row": rows,
        "start": starts,
        "repeats": _by_source(plan, items, lambda source: source.repeats),
        "head": heads,
        "layout": layouts,
        "num_tokens": bins.lengths[pieces],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in PLANNED]
    batch = pa.record_batch(arrays, schema=PLANNED)
    empty = np.arange(begin, stop)[sizes == 0]
    if not len(empty):
        return sequences, batch
    padding: dict[str, list[object]] = {name: [0] * len(empty) for name in PLANNED.names}
    padding["sequence_index"] = empty.tolist()
    padding["source"] = [-1] * len(empty)
    padding["item_id"] = [""] * len(empty)
    both = pa.concat_batches([batch, pa.RecordBatch.from_pydict(padding, schema=PLANNED)])
    sequences = np.concatenate([sequences, empty])
    order = np.argsort(sequences, kind="stable")
    return sequences[order], both.take(pa.array(order))


def _by_source(
    plan: Plan,
    items: npt.NDArray[np.int64],
    column: Callable[[Source], npt.NDArray[np.int32]],
) -> npt.NDArray[np.int64]:
    """A column of the sources' items, of items in the order packed, (items,)."""
    source_of, item_of = plan.source_of[items], plan.item_of[items]
    values = np.empty(len(items), np.int64)
    for number, source in enumerate(plan.sources):
        mine = source_of == number
        values[mine] = column(source)[item_of[mine]]
    return values
