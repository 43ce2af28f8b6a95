"""Results of studies that were never run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from curation.study.results import parameters_text, results_of


def row(method: str, fold: str, seed: int, eer: float, **other: Any) -> dict[str, Any]:
    """A row of the long table; what is not given is the same in all."""
    row = {
        "method": method,
        "parameters": parameters_text(other.pop("options", {})),
        "budget_rows": 1000,
        "protocol": "logo",
        "fold": fold,
        "seed": seed,
        "scope": "pooled",
        "test_domain": None,
        "eer": eer,
        "num_bonafide": 200,
        "num_spoof": 300,
        "num_rows_used": 1000,
        "num_sources": 3,
        "num_generators": 5,
        "hours": 1.5,
        "n_eff": 4.5,
        "seconds": 12.0,
    }
    return {**row, **other}


def grid(
    methods: Iterable[str],
    folds: Iterable[str],
    seeds: Iterable[int],
    eer: Callable[[str, str, int], float],
    **other: Any,
) -> pa.Table:
    """Every method on every fold with every seed."""
    folds, seeds = list(folds), list(seeds)
    return results_of(
        row(method, fold, seed, eer(method, fold, seed), **other)
        for method in methods
        for fold in folds
        for seed in seeds
    )
