"""`ByCost`: batches of examples of like length, below a limit of seconds, frames or tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from datalake.loader.batching.batching import Place, Share, Tail
from datalake.loader.batching.buckets import Buckets, LongAlone
from datalake.loader.batching.checks import LARGEST_WINDOW, check_whole
from datalake.loader.batching.costs import Unknown
from datalake.loader.batching.windows import windowed_shares
from datalake.loader.sampling.sampler import Sampler

__all__ = ["ByCost"]


@dataclass(frozen=True)
class ByCost:
    """A `Batching` by length buckets.

    The examples of a window of consecutive positions are sorted by cost and cut into batches, which
    come in an order drawn by a hash. What a batch holds follows from the sampler, the epoch, where
    the window begins, the fields and the number of ranks. All ranks make equally many steps, each
    with at least one example, and batches come longest example first.

    Every rank plans for all: some 3 microseconds a position of all ranks together.

    Raises:
        InputError: a field is out of range.
    """

    limit: float
    """What a batch may cost at most."""
    unit: str = "seconds"
    """Of the costs: one that the source knows."""
    max_examples: int | None = None
    """Examples that a batch has at most."""
    window: int = 4096
    """About how many positions are sorted together: the more, the more alike are the examples of a
    batch. Grows by itself where all ranks' batches of a single step take more."""
    tail: Tail = "pad"
    """At the epoch's end, with fewer examples than ranks: see `datalake.loader.batching.plan`."""
    padded: bool = True
    """A batch costs its longest example times its number of examples, as one does that is padded to
    the longest; if not, it costs the sum."""
    overlong: LongAlone = "alone"
    """An example above the limit: a batch of its own, or an error that names it."""
    unknown: Unknown = "raise"
    """An example whose cost nobody knows: an error that names it, or a batch of its own. A loader
    that lets others stand in for bad examples takes `alone`."""

    def __post_init__(self) -> None:
        check_whole("window", self.window, 1, LARGEST_WINDOW)
        self._cutter()

    def num_steps(self, sampler: Sampler, place: Place, world_size: int) -> int | None:  # noqa: ARG002
        """None: it takes a pass over all lengths to know."""
        return None

    def shares(
        self,
        sampler: Sampler,
        place: Place,
        rank: int,
        world_size: int,
        *,
        worker: int = 0,
        num_workers: int = 1,
    ) -> Iterator[Share]:
        """This rank's steps; see `Batching`.

        Raises:
            InputError: as `Batching.shares`, or a cost is not known or refused.
        """
        return windowed_shares(
            self._cutter(),
            self.window,
            sampler,
            place,
            rank,
            world_size,
            worker=worker,
            num_workers=num_workers,
        )

    def _cutter(self) -> Buckets:
        return Buckets(
            self.limit,
            self.unit,
            self.max_examples,
            self.padded,
            self.overlong,
            self.tail,
            self.unknown,
        )
