"""The points that scaling laws are fitted to, from a study's results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import pyarrow as pa

from curation.study.arms import Measure, read_arms
from curation.study.results import Protocol
from datalake.errors import InputError

__all__ = ["POINTS", "Variable", "scaling_points"]

Variable = Literal["num_rows", "hours", "num_sources", "num_generators"]

POINTS: Final = pa.schema(
    [
        # N: utterances trained on, or their hours.
        pa.field("num_rows", pa.float64()),
        pa.field("hours", pa.float64()),
        pa.field("num_sources", pa.float64()),
        pa.field("num_generators", pa.float64()),
        pa.field("eer", pa.float64(), nullable=False),
    ]
)
"""What laws are fitted to, one row a training set."""


def scaling_points(
    results: pa.Table,
    protocol: Protocol,
    *,
    methods: Sequence[str] | None = None,
    measure: Measure = "pooled",
) -> pa.Table:
    """The points of a fit: a training set's sizes, and its EER, means over folds.

    One point for each arm, budget and seed that all of the arm's folds have, so that a point does
    not move with the folds it happens to have; different folds hold different generators out, and
    their sizes are averaged as their EERs are.

    Args:
        results: the long table (`RESULTS`).
        protocol: which of its rows.
        methods: of these methods only; None for all. Points of methods that spend rows differently
            do not lie on one law: name one where you can.
        measure: see `read_arms`.

    Raises:
        SchemaError, InputError, NotFoundError: see `read_arms`; or none of these methods is there.
    """
    rows = []
    for arm in read_arms(results, protocol, measure):
        if methods is not None and not {arm.name, arm.method} & set(methods):
            continue
        folds = sorted(arm.eers)
        for seed, eer in arm.seed_means.items():
            cells = [arm.trained_on[fold][seed] for fold in folds]
            row = {"num_rows": _mean(cells, "num_rows_used"), "hours": _mean(cells, "hours")}
            row |= {name: _mean(cells, name) for name in ("num_sources", "num_generators")}
            rows.append({**row, "eer": eer})
    if not rows:
        raise InputError(
            "There is nothing to fit a law to", expected=f"results of {', '.join(methods or ())}"
        )
    return pa.Table.from_pylist(rows, schema=POINTS)


def _mean(cells: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [cell[name] for cell in cells]
    return None if None in values else math.fsum(values) / len(values)
