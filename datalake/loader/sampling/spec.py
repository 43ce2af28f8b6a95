"""What a user gives to a loader, and what it becomes."""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

from datalake.loader.order.choice import OrderName
from datalake.loader.sampling.sampler import Sampler
from datalake.loader.sources.source import Source

__all__ = ["DEFAULT_WORKING_SET", "Data", "Spec", "WorkingSet"]

WorkingSet: TypeAlias = int | float
"""How much `blocks` works on together. A whole number: so many blocks, beside which a cache must
hold another sixteenth of them that is read ahead. A fraction of 1: what a cache may hold of the
data, the part that is read ahead included."""

DEFAULT_WORKING_SET = 128
"""Blocks: a batch of 64 then comes from about as many blocks as a uniform shuffle's would."""


@runtime_checkable
class Spec(Protocol):
    """Data without an order yet: plain, picklable."""

    def sampler(
        self,
        *,
        order: OrderName = "exact",
        seed: int = 0,
        working_set: WorkingSet = DEFAULT_WORKING_SET,
    ) -> Sampler:
        """The same with an order.

        Args:
            order: of the examples of an epoch.
            seed: of all that is drawn.
            working_set: of `blocks`.
        """
        ...


Data: TypeAlias = Source | Spec | Sampler
"""What `sampler_of` takes."""
