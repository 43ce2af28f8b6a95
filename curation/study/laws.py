"""The three scaling laws: how the EER falls with utterances N, sources S and generators G.

    A   E = E0 + a N^-p + b S^-q + c G^-r       each is a bottleneck of its own
    B   E = E0 + a N^-p S^-q G^-r               each helps by a factor
    C   log E = log a - p log N - q log S - r log G      the same without a floor

Ours; the sum and the product are the two usual readings of a power law in several quantities. A law
is evaluated for many sets of parameters at once, since its fit starts from many places and is
repeated for each resample.

Coefficients are held as logs and exponents as they are. Variables are logs from which the mean over
the design is taken away: a coefficient is then the term's size in the middle of the design, which
data tell well, where its size at N = 1 is far outside of it.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

__all__ = [
    "LAWS",
    "LOG_FLOOR",
    "MAX_EXPONENT",
    "Law",
    "bounds",
    "evaluate",
    "formula",
    "num_parameters",
    "starts",
]

Law = Literal["A", "B", "C"]
LAWS: Final[tuple[Law, ...]] = get_args(Law)

LOG_FLOOR: Final = -14.0
"""A term of exp(-14), below one error in a million, is none."""
MAX_EXPONENT: Final = 5.0
"""Steeper than any that a design of a few levels could tell from a step."""

_LOG_CEILING: Final = 2.0

Array = npt.NDArray[np.float64]


def num_parameters(law: Law, num_variables: int) -> int:
    """How many numbers are fitted."""
    return {"A": 1 + 2 * num_variables, "B": 2 + num_variables, "C": 1 + num_variables}[law]


def formula(law: Law, symbols: list[str]) -> str:
    """The law of these variables, to be read: `E = E0 + a N^-p + b S^-q`."""
    powers = [f"{symbol}^-{exponent}" for symbol, exponent in zip(symbols, "pqr", strict=False)]
    if law == "A":
        terms = (f"{c} {power}" for c, power in zip("abc", powers, strict=False))
        return " + ".join(["E = E0", *terms])
    return f"E = {'E0 + ' if law == 'B' else ''}a {' '.join(powers)}"


def bounds(law: Law, num_variables: int) -> tuple[Array, Array]:
    """The lowest and the highest value of each parameter, shapes (num_parameters,)."""
    of_log, of_exponent = (LOG_FLOOR, _LOG_CEILING), (0.0, MAX_EXPONENT)
    kinds = {
        "A": [of_log, *([of_log, of_exponent] * num_variables)],
        "B": [of_log, of_log, *([of_exponent] * num_variables)],
        "C": [of_log, *([of_exponent] * num_variables)],
    }[law]
    low, high = np.array(kinds).T
    return low, high


def evaluate(law: Law, parameters: Array, logs: Array) -> tuple[Array, Array]:
    """The log EER that a law gives, and its derivatives.

    Args:
        law: which.
        parameters: shape (batch, num_parameters). A: log E0, then log coefficient and exponent of
            each variable. B: log E0, log coefficient, exponents. C: log coefficient, exponents.
        logs: the variables' logs about their means, shape (num_points, num_variables).

    Returns:
        Log EERs of shape (batch, num_points) and derivatives of shape (batch, num_points,
        num_parameters).
    """
    if law == "C":
        values = parameters[:, :1] - parameters[:, 1:] @ logs.T
        slopes = np.concatenate([np.ones((len(logs), 1)), -logs], axis=1)
        return values, np.broadcast_to(slopes, (*values.shape, slopes.shape[1]))
    floor = np.exp(parameters[:, :1])
    jacobian = np.empty((len(parameters), len(logs), parameters.shape[1]))
    if law == "B":
        term = np.exp(parameters[:, 1:2] - parameters[:, 2:] @ logs.T)
        total = floor + term
        jacobian[..., 1] = term / total
        jacobian[..., 2:] = -(term / total)[..., None] * logs
    else:
        coefficients, exponents = parameters[:, 1::2], parameters[:, 2::2]
        terms = np.exp(coefficients[:, None] - exponents[:, None] * logs)
        total = floor + terms.sum(axis=2)
        shares = terms / total[..., None]
        jacobian[..., 1::2] = shares
        jacobian[..., 2::2] = -shares * logs
    jacobian[..., 0] = floor / total
    return np.log(total), jacobian


def starts(law: Law, log_eers: Array, num_variables: int, num_starts: int, seed: int) -> Array:
    """Places to start a fit from, shape (num_starts, num_parameters).

    They differ in how much of the smallest EER is floor, how the rest is shared between the terms,
    and how steep those are.
    """
    rng = np.random.default_rng(seed)
    smallest, middle = np.exp(log_eers.min()), np.exp(np.median(log_eers))
    exponents = rng.choice([0.05, 0.2, 0.5, 1.0, 2.0], size=(num_starts, num_variables))
    floors = smallest * rng.choice([0.05, 0.3, 0.6, 0.9], size=num_starts)
    rest = np.maximum(middle - floors, 0.05 * middle)
    if law == "C":
        return np.concatenate([np.full((num_starts, 1), np.log(middle)), exponents], axis=1)
    if law == "B":
        logs = np.log(np.stack([floors, rest], axis=1))
        return np.concatenate([logs, exponents], axis=1)
    shares = rng.dirichlet(np.ones(num_variables), size=num_starts)
    found = np.empty((num_starts, 1 + 2 * num_variables))
    found[:, 0] = np.log(floors)
    found[:, 1::2] = np.log(rest[:, None] * np.maximum(shares, 0.01))
    found[:, 2::2] = exponents
    return found
