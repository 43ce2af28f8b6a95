"""The cross-source matrix: train on one source, test on another."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.study.arms import arm_names, find_arm, read_arms
from curation.study.results import check_results
from datalake.errors import NotFoundError

__all__ = ["CrossMatrix", "cross_matrix"]


@dataclass(frozen=True)
class CrossMatrix:
    """Train on one source, test on another."""

    arm: str
    budget_rows: int | None
    trained_on: tuple[str, ...]
    tested_on: tuple[str, ...]
    eers: npt.NDArray[np.float64]
    """Means over seeds, shape (trained on, tested on); NaN where there is no result."""
    seed_sds: npt.NDArray[np.float64]
    """Standard deviations over seeds, same shape; NaN for fewer than two."""
    num_seeds: npt.NDArray[np.int64]

    @property
    def off_diagonal(self) -> float:
        """The mean over pairs of different sources: what a detector does on a corpus unheard."""
        values = [
            self.eers[row, column]
            for row, trained in enumerate(self.trained_on)
            for column, tested in enumerate(self.tested_on)
            if trained != tested and not np.isnan(self.eers[row, column])
        ]
        return math.fsum(values) / len(values) if values else math.nan


def cross_matrix(
    results: pa.Table, arm: str, *, budget_rows: int | None = None
) -> CrossMatrix:  # fmt: skip
    """The cross-source matrix of one arm: trained on each source, tested on each.

    Args:
        results: the long table (`RESULTS`), of which the rows `cross` and `source` are read.
        arm: its name, or its method's if that has one arm.
        budget_rows: the arm's budget.

    Raises:
        SchemaError, InputError: the results cannot be used.
        NotFoundError: there are no such results.
    """
    table = check_results(results)
    found = find_arm(read_arms(table, "cross"), arm, budget_rows)
    if found is None or found.budget_rows != budget_rows:
        raise NotFoundError(f"{arm} has no cross-source results", where=f"budget {budget_rows}")
    names = arm_names(table)
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    chosen = table.filter((pc.field("protocol") == "cross") & (pc.field("scope") == "source"))
    for row in chosen.to_pylist():
        name = names[row["method"], row["parameters"]]
        if (name, row["budget_rows"]) == (found.name, found.budget_rows):
            values[row["fold"], row["test_domain"]].append(row["eer"])
    trained_on = tuple(sorted({trained for trained, _ in values}))
    # Sources that are on both sides first and in the same order, so that the diagonal is one.
    tested = {test for _, test in values}
    tested_on = (*(s for s in trained_on if s in tested), *sorted(tested - set(trained_on)))
    shape = (len(trained_on), len(tested_on))
    eers, sds, counts = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, np.int64)
    for (trained, test), seen in values.items():
        place = trained_on.index(trained), tested_on.index(test)
        eers[place] = math.fsum(seen) / len(seen)
        sds[place] = np.nan if len(seen) < 2 else np.std(np.sort(seen), ddof=1)
        counts[place] = len(seen)
    return CrossMatrix(found.name, budget_rows, trained_on, tested_on, eers, sds, counts)
