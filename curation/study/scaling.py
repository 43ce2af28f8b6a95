"""How the EER scales with utterances, sources and generators: laws fitted, compared and judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.study.intervals import Bounds, check_level
from curation.study.laws import (
    LAWS,
    LOG_FLOOR,
    MAX_EXPONENT,
    Law,
    evaluate,
    formula,
    starts,
)
from curation.study.robust_fit import fit_batch
from curation.study.scaling_design import reason_against, usable_points, varying_variables
from curation.study.scaling_points import Variable
from datalake.errors import InputError

__all__ = ["Fit", "Prediction", "Scaling", "fit_laws"]

_SYMBOLS: Final[Mapping[str, str]] = {
    "num_rows": "N",
    "hours": "H",
    "num_sources": "S",
    "num_generators": "G",
}
_NONE: Final = LOG_FLOOR + 2
"""A term below is reported as 0: a fit creeps towards the floor, and stops before it."""

_DELTA: Final = 0.1
_NUM_STARTS: Final = 24

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """What a law expects of a training set."""

    eer: float
    low: float | None
    high: float | None
    """Between which the laws refitted to resamples lie: not the noise of one training."""
    extrapolates: tuple[str, ...]
    """What is outside of the design, and by how much; empty inside."""


@dataclass(frozen=True)
class Fit:
    """One law, fitted."""

    law: Law
    formula: str
    variables: tuple[Variable, ...]
    parameters: Mapping[str, float]
    """E0, coefficients a, b, c in the units of the variables, exponents p, q, r."""
    intervals: Mapping[str, Bounds]
    """Of each parameter, from the resamples; empty without them."""
    loss: float
    """Mean Huber loss of the log residuals."""
    fit_error: float
    """Root mean square log residual; .1 is near 10 %."""
    loo_error: float
    """The same for cells that the fit did not see: what laws are compared by."""
    remarks: tuple[str, ...]
    ranges: Mapping[str, Bounds]
    """The lowest and highest value of each variable in the design."""
    theta: Array
    """As fitted, shape (num_parameters,); see `laws`."""
    replicates: Array
    """Refits to resamples, shape (num_resamples, num_parameters)."""
    log_means: Array
    level: float

    def predict(self, **at: float) -> Prediction:
        """The EER expected of a training set, with its interval, flagged where it extrapolates.

        Args:
            **at: a value for each of `variables`.

        Raises:
            InputError: a variable is missing, unknown or not above 0.
        """
        if set(at) != set(self.variables) or any(not value > 0 for value in at.values()):
            raise InputError(
                "A prediction needs a value above 0 for each variable of the law",
                expected=", ".join(self.variables),
                found=", ".join(f"{name}={value}" for name, value in at.items()),
            )
        logs = np.log([[at[name] for name in self.variables]]) - self.log_means
        eer = float(np.exp(evaluate(self.law, self.theta[None], logs)[0][0, 0]))
        low = high = None
        if len(self.replicates):
            values = np.exp(evaluate(self.law, self.replicates, logs)[0][:, 0])
            low, high = (float(q) for q in np.quantile(values, _tails(self.level)))
        beyond = []
        for name in self.variables:
            lowest, highest = self.ranges[name]
            if at[name] > highest * (1 + 1e-9):
                beyond.append(f"{name} is {at[name] / highest:.3g} times the largest seen")
            elif at[name] < lowest * (1 - 1e-9):
                beyond.append(f"{name} is {at[name] / lowest:.3g} times the smallest seen")
        return Prediction(eer, low, high, tuple(beyond))


@dataclass(frozen=True)
class Scaling:
    """All laws that the design can tell apart, the best by leave-one-out first."""

    fits: tuple[Fit, ...]
    refused: Mapping[str, str]
    """Laws that this design cannot identify, and why."""
    num_points: int
    num_cells: int
    remarks: tuple[str, ...]

    @property
    def best(self) -> Fit:
        """The law that told unseen cells best."""
        return self.fits[0]


def fit_laws(
    points: pa.Table,
    *,
    variables: Sequence[Variable] = ("num_rows", "num_sources", "num_generators"),
    laws: Sequence[Law] = LAWS,
    level: float = 0.95,
    num_resamples: int = 500,
    num_starts: int = _NUM_STARTS,
    delta: float = _DELTA,
    seed: int = 0,
) -> Scaling:
    """Fit the laws A, B and C and compare them by what they say of cells they did not see.

    The loss is Huber's on log residuals, exponents are at least 0, and each fit starts from several
    places. A variable that does not vary is left out: its term is part of E0 (or of a). A cell is
    a combination of variables; leave-one-out leaves whole cells out, since another training of the
    same cell would tell the answer.

    Intervals come from refits to resampled log residuals (widened by n / (n - parameters)), which
    keep the design as it is: drawing its points would often leave designs that no law can be
    fitted to. They hold for a law that is true; the leave-one-out error says how true it is.

    Args:
        points: columns `eer` and the variables, as `POINTS`. Their order does not matter.
        variables: what the EER may depend on.
        laws: which laws to fit.
        level: of the intervals.
        num_resamples: refits for the intervals; 0 for no intervals.
        num_starts: places that a fit starts from.
        delta: where Huber's loss turns from square to straight, in log EER.
        seed: of starts and resamples.

    Raises:
        SchemaError: a column is missing.
        InputError: a value is not above 0; no variable varies; or the design identifies none of
            the laws (says why for each).
    """
    check_level(level)
    table, remarks = usable_points(points, variables)
    varying, notes = varying_variables(table, variables)
    remarks += notes
    logs = np.log(np.array([table[name].to_numpy() for name in varying], np.float64).T)
    log_eers = np.log(table["eer"].to_numpy())
    # The order of the rows decides nothing, not even the last bit of a sum.
    order = np.lexsort((log_eers, *logs.T))
    logs, log_eers = logs[order], log_eers[order]
    _, cells = np.unique(logs.round(9), axis=0, return_inverse=True)
    num_cells = int(cells.max()) + 1
    refused: dict[str, str] = {}
    fits = []
    for law in laws:
        reason = reason_against(law, logs, varying, num_cells)
        if reason:
            refused[law] = reason
            continue
        design = _Design(law, varying, logs, log_eers, cells.ravel(), delta, num_starts, seed)
        fits.append(_fit(design, level, num_resamples))
    if not fits:
        raise InputError(
            "The design identifies none of the laws",
            found="; ".join(f"{law}: {reason}" for law, reason in refused.items()),
            fix="Add cells with other numbers of rows, sources and generators",
        )
    # A tie goes to the law with fewer parameters.
    fits.sort(key=lambda fit: (round(fit.loo_error, 12), len(fit.theta)))
    return Scaling(tuple(fits), refused, len(log_eers), num_cells, tuple(remarks))


@dataclass(frozen=True)
class _Design:
    law: Law
    variables: tuple[Variable, ...]
    raw_logs: Array
    log_eers: Array
    cells: npt.NDArray[np.int64]
    delta: float
    num_starts: int
    seed: int

    @property
    def log_means(self) -> Array:
        return np.asarray(self.raw_logs.mean(axis=0), np.float64)

    @property
    def logs(self) -> Array:
        return self.raw_logs - self.log_means

    def best_of(self, log_eers: Array, present: Array, places: Array) -> tuple[Array, Array]:
        """The best fit of each row from all places: (rows, parameters) and (rows,)."""
        num_rows, num_places = len(log_eers), len(places)
        theta, loss = fit_batch(
            self.law,
            self.logs,
            np.repeat(log_eers, num_places, axis=0),
            np.repeat(present, num_places, axis=0),
            np.tile(places, (num_rows, 1)),
            delta=self.delta,
        )
        best = loss.reshape(num_rows, num_places).argmin(axis=1)
        rows = np.arange(num_rows) * num_places + best
        return theta[rows], loss[rows]


def _fit(design: _Design, level: float, num_resamples: int) -> Fit:
    log_eers, num_points = design.log_eers, len(design.log_eers)
    places = starts(
        design.law, log_eers, len(design.variables), design.num_starts, design.seed
    )  # fmt: skip
    everything = np.ones((1, num_points))
    theta, loss = design.best_of(log_eers[None], everything, places)
    theta = theta[0]
    values = evaluate(design.law, theta[None], design.logs)[0][0]
    residuals = log_eers - values
    # What is near the whole fit is a good start for a fit to most of it.
    near = np.concatenate([theta[None], places[:6]])
    num_cells = int(design.cells.max()) + 1
    present = (design.cells[None] != np.arange(num_cells)[:, None]).astype(np.float64)
    without, _ = design.best_of(np.tile(log_eers, (num_cells, 1)), present, near)
    unseen = log_eers - evaluate(design.law, without, design.logs)[0]
    squares = unseen[design.cells, np.arange(num_points)] ** 2
    replicates = np.empty((0, len(theta)))
    if num_resamples:
        rng = np.random.default_rng(design.seed)
        spread = (residuals - residuals.mean()) * math.sqrt(num_points / (num_points - len(theta)))
        drawn = spread[rng.integers(num_points, size=(num_resamples, num_points))]
        full = np.ones((num_resamples, num_points))
        replicates, _ = design.best_of(values + drawn, full, near[:2])
    parameters = _named(design, theta[None])
    refitted = _named(design, replicates)
    tails = _tails(level)
    intervals = {
        name: (float(ends[0]), float(ends[1]))
        for name, seen in refitted.items()
        if len(seen)
        for ends in [np.quantile(seen, tails)]
    }
    return Fit(
        law=design.law,
        formula=formula(design.law, [_SYMBOLS[name] for name in design.variables]),
        variables=design.variables,
        parameters={name: float(value[0]) for name, value in parameters.items()},
        intervals=intervals,
        loss=float(loss[0]) / num_points,
        fit_error=math.sqrt(float((residuals**2).mean())),
        loo_error=math.sqrt(math.fsum(squares) / num_points),
        remarks=tuple(_weak(design, parameters, refitted, num_cells)),
        ranges={
            name: (float(np.exp(column.min())), float(np.exp(column.max())))
            for name, column in zip(design.variables, design.raw_logs.T, strict=True)
        },
        theta=theta,
        replicates=replicates,
        log_means=design.log_means,
        level=level,
    )


def _named(design: _Design, theta: Array) -> dict[str, Array]:
    """Parameters as the formula has them; coefficients moved from the middle to N = S = G = 1."""
    found: dict[str, Array] = {}
    law, means = design.law, design.log_means
    if law != "C":
        log_floor = theta[:, 0]
        found["E0"] = np.where(log_floor <= _NONE, 0.0, np.exp(log_floor))
    if law == "A":
        for index, (c, exponent) in enumerate(zip("abc", "pqr", strict=True)):
            if index < len(means):
                log_c, power = theta[:, 1 + 2 * index], theta[:, 2 + 2 * index]
                none = log_c <= _NONE
                found[c] = np.where(none, 0.0, np.exp(log_c + power * means[index]))
                found[exponent] = power
        return found
    first = 1 if law == "B" else 0
    powers = theta[:, first + 1 :]
    found["a"] = np.exp(theta[:, first] + powers @ means)
    return found | {name: powers[:, i] for i, name in enumerate("pqr"[: len(means)])}


def _weak(
    design: _Design,
    parameters: Mapping[str, Array],
    refitted: Mapping[str, Array],
    num_cells: int,
) -> list[str]:
    """Which numbers the data do not hold fast."""
    remarks = []
    if num_cells < len(parameters) + 3:
        remarks.append(
            f"{num_cells} cells for {len(parameters)} numbers are a weak ground: more budgets, or "
            "subsets of sources and generators, would hold them faster."
        )
    for exponent, variable in zip("pqr", design.variables, strict=False):
        value, seen = float(parameters[exponent][0]), refitted[exponent]
        at_zero = float((seen < 1e-6).mean()) if len(seen) else float(value < 1e-6)
        if value < 1e-6 or at_zero > 0.025:
            remarks.append(
                f"{exponent}: no gain from more {variable.removeprefix('num_')} is shown; the "
                f"exponent is 0 in {at_zero:.0%} of the refits."
            )
        if value >= MAX_EXPONENT - 1e-6:
            remarks.append(f"{exponent} stands at its limit of {MAX_EXPONENT:g}: read a step.")
    if "E0" in parameters and len(refitted["E0"]):
        at_zero = float((refitted["E0"] == 0).mean())
        if at_zero > 0.025:
            remarks.append(f"A floor is not shown: E0 is 0 in {at_zero:.0%} of the refits.")
    return remarks


def _tails(level: float) -> tuple[float, float]:
    return (1 - level) / 2, (1 + level) / 2
