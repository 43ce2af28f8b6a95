"""The arms of a study, and the EER of each by fold and seed."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from curation.study.results import Protocol, check_results
from datalake.errors import InputError, NotFoundError, nearest

__all__ = ["Arm", "Measure", "arm_names", "find_arm", "read_arms"]

Measure = Literal["pooled", "macro"]
"""A cell's EER: over all trials of its test, or the mean over the spoof domains of its test."""


@dataclass
class Arm:
    """A method with its parameters at one budget, under one protocol."""

    name: str
    """What tables and figures call it: see `arm_names`."""
    method: str
    parameters: str
    budget_rows: int | None
    eers: dict[str, dict[int, float]] = field(default_factory=dict)
    """By fold, then by seed."""
    trained_on: dict[str, dict[int, Mapping[str, float | None]]] = field(default_factory=dict)
    """Of the same cells: num_rows_used, num_sources, num_generators, hours and n_eff."""

    @property
    def fold_means(self) -> dict[str, float]:
        """The mean over seeds of each fold."""
        return {fold: math.fsum(by.values()) / len(by) for fold, by in sorted(self.eers.items())}

    @property
    def seed_means(self) -> dict[int, float]:
        """The mean over folds of each seed that every fold was run with."""
        return seed_means(self.eers)

    @property
    def mean(self) -> float:
        """The mean over folds of their means over seeds: each fold counts the same."""
        means = self.fold_means
        return math.fsum(means.values()) / len(means)

    def mean_of(self, column: str) -> float | None:
        """The mean over all cells of a column of `trained_on`; None if it is unknown in one."""
        values = [cell[column] for by in self.trained_on.values() for cell in by.values()]
        known = [value for value in values if value is not None]
        return math.fsum(known) / len(known) if len(known) == len(values) else None


def seed_means(by_fold: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
    """The mean over folds of each seed that every fold has."""
    shared = set.intersection(*(set(by_seed) for by_seed in by_fold.values()))
    folds = sorted(by_fold)
    return {
        seed: math.fsum(by_fold[fold][seed] for fold in folds) / len(folds)
        for seed in sorted(shared)
    }


def read_arms(results: pa.Table, protocol: Protocol, measure: Measure = "pooled") -> list[Arm]:
    """The arms of a protocol, by name and budget (arms without a budget last).

    Under `cross` a cell's EER is the mean over the sources that it was not trained on.

    Args:
        results: the long table (`RESULTS`).
        protocol: which of its rows.
        measure: what a cell's EER is, except under `cross`.

    Raises:
        SchemaError, InputError: see `check_results`.
        NotFoundError: there is no row of that protocol and measure.
    """
    if measure not in get_args(Measure):
        raise InputError(
            "No such measure", expected=", ".join(get_args(Measure)), found=str(measure)
        )
    table = check_results(results)
    names = arm_names(table)
    scope = "source" if protocol == "cross" else {"pooled": "pooled", "macro": "domain"}[measure]
    chosen = table.filter((pc.field("protocol") == protocol) & (pc.field("scope") == scope))
    found: dict[tuple[str, str, int | None], Arm] = {}
    eers: dict[tuple[str, str, int | None, str, int], list[float]] = defaultdict(list)
    for row in chosen.to_pylist():
        if protocol == "cross" and row["test_domain"] == row["fold"]:
            continue
        key = (row["method"], row["parameters"], row["budget_rows"])
        arm = found.setdefault(key, Arm(names[key[:2]], *key))
        eers[*key, row["fold"], row["seed"]].append(row["eer"])
        columns = ("num_rows_used", "num_sources", "num_generators", "hours", "n_eff")
        cell = {column: row[column] for column in columns}
        arm.trained_on.setdefault(row["fold"], {})[row["seed"]] = cell
    if not found:
        known = sorted(set(table["protocol"].to_pylist()))
        raise NotFoundError(
            f"The results have no rows of scope {scope!r} under {protocol!r}",
            found=f"the protocols {', '.join(known) or 'none'}",
        )
    for (method, parameters, budget, fold, seed), values in eers.items():
        by_seed = found[method, parameters, budget].eers.setdefault(fold, {})
        by_seed[seed] = math.fsum(values) / len(values)
    return sorted(found.values(), key=_place)


def arm_names(results: pa.Table) -> dict[tuple[str, str], str]:
    """What to call each (method, parameters).

    The method's name, with those of its parameters in which the table's arms of that method
    differ: `doss (cap=500)`.
    """
    pairs = results.select(["method", "parameters"]).group_by(["method", "parameters"])
    of_method: dict[str, list[str]] = defaultdict(list)
    for row in pairs.aggregate([]).to_pylist():
        of_method[row["method"]].append(row["parameters"])
    names = {}
    for method, texts in of_method.items():
        options = {text: _options(text) for text in texts}
        every = sorted({name for option in options.values() for name in option})
        telling = [
            name for name in every if len({str(o.get(name)) for o in options.values()}) > 1
        ]  # fmt: skip
        for text, option in options.items():
            shown = ", ".join(f"{name}={option[name]}" for name in telling if name in option)
            names[method, text] = f"{method} ({shown})" if shown else method
    return names


def find_arm(arms: list[Arm], name: str, budget_rows: int | None) -> Arm | None:
    """The arm called `name` at a budget, else the one that has no budget; None if it has another.

    A name is an arm's, or a method's that has one arm.

    Raises:
        NotFoundError: no arm and no method is called so.
        InputError: the method has several arms.
    """
    called = {arm.name for arm in arms if name in (arm.name, arm.method)}
    if name in called:
        called = {name}
    if not called:
        raise NotFoundError(
            f"No method of the study is called {name!r}",
            fix=nearest(name, {arm.name for arm in arms}),
        )
    if len(called) > 1:
        raise InputError(
            f"The method {name!r} has several arms", found=", ".join(sorted(called)),
            fix="Name one of them",
        )  # fmt: skip
    by_budget = {arm.budget_rows: arm for arm in arms if arm.name in called}
    return by_budget.get(budget_rows, by_budget.get(None))


def _options(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(
            "Parameters are not a JSON object", where="column parameters", found=text[:80]
        )
    return found


def _place(arm: Arm) -> tuple[str, bool, int]:
    return arm.name, arm.budget_rows is None, arm.budget_rows or 0
