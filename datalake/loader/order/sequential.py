"""The order of the table or selection itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from datalake.loader.order.order import Indices, inside

__all__ = ["Sequential"]


@dataclass(frozen=True)
class Sequential:
    """Examples in the order of the table or selection."""

    name: ClassVar[str] = "sequential/1"
    num_examples: int

    def examples(self, positions: Indices) -> Indices:
        """The positions themselves."""
        return inside(positions, self.num_examples)

    def positions(self, examples: Indices) -> Indices:
        """The examples themselves."""
        return inside(examples, self.num_examples, "example")
