"""All that a report says in numbers, found once for the page and for the tables."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from curation.report.record import StudyRecord
from curation.study.arms import Arm, Measure, arm_names, read_arms
from curation.study.comparisons import COMPARISONS, Unit, compare
from curation.study.cross_source import CrossMatrix, cross_matrix
from curation.study.intervals import NUM_RESAMPLES
from curation.study.results import PROTOCOLS, Protocol
from curation.study.scaling import Scaling, fit_laws
from curation.study.scaling_points import scaling_points
from curation.study.statistics import Findings, mean_eers
from datalake.errors import InputError

__all__ = ["Analysis", "ArmMixture", "DomainShare", "MethodScaling", "ProtocolFindings", "analyse"]


@dataclass(frozen=True)
class ProtocolFindings:
    """What one protocol says."""

    protocol: Protocol
    means: Findings
    comparisons: Findings
    fold_means: Mapping[tuple[str, int | None], Mapping[str, float]]
    """By arm and budget: each fold's mean over its seeds."""


@dataclass(frozen=True)
class MethodScaling:
    """The laws of one method, or why there are none."""

    protocol: Protocol
    method: str
    points: pa.Table
    scaling: Scaling | None
    reason: str


@dataclass(frozen=True)
class DomainShare:
    """What an arm makes of a domain, means over the cells that have it."""

    domain: str
    mass: float
    """Its share of the draws."""
    retention: float
    """The share of its rows that is kept."""
    binds: float
    """The share of cells in which a limit changed what it counts for."""
    num_rows: float


@dataclass(frozen=True)
class ArmMixture:
    """What an arm was trained on, under the protocol that a report shows mixtures of."""

    arm: str
    budget_rows: int | None
    n_eff: float
    num_rows: float
    domains: tuple[DomainShare, ...]
    """The largest in rows first."""


@dataclass(frozen=True)
class Analysis:
    """A study's record and what follows from it."""

    record: StudyRecord
    baselines: tuple[str, ...]
    measure: Measure
    over: Unit
    level: float
    protocols: tuple[ProtocolFindings, ...]
    matrices: tuple[CrossMatrix, ...]
    scalings: tuple[MethodScaling, ...]
    mixture_protocol: Protocol
    mixtures: tuple[ArmMixture, ...]

    @property
    def seeds(self) -> list[int]:
        """All seeds of the results."""
        return sorted(set(self.record.results["seed"].to_pylist()))


def analyse(
    record: StudyRecord,
    *,
    baselines: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    measure: Measure = "pooled",
    over: Unit = "fold",
    level: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
    num_refits: int = 200,
    seed: int = 0,
) -> Analysis:
    """Compute everything that a report shows.

    Args:
        record: the study.
        baselines: what the other methods are compared with; None for those of its design.
        methods: what is compared with them; None for those of its design. Means are shown of all.
        measure: what a cell's EER is: `pooled` or `macro`.
        over: the unit of tests and intervals of differences.
        level: of the intervals.
        num_resamples: of bootstraps over folds.
        num_refits: of scaling laws, for their intervals.
        seed: of all of these.

    Raises:
        InputError, NotFoundError: a baseline or an option cannot be used.
    """
    design = record.facts.get("design", {})
    of_design = list(design.get("baselines") or ())
    asked = methods if methods is not None else design.get("compared") or None
    present = set(record.results["protocol"].to_pylist())
    protocols = tuple(p for p in PROTOCOLS if p in present)
    found, scalings = [], []
    for protocol in protocols:
        means = mean_eers(
            record.results, protocol, measure=measure, level=level, num_resamples=num_resamples,
            seed=seed,
        )  # fmt: skip
        arms = read_arms(record.results, protocol, measure)
        comparisons = Findings(COMPARISONS.empty_table(), ())
        # A baseline of the design whose cells all failed here is missed in the record's failures.
        names = {name for arm in arms for name in (arm.name, arm.method)}
        held = [name for name in of_design if name in names] if baselines is None else baselines
        if methods is None and asked is not None:
            asked = [name for name in asked if name in names]
        if held:
            comparisons = compare(
                record.results, protocol, held, methods=asked, measure=measure, over=over,
                level=level, num_resamples=num_resamples, seed=seed,
            )  # fmt: skip
        folds = {(arm.name, arm.budget_rows): arm.fold_means for arm in arms}
        found.append(ProtocolFindings(protocol, means, comparisons, folds))
        # Under `cross` there is one source to train on.
        for method in sorted({arm.method for arm in arms}) if protocol != "cross" else ():
            of_method = [arm for arm in arms if arm.method == method]
            if _asks_for_laws(of_method):
                scalings.append(
                    _scaling(record, protocol, method, measure, level, num_refits, seed)
                )
    return Analysis(
        record=record,
        baselines=tuple(of_design if baselines is None else baselines),
        measure=measure,
        over=over,
        level=level,
        protocols=tuple(found),
        matrices=tuple(_matrices(record)) if "cross" in protocols else (),
        scalings=tuple(scalings),
        mixture_protocol=protocols[0],
        mixtures=tuple(_mixtures(record, protocols[0])),
    )


def _asks_for_laws(arms: Sequence[Arm]) -> bool:
    """Whether a method was given training sets of several sizes, or of several diversities."""
    budgets = {arm.budget_rows for arm in arms}
    grid = {arm.parameters for arm in arms if "num_generators" in json.loads(arm.parameters)}
    return len(budgets) > 1 or len(grid) > 1


def _scaling(
    record: StudyRecord,
    protocol: Protocol,
    method: str,
    measure: Measure,
    level: float,
    num_refits: int,
    seed: int,
) -> MethodScaling:
    """The laws of a method, or why none can be fitted."""
    points = scaling_points(record.results, protocol, methods=[method], measure=measure)
    try:
        scaling = fit_laws(points, level=level, num_resamples=num_refits, seed=seed)
    except InputError as error:
        return MethodScaling(protocol, method, points, None, error.found or error.what)
    return MethodScaling(protocol, method, points, scaling, "")


def _matrices(record: StudyRecord) -> list[CrossMatrix]:
    arms = read_arms(record.results, "cross")
    return [cross_matrix(record.results, arm.name, budget_rows=arm.budget_rows) for arm in arms]


def _mixtures(record: StudyRecord, protocol: Protocol) -> list[ArmMixture]:
    names = arm_names(record.results)
    seen: dict[tuple[str, int | None], dict[str, list[Mapping[str, Any]]]] = defaultdict(dict)
    for row in record.mixtures.filter(pc.field("protocol") == protocol).to_pylist():
        name = names.get((row["method"], row["parameters"]))
        if name is not None:
            seen[name, row["budget_rows"]].setdefault(row["domain"], []).append(row)
    found = []
    for arm in read_arms(record.results, protocol):
        by_domain = seen.get((arm.name, arm.budget_rows))
        if not by_domain:
            continue
        shares = [
            DomainShare(
                domain,
                *(_mean(rows, name) for name in ("mass", "retention", "binds", "num_rows")),
            )
            for domain, rows in by_domain.items()
        ]
        found.append(
            ArmMixture(
                arm.name,
                arm.budget_rows,
                arm.mean_of("n_eff") or 0.0,
                arm.mean_of("num_rows_used") or 0.0,
                tuple(sorted(shares, key=lambda share: (-share.num_rows, share.domain))),
            )
        )
    return found


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return math.fsum(float(row[name]) for row in rows) / len(rows)
