"""Training and test kept apart: no row of one is ever read by the other."""

from __future__ import annotations

import numpy as np

from datalake.errors import InputError
from datalake.lake import Selection
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Sampler

__all__ = ["refuse_parts_of_one_split", "refuse_shared"]


def refuse_shared(sampler: Sampler, other: Sampler) -> None:
    """See that two streams have no row in common. A bit a row of each table, for the time it takes.

    Tables are told apart by their uris: what stands in two tables is for the leakage audit to find.

    Raises:
        InputError: they share rows (says how many, and names one), or read one table at two
            versions, so that rows cannot be compared.
    """
    for source, rows in sampler.reach():
        for beside, others in other.reach():
            versions = {table.uri: table.version for table in source.tables}
            theirs = {table.uri: table.version for table in beside.tables}
            common = sorted(versions.keys() & theirs.keys())
            if not common:
                continue
            if any(versions[uri] != theirs[uri] for uri in common):
                raise InputError(
                    "Loaders that are to be kept apart read one table at two versions",
                    where=common[0],
                    found=f"{versions[common[0]]} and {theirs[common[0]]}",
                    fix="Open both at one version",
                )
            if source.num_rows != beside.num_rows:
                raise InputError(
                    "Loaders that are to be kept apart take different things for an example",
                    where=common[0],
                    found=f"{type(source).__name__} and {type(beside).__name__}",
                    fix="Give them sources of one kind",
                )
            shared = _shared(source.num_rows, rows, others)
            if len(shared):
                raise InputError(
                    "Loaders that are to be kept apart have rows in common",
                    where=common[0],
                    expected="none",
                    found=f"{len(shared):,}, the first of them {source.ids(shared[:1])[0]}",
                    fix="Give both a part of one split (`curate split`), or select within it",
                )


def _shared(num_rows: int, rows: Indices | None, others: Indices | None) -> Indices:
    """The rows that are in both, ascending; None is all of them."""
    marks = np.ones((2, num_rows), np.bool_)
    for mark, chosen in zip(marks, (rows, others), strict=True):
        if chosen is not None:
            mark[:] = False
            mark[chosen] = True
    return np.flatnonzero(marks[0] & marks[1])


def refuse_parts_of_one_split(selections: dict[str, Selection]) -> None:
    """See that no two of the selections are, or were made within, different parts of one split.

    Args:
        selections: by what they are called in the mixture.

    Raises:
        InputError: two of them are.
    """
    seen: dict[tuple[str, object], tuple[str, object]] = {}
    for name, selection in selections.items():
        split, part = (selection.parameters.get(key) for key in ("split", "part"))
        if split is None:
            continue
        first, first_part = seen.setdefault((selection.table, split), (name, part))
        if part != first_part:
            raise InputError(
                "A mixture has two parts of one split",
                where=f"{first}, {name}",
                expected=f"parts of one side of the split {split}",
                found=f"{first_part} and {part}",
                fix="Train on one part, and give the other a loader of its own",
            )
