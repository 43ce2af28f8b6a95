"""One step's batch: which rows, read, put together, and what every batch says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.loader.batching.batching import Share
from datalake.loader.engine.trouble import Trouble
from datalake.loader.order.hashing import Words, keys, mix
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Picks, Sampler
from datalake.loader.sources.source import Allocate, Columns, Prefetch
from datalake.telemetry import Meter

__all__ = ["BATCH_KEYS", "Assembler", "Step", "Transform"]

BATCH_KEYS: Final = frozenset(
    {"weight", "is_pad", "seed", "source", "epoch", "position", "taken", "is_substitute"}
)
"""Keys that the loader itself adds; a source has none of these names."""

Transform = Callable[[Columns], Columns]


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
            InputError: a row cannot be used, and is not to be replaced.
            StoreError: the store refused.
        """
        words = self._words(step.picks)
        groups = _by_source(step.picks.sources)
        parts = [
            self.trouble.read(self.sampler, step, source, places, words[places], allocate)
            for source, places in groups
        ]
        with self.meter.during("collate"):
            batch = self._together(groups, parts, allocate)
            batch["weight"] = step.picks.weights
            batch["is_pad"] = step.share.is_pad
            batch["seed"] = words.view(np.int64)
            if len(self.sampler.sources) > 1:
                batch["source"] = step.picks.sources
            if step.share.sequences is not None:
                batch["sequence"] = step.share.sequences
            batch.update(step.share.extra)
        if self.transform is not None:
            with self.meter.during("decode", "the transform"):
                batch = self.transform(batch)
        place = step.share.after
        batch.update(epoch=place.epoch, position=place.position)
        if place.taken:
            batch["taken"] = list(place.taken)
        return batch

    def _words(self, picks: Picks) -> Words:
        """A random word an example: of its source, its row and its visit, and nothing else."""
        source_keys = keys(len(self.sampler.sources), "example", self.seed)
        visit_key = keys(1, "visit", self.seed)[0]
        rows = picks.rows.astype(np.uint64) + source_keys[picks.sources]
        return mix(mix(rows, np.uint64(0)) + picks.visits.astype(np.uint64), visit_key)

    def _together(
        self,
        groups: Sequence[tuple[int, npt.NDArray[np.int64]]],
        parts: Sequence[Columns],
        allocate: Allocate,
    ) -> Columns:
        """One batch of the parts: side by side if they are of one kind, else each by its name."""
        if len(self.sampler.sources) == 1:
            return dict(parts[0])
        if len({source.kind for source in self.sampler.sources}) > 1:
            named = {
                self.sampler.names[source]: {**part, "place": places}
                for (source, places), part in zip(groups, parts, strict=True)
            }
            return {name: named.get(name) for name in self.sampler.names}
        if len(parts) == 1:
            return dict(parts[0])
        return {
            name: _interleave([places for _, places in groups], [p[name] for p in parts], allocate)
            for name in parts[0]
        }


def _by_source(sources: npt.NDArray[np.int64]) -> list[tuple[int, npt.NDArray[np.int64]]]:
    """For each source the places of its examples in the batch, ascending."""
    if not sources.size or (sources == sources[0]).all():
        return [(int(sources[0]) if sources.size else 0, np.arange(len(sources)))]
    return [(int(one), np.flatnonzero(sources == one)) for one in np.unique(sources)]


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
