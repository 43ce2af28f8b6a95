"""Training sets of so many sources and generators: the grid that scaling laws are fitted to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.order import place
from curation.probe.keys import is_bonafide, texts
from datalake.errors import InputError

__all__ = ["diverse_subset"]


def diverse_subset(
    side: pa.Table, num_sources: int, num_generators: int, budget: int | None, seed: int
) -> pa.Table:
    """Rows of some sources and generators, as many for every number of either.

    OURS: sources come in the order of a hash of the seed and their names, and so do the generators
    that these sources have; so under one seed the sources of a smaller number are among those of a
    larger one, and another seed draws another subset. Of the rows that are left, half of the budget
    goes to either label, at random by the hash of their ids.

    Args:
        side: the rows that may train, with `utt_id`, `label`, `source` and `generator`.
        num_sources: S.
        num_generators: G.
        budget: N, rows in all; None for all of them.
        seed: of the subset and of the rows.

    Raises:
        InputError: there are not so many sources or generators, or rows: N would not be fixed.
    """
    sources = _first(texts(side, "source"), num_sources, "sources", seed)
    side = side.filter(pc.is_in(side["source"], value_set=pa.array(sources, pa.string())))
    generators = _first(texts(side, "generator"), num_generators, "generators", seed)
    heard = pc.is_in(side["generator"], value_set=pa.array(generators, pa.string()))
    bonafide = is_bonafide(side)
    side = side.filter(pa.array(bonafide | np.asarray(heard)))
    if budget is None:
        return side
    bonafide = is_bonafide(side)
    taken = np.zeros(side.num_rows, np.bool_)
    order = np.array([place(seed, utt_id or "") for utt_id in texts(side, "utt_id")])
    for rows, count in (
        (np.flatnonzero(bonafide), budget // 2),
        (np.flatnonzero(~bonafide), budget - budget // 2),
    ):
        _enough(rows, count, f"{', '.join(sources)} with {', '.join(generators)}")
        taken[rows[np.argsort(order[rows], kind="stable")[:count]]] = True
    return side.filter(pa.array(taken))


def _first(names: list[str | None], count: int, what: str, seed: int) -> list[str]:
    known = sorted({name for name in names if name})
    if not 1 <= count <= len(known):
        raise InputError(
            f"There are not so many {what} to draw from",
            expected=f"1 to {len(known)}",
            found=str(count),
        )
    return sorted(sorted(known, key=lambda name: place(seed, f"{what}/{name}"))[:count])


def _enough(rows: npt.NDArray[np.int64], count: int, where: str) -> None:
    if len(rows) < count:
        raise InputError(
            "A subset has too few rows for the budget, half of which each label gets",
            where=where,
            expected=f"{count:,} rows of each label",
            found=f"{len(rows):,}",
            fix="Give a smaller budget, or more sources and generators",
        )
