"""The work of one cell: choose, train, test. Runs in this process or in a worker of Ray."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from curation.metrics import eer
from curation.probe import (
    Design,
    FeatureStore,
    TrainingResult,
    load_design,
    read_keys,
    train,
)
from curation.probe.keys import is_bonafide
from curation.study.cells import Cell, CellOutcome
from curation.study.choice import Choice, choose
from curation.study.design import StudyDesign
from curation.study.folds import Fold, FoldName, fold_of
from datalake.errors import LakeError
from datalake.lake import open_lake
from datalake.lake.lineage import code_version
from datalake.tables import Table

__all__ = ["CellJob", "detector_design", "read_side_keys"]

_FOLDS_KEPT: Final = 64
_GPU_SHARE: Final = 0.25


def detector_design(design: StudyDesign) -> Design:
    """The detector of a study.

    Raises:
        NotFoundError: there is none of that name.
        ConfigError: it hears audio, and the study names an embedding.
    """
    detector = load_design(design.detector)
    return detector if design.embedding is None else detector.reading(design.embedding)


def read_side_keys(table: Table, where: str | None) -> pa.Table:
    """The columns of `read_keys`, and `duration_s`: null where the table has none.

    Raises:
        SchemaError: the table has no utt_id, label or domain.
        PredicateError: `where` does not parse.
    """
    keys = read_keys(table, where=where)
    durations = np.full(table.count_rows(), np.nan)
    if "duration_s" in table.schema.names:
        for batch in table.scan(["duration_s"], where=where, with_row_index=True):
            values = batch["duration_s"].cast(pa.float64()).to_numpy(zero_copy_only=False)
            durations[batch["row_index"].to_numpy()] = values
    own = durations[keys["row_index"].to_numpy()]
    return keys.append_column("duration_s", pa.array(own, from_pandas=True))


@dataclass(frozen=True)
class CellJob:
    """Trains and tests the cells of a study: unit i is cell i. Picklable and small.

    A process reads the table's keys once, and computes the features of a row once, whatever the
    number of its cells. Memory: the keys of all rows, some 300 bytes each; a fold two bytes a row.
    """

    lake_uri: str
    design: StudyDesign
    table_version: int
    cells: tuple[Cell, ...]

    def stage(self, index: int) -> CellOutcome:
        """Train and test one cell. What goes wrong with it is its outcome."""
        cell = self.cells[index]
        try:
            with _threads(self.design.threads), _quiet():
                return self._worked(index, cell)
        except LakeError as error:
            return CellOutcome(index, failure=str(error))
        except Exception as error:
            # Methods and detectors are plug-ins: anything may come out of them, and the other
            # cells of a night's work are not to be lost for it.
            what = " ".join(str(error).split())
            return CellOutcome(index, failure=f"Unexpected {type(error).__name__}: {what}")

    def _worked(self, index: int, cell: Cell) -> CellOutcome:
        began = time.monotonic()
        bench = _bench(self.lake_uri, self.design_key, self)
        fold = bench.fold(cell.fold)
        side = bench.keys.filter(pa.array(fold.sides.train))
        test = bench.keys.filter(pa.array(fold.sides.test))
        choice = choose(
            bench.table, self.design.table, side, cell.method, cell.budget_rows, cell.seed
        )
        settings = replace(
            self.design.training,
            seed=cell.seed,
            sampling="weights" if choice.is_weighted else "balanced",
        )
        trained = train(bench.store, choice.keys, bench.detector, settings)
        rows = test["row_index"].to_numpy().astype(np.int64)
        scores = bench.store.scores(trained.detector, rows)
        used = {
            **cell.columns,
            "num_rows_used": choice.keys.num_rows,
            "num_sources": _distinct(choice.keys, "source"),
            "num_generators": _distinct(choice.keys, "generator"),
            "hours": choice.hours,
            "n_eff": choice.num_effective_domains,
            "seconds": time.monotonic() - began,
        }
        return CellOutcome(
            index,
            results=tuple({**used, **found} for found in _rates(test, scores)),
            mixture=tuple({**cell.columns, **line} for line in choice.mixture.to_pylist()),
            record=_record(choice, trained),
        )

    @property
    def num_gpus(self) -> float:
        """Cells are small: some share a GPU, where a cluster has any."""
        return 0.0 if self.design.device == "cpu" else _GPU_SHARE

    @property
    def design_key(self) -> str:
        """What a process keeps its keys and features under."""
        return repr((self.design, self.table_version))


class _Bench:
    """What a process keeps from one cell to the next."""

    def __init__(self, job: CellJob) -> None:
        design = job.design
        self.table = open_lake(job.lake_uri)[design.table].at(job.table_version)
        self.keys = read_side_keys(self.table, design.where)
        self.detector = detector_design(design)
        self.store = FeatureStore(
            self.table, self.detector, duration_s=design.seconds, device=design.device
        )
        self._plans = {plan.protocol: plan for plan in design.protocols}
        self._folds: dict[FoldName, Fold] = {}

    def fold(self, name: FoldName) -> Fold:
        """A fold, made anew or kept."""
        if name not in self._folds:
            if len(self._folds) >= _FOLDS_KEPT:
                del self._folds[next(iter(self._folds))]
            self._folds[name] = fold_of(self.keys, self._plans[name.protocol], name.fold)
        return self._folds[name]


_BENCHES: dict[tuple[str, str], _Bench] = {}


def _bench(lake_uri: str, key: str, job: CellJob) -> _Bench:
    """The bench of a study in this process; that of another study goes, with its features."""
    if (lake_uri, key) not in _BENCHES:
        _BENCHES.clear()
        _BENCHES[lake_uri, key] = _Bench(job)
    return _BENCHES[lake_uri, key]


def _rates(test: pa.Table, scores: npt.NDArray[np.float64]) -> Iterator[dict[str, Any]]:
    """EERs of a test: pooled; of each spoof domain against all bona fide rows; of each source."""
    bonafide = is_bonafide(test)
    domains, sources = (test[name].to_numpy(zero_copy_only=False) for name in ("domain", "source"))

    def rate(scope: str, name: str | None, rows: npt.NDArray[np.bool_]) -> dict[str, Any]:
        return {
            "scope": scope,
            "test_domain": name,
            "eer": eer(scores[rows & bonafide], scores[rows & ~bonafide]),
            "num_bonafide": int((rows & bonafide).sum()),
            "num_spoof": int((rows & ~bonafide).sum()),
        }

    yield rate("pooled", None, np.ones(len(scores), np.bool_))
    for name in sorted(set(domains[~bonafide])):
        yield rate("domain", name, bonafide | (domains == name))
    for name in sorted(set(sources)):
        rows = sources == name
        if (rows & bonafide).any() and (rows & ~bonafide).any():
            yield rate("source", name, rows)


def _record(choice: Choice, trained: TrainingResult) -> dict[str, Any]:
    best = min(trained.history, key=lambda each: each.validation_loss)
    return {
        "code_version": code_version(),
        "remarks": list(choice.remarks),
        "choice": dict(choice.facts),
        "num_steps": trained.num_steps,
        "best_step": trained.best_step,
        "num_training_rows": trained.num_training_rows,
        "num_validation_rows": trained.num_validation_rows,
        "validation_eer": best.validation_eer,
    }


def _distinct(keys: pa.Table, column: str) -> int:
    rows = keys if column == "source" else keys.filter(pa.array(~is_bonafide(keys)))
    return len(rows[column].drop_null().unique())


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Torch works with so many threads: sums depend on it, and workers share a machine's cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Remarks on selections are in each cell's record; a study has thousands of selections."""
    loggers = [logging.getLogger(f"curation.selection.{name}") for name in ("run", "weigh")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
