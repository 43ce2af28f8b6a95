"""What the examples at some positions cost, whichever sources they are of."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.blocks.origin import NOT_OF_ROWS
from datalake.errors import InputError, StoreError
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Sampler
from datalake.loader.sources.source import Source

__all__ = ["Costs", "Unknown", "costs_of"]

Costs = npt.NDArray[np.float64]

Unknown: TypeAlias = Literal["raise", "alone"]
"""An example whose cost nobody knows: an error that names it, or it counts for all that a batch or
a sequence may hold, so that it is in one alone."""


def costs_of(
    sampler: Sampler,
    epoch: int,
    positions: Indices,
    unit: str,
    most: float | None = None,
    unknown: float | None = None,
) -> Costs:
    """The cost of each position, (n,).

    Args:
        sampler: what stands at the positions.
        epoch: of the positions.
        positions: (n,).
        unit: of the costs.
        most: what an example may cost.
        unknown: what one counts for whose cost is not known or negative, or whose row is lost.

    Raises:
        InputError: a source does not know the unit; the cost of an example is above `most`, or is
            not known and `unknown` is None. The example is named.
        StoreError: the store refused; or rows are lost and `unknown` is None.
    """
    picks = sampler.picks(epoch, positions)
    sources = sampler.sources

    def of_source(source: Source, rows: Indices) -> Costs:
        costs = source.costs(rows, unit) if unknown is None else _known(source, rows, unit)
        return np.array(costs, np.float64)

    if len(sources) == 1:
        costs = of_source(sources[0], picks.rows)
    else:
        costs = np.empty(len(positions), np.float64)
        for number in np.unique(picks.sources).tolist():
            own = picks.sources == number
            costs[own] = of_source(sources[number], picks.rows[own])
    bad = ~((costs >= 0) & (costs < np.inf))
    if unknown is not None:
        costs[bad] = unknown
    elif bad.any():
        index = int(np.argmax(bad))
        raise InputError(
            f"The cost of an example in {unit} is not known",
            where=_named(sampler, epoch, positions[index]),
            expected="a finite number of 0 or more",
            found=str(costs[index]),
            fix="Leave such examples out of the selection, give each a batch of its own with "
            "unknown='alone', or make batches of a fixed count",
        )
    if most is not None and (costs > most).any():
        index = int(np.argmax(costs > most))
        raise InputError(
            "An example is larger than a batch or a sequence may be",
            where=_named(sampler, epoch, positions[index]),
            expected=f"at most {most:g} {unit}",
            found=f"{costs[index]:g}",
            fix="Raise the limit, leave such examples out of the selection, or choose another "
            "policy with `overlong`",
        )
    return costs


def _known(source: Source, rows: Indices, unit: str) -> Costs:
    """The costs of rows, (n,), NaN for those that the table has lost: halves are looked at, and
    halves of these, in the order of the table, where lost rows lie side by side."""
    try:
        return source.costs(rows, unit)
    except NOT_OF_ROWS:
        raise
    except StoreError:
        distinct, places = np.unique(rows, return_inverse=True)
    found = np.full(len(distinct), np.nan)
    waiting = np.array_split(np.arange(len(distinct)), 2)
    while waiting:
        some = waiting.pop()
        try:
            found[some] = source.costs(distinct[some], unit)
        except NOT_OF_ROWS:
            raise
        except StoreError:
            if len(some) > 1:
                waiting += np.array_split(some, 2)
    return found[places]


def _named(sampler: Sampler, epoch: int, position: np.int64) -> str:
    picks = sampler.picks(epoch, np.array([position]))
    number = int(picks.sources[0])
    name = sampler.sources[number].ids(picks.rows)[0]
    return f"{name} of {sampler.names[number]}, position {position} of epoch {epoch}"
