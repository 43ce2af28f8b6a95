"""The cells of a study's grid, what became of them, and the folder that keeps that.

A cell's file is named by a hash of all that decides its result, and written once, whole or not at
all. So a study that was killed goes on where it stopped, and one whose design grew trains only what
is new.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from curation.study.design import Method, ProtocolPlan, StudyDesign
from curation.study.folds import FoldName
from datalake.errors import StoreError
from datalake.lake.lineage import config_sha256
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["Cell", "CellOutcome", "CellStore", "cells_of"]

_FORMAT: Final = 1
"""Of what decides a result and of how it is kept: a larger one trains every cell anew."""


@dataclass(frozen=True)
class Cell:
    """One training and its test."""

    method: Method
    budget_rows: int | None
    fold: FoldName
    seed: int

    @property
    def columns(self) -> dict[str, Any]:
        """The columns `curation.study.results.CELL`."""
        return {
            "method": self.method.name,
            "parameters": self.method.parameters_text,
            "budget_rows": self.budget_rows,
            "protocol": self.fold.protocol,
            "fold": self.fold.fold,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        budget = "all rows" if self.budget_rows is None else f"{self.budget_rows:,} rows"
        return f"{self.method.name}, {budget}, {self.fold}, seed {self.seed}"


@dataclass
class CellOutcome:
    """What became of a cell: results, or why there are none. Picklable and small."""

    index: int
    results: tuple[Mapping[str, Any], ...] = ()
    """Rows of `RESULTS`."""
    mixture: tuple[Mapping[str, Any], ...] = ()
    """Rows of `MIXTURES`."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """How it was trained, and what is to be known of its choice of rows."""
    failure: str = ""
    """Why it failed; empty if it did not."""


def cells_of(design: StudyDesign, folds: Sequence[FoldName]) -> list[Cell]:
    """The grid: seed by seed, so that what a study was stopped at covers all methods."""
    return [
        Cell(method, budget, fold, seed)
        for seed in design.seeds
        for fold in folds
        for method in design.methods
        for budget in method.budgets
    ]


class CellStore:
    """A folder with one file a cell.

    Args:
        folder: made if it is not there.
        design: the study.
        table_version: the version of its table.
        table_run: the run that made it: versions of a lake that was made anew count from 1 again.

    Raises:
        StoreError: the folder cannot be made.
    """

    def __init__(
        self, folder: Path, design: StudyDesign, table_version: int, table_run: str
    ) -> None:
        self._done = folder / "cells"
        self._failed = folder / "failed"
        # What a study asks of its grid as a whole decides no cell.
        shared = design.as_dict()
        for name in ("methods", "protocols", "seeds", "baselines", "compared"):
            del shared[name]
        self._shared = {
            **shared,
            "table_version": table_version,
            "table_run": table_run,
            "versions": _versions(),
        }
        self._protocols = {plan.protocol: plan for plan in design.protocols}
        with translated(Location(str(folder)), "Making the folder of a study"):
            for each in (self._done, self._failed):
                each.mkdir(parents=True, exist_ok=True)

    def key(self, cell: Cell) -> str:
        """The name of a cell's file: a hash of all that decides its result."""
        return config_sha256(
            {
                "format": _FORMAT,
                "study": self._shared,
                "fold": _fold_facts(self._protocols[cell.fold.protocol], cell.fold),
                "verb": cell.method.verb,
                "plugin": cell.method.plugin,
                "cell": cell.columns,
            }
        )[:32]

    def read(self, cell: Cell) -> CellOutcome | None:
        """What a cell came to, if it is known. A failure is not: the cell is tried again.

        Raises:
            StoreError: its file was changed by someone else.
        """
        path = self._done / f"{self.key(cell)}.json"
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            return CellOutcome(-1, tuple(kept["results"]), tuple(kept["mixture"]), kept["record"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                "The result of a cell cannot be read",
                where=str(path),
                found=f"{type(error).__name__}: {error}",
                fix="Remove the file: its cell is trained again",
            ) from error

    def write(self, cell: Cell, outcome: CellOutcome) -> None:
        """Keep what a cell came to.

        Raises:
            StoreError: it cannot be written.
        """
        name = f"{self.key(cell)}.json"
        kept = {"cell": cell.columns, **asdict(outcome)}
        del kept["index"]
        folder = self._failed if outcome.failure else self._done
        target = folder / name
        # A name of its own: two studies may share a folder.
        partial = target.with_name(f".{name}.{os.getpid()}.partial")
        with translated(Location(str(target)), "Writing the result of a cell"):
            partial.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            partial.replace(target)
            if not outcome.failure:
                (self._failed / name).unlink(missing_ok=True)


def _fold_facts(plan: ProtocolPlan, fold: FoldName) -> dict[str, Any]:
    """What decides a fold: not which others there are."""
    if plan.protocol != "logo":
        return {"protocol": plan.protocol}
    return {
        "protocol": plan.protocol,
        "generators": plan.groups.get(fold.fold, (fold.fold,)),
        "bonafide_fraction": plan.bonafide_fraction,
        "seed": plan.seed,
    }


@cache
def _versions() -> dict[str, str]:
    """Of what computes a result: releases. A checkout's commits are in each cell's record."""
    found = {}
    for package in ("datalake", "torch", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
