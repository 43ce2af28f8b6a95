"""Whether rows come block by block: what a source has to know to fetch blocks, or rows alone."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from datalake.loader.engine.next_use import parts_of
from datalake.loader.order.exact import Exact
from datalake.loader.sampling.sampler import Sampler

__all__ = ["Scatterable", "tell_order"]


@runtime_checkable
class Scatterable(Protocol):
    """A source that reads in another way where neighbours do not come together."""

    def scatter(self, is_scattered: bool) -> None:
        """Whether rows come one here and one there from now on.

        A block that the cache cannot keep until all of its rows were wanted would be fetched again
        for nearly every one of them. So where the table's blocks do not fit in the cache, rows that
        are scattered are fetched one by one, and not cached.
        """
        ...


def tell_order(sampler: Sampler) -> None:
    """Tell each source of a sampler in what kind of order it will be read."""
    in_blocks = {
        id(part.sampler.sources[0])
        for part in parts_of(sampler, 0, 0)
        if not isinstance(part.sampler.order(part.epoch), Exact)
    }
    for source in sampler.sources:
        if isinstance(source, Scatterable):
            source.scatter(id(source) not in in_blocks)
