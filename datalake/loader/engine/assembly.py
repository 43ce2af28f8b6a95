"""One step's batch: which rows, read, put together, and what every batch says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.loader.batching.batching import Share
from datalake.loader.batching.plan import packed_extra
from datalake.loader.engine.flat import cut_flat, flat_columns, merge_flat
from datalake.loader.engine.trouble import Trouble
from datalake.loader.order.hashing import Words, keys, mix
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Picks, Sampler
from datalake.loader.sources.clips import pad_behind
from datalake.loader.sources.source import Allocate, Columns, Prefetch, Repeated
from datalake.telemetry import Meter

__all__ = ["BATCH_KEYS", "Assembler", "Step", "Transform"]

BATCH_KEYS: Final = frozenset(
    {"weight", "is_pad", "seed", "source", "epoch", "position", "taken", "is_substitute"}
)
"""Keys that the loader itself adds, some in certain batches only."""

_ADDED_LAST: Final = ("epoch", "position", "taken")

Transform = Callable[[Columns], Columns]

Group: TypeAlias = tuple[int, npt.NDArray[np.int64]]
"""A source, and the places of its examples in the batch, ascending."""


@dataclass(frozen=True)
class Step:
    """What one rank reads at one step: its share, and the rows that stand there."""

    epoch: int
    share: Share
    picks: Picks


@dataclass(frozen=True)
class Assembler:
    """Makes the batch of a step. It follows from the step alone, whoever makes it, and when.

    Thread-safe and picklable.
    """

    sampler: Sampler
    seed: int
    trouble: Trouble
    meter: Meter
    transform: Transform | None = None

    def step(self, epoch: int, share: Share) -> Step:
        """Look up what stands at a share's positions."""
        return Step(epoch, share, self.sampler.picks(epoch, share.positions))

    def prefetch(self, step: Step) -> list[Prefetch]:
        """Begin to bring near what the step needs."""
        return [
            self.sampler.sources[source].prefetch(step.picks.rows[places])
            for source, places in _by_source(step.picks.sources)
        ]

    def assemble(self, step: Step, allocate: Allocate) -> Columns:
        """Read and decode a step's rows.

        Raises:
            InputError: a row cannot be used, and is not to be replaced; or a column or a part has
                the name of a key that the loader adds.
            StoreError: the store refused.
        """
        words = self._words(step.picks)
        groups = _by_source(step.picks.sources)
        replaced = np.zeros(len(words), np.bool_)
        parts = []
        for source, places in groups:
            part, replaced[places] = self.trouble.read(
                self.sampler, step, source, places, words[places], allocate
            )
            parts.append(part)
        with self.meter.during("collate"):
            extra = self._fitted(step.share, groups, parts)
            batch = self._together(groups, parts, allocate)
            own: Columns = {
                "weight": step.picks.weights,
                "is_pad": step.share.is_pad,
                "seed": (words >> np.uint64(1)).astype(np.int64),
            }
            if len(self.sampler.sources) > 1:
                own["source"] = step.picks.sources
            if self.trouble.on_bad == "substitute":
                own["is_substitute"] = replaced
            if step.share.sequences is not None:
                own["sequence"] = step.share.sequences
            own.update(extra)
            _check_names(batch, {*own, *_ADDED_LAST})
            batch.update(own)
        if self.transform is not None:
            with self.meter.during("decode", "the transform"):
                batch = _checked(self.transform(batch))
        place = step.share.after
        batch.update(epoch=place.epoch, position=place.position)
        if place.taken:
            batch["taken"] = list(place.taken)
        return batch

    def _fitted(self, share: Share, groups: Sequence[Group], parts: list[Columns]) -> Columns:
        """What a share says beside its positions. Where values lie flat in packed sequences they
        are cut to what was planned for them, and the lengths are those that they have."""
        planned = share.extra.get("lengths")
        if planned is None:
            return dict(share.extra)
        lengths = planned.copy()
        for index, (source, places) in enumerate(groups):
            flat = flat_columns(self.sampler.sources[source])
            if flat:
                parts[index] = cut_flat(parts[index], flat, planned[places])
                lengths[places] = parts[index][next(iter(flat.values()))]
        if np.array_equal(lengths, planned):
            return dict(share.extra)
        return packed_extra(lengths, share.capacity)

    def _words(self, picks: Picks) -> Words:
        """A random word an example: of its source, its row and its visit, and nothing else."""
        source_keys = keys(len(self.sampler.sources), "example", self.seed)
        visit_key = keys(1, "visit", self.seed)[0]
        rows = picks.rows.astype(np.uint64) + source_keys[picks.sources]
        return mix(mix(rows, np.uint64(0)) + picks.visits.astype(np.uint64), visit_key)

    def _together(
        self,
        groups: Sequence[Group],
        parts: Sequence[Columns],
        allocate: Allocate,
    ) -> Columns:
        """One batch of the parts: one after the other in the order of the share if they are of one
        kind, else each by its name, and absent where it has no example."""
        if len(self.sampler.sources) == 1:
            return dict(parts[0])
        if len({source.kind for source in self.sampler.sources}) > 1:
            for part in parts:
                _check_names(part, {"place"})
            return {
                self.sampler.names[source]: {**part, "place": places}
                for (source, places), part in zip(groups, parts, strict=True)
            }
        if len(parts) == 1:
            return dict(parts[0])
        flat = flat_columns(self.sampler.sources[0])
        where = [places for _, places in groups]
        batch: Columns = {
            name: merge_flat(where, of_parts, [part[flat[name]] for part in parts], allocate)
            if name in flat
            else _interleave(where, of_parts, allocate)
            for name, of_parts in ((name, [part[name] for part in parts]) for name in parts[0])
        }
        for (source, places), part in zip(groups, parts, strict=True):
            made = self.sampler.sources[source]
            for name, counted in (made.repeated if isinstance(made, Repeated) else {}).items():
                _repeat(batch[name], places, part[name].shape[1], part[counted])
        return batch


def _checked(batch: object) -> Columns:
    if not isinstance(batch, dict):
        raise InputError(
            "The transform gave no batch",
            expected="the dict that it was given, or another one",
            found=type(batch).__name__,
            fix="Let it return the batch",
        )
    return batch


def _check_names(batch: Columns, own: AbstractSet[str]) -> None:
    clashes = sorted(batch.keys() & own)
    if clashes:
        raise InputError(
            "A column or a part has the name of something that the loader adds to a batch",
            found=", ".join(clashes),
            fix="Leave the column out of `columns`, or call the part something else",
        )


def _by_source(sources: npt.NDArray[np.int64]) -> list[Group]:
    """For each source the places of its examples in the batch, ascending."""
    if not sources.size or (sources == sources[0]).all():
        return [(int(sources[0]) if sources.size else 0, np.arange(len(sources)))]
    return [(int(one), np.flatnonzero(sources == one)) for one in np.unique(sources)]


def _repeat(
    whole: npt.NDArray[Any], places: Indices, length: int, lengths: npt.NDArray[np.integer]
) -> None:
    """Fill rows of a batch as their own part did to its own `length`."""
    if length < whole.shape[1]:
        for place, own in zip(places.tolist(), lengths.tolist(), strict=True):
            pad_behind(whole[place], own, "repeat")


def _interleave(
    places: Sequence[Indices], parts: Sequence[Any], allocate: Allocate
) -> npt.NDArray[Any] | list[Any]:
    num_examples = sum(map(len, places))
    if isinstance(parts[0], np.ndarray):
        # Parts padded to their own longest clip differ in length alone.
        shape = tuple(max(sizes) for sizes in zip(*(part.shape[1:] for part in parts), strict=True))
        whole = allocate((num_examples, *shape), parts[0].dtype)
        for where, part in zip(places, parts, strict=True):
            if part.shape[1:] == shape:
                whole[where] = part
            else:
                whole[where] = 0
                corner: tuple[Any, ...] = (where, *(slice(size) for size in part.shape[1:]))
                whole[corner] = part
        return whole
    out: list[Any] = [None] * num_examples
    for where, part in zip(places, parts, strict=True):
        for place, value in zip(where.tolist(), part, strict=True):
            out[place] = value
    return out
