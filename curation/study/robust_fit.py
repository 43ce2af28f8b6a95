"""Many robust fits of one law at once: Levenberg-Marquardt within bounds, on Huber's loss."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from curation.study.laws import Law, bounds, evaluate

__all__ = ["fit_batch", "huber"]

Array = npt.NDArray[np.float64]

_MAX_STEPS: Final = 300
_TOLERANCE: Final = 1e-12


def huber(residuals: Array, delta: float) -> Array:
    """Huber's loss: r^2 / 2 up to `delta`, and a straight line from there (Huber, 1964)."""
    size = np.abs(residuals)
    return np.where(size <= delta, size * size / 2, delta * (size - delta / 2))


def fit_batch(
    law: Law,
    logs: Array,
    log_eers: Array,
    present: Array,
    starts: Array,
    *,
    delta: float,
) -> tuple[Array, Array]:
    """Fit a law to each of several data sets from a start for each; one row a fit.

    Levenberg-Marquardt on the reweighted squares whose minimum is that of Huber's loss. A step is
    cut to the bounds; a parameter that stands on one and would leave is held for that step. Rows
    do not see each other: a fit's result is that of the same fit alone.

    Args:
        law: which.
        logs: shape (num_points, num_variables), see `laws.evaluate`.
        log_eers: shape (batch, num_points).
        present: 1 for the points that count and 0 for those left out, shape (batch, num_points).
        starts: shape (batch, num_parameters).
        delta: of Huber's loss, in log EER.

    Returns:
        Parameters (batch, num_parameters) and the loss, a sum over points (batch,).
    """
    low, high = bounds(law, logs.shape[1])
    theta = np.clip(starts, low, high)
    values, jacobian = evaluate(law, theta, logs)
    residuals = log_eers - values
    loss = (present * huber(residuals, delta)).sum(axis=1)
    damping = np.full(len(theta), 1e-2)
    active = np.ones(len(theta), dtype=np.bool_)
    eye = np.eye(theta.shape[1])
    for _ in range(_MAX_STEPS):
        rows = np.flatnonzero(active)
        if not len(rows):
            break
        r, j = residuals[rows], jacobian[rows]
        weights = present[rows] * np.minimum(1.0, delta / np.maximum(np.abs(r), 1e-300))
        gradient = np.einsum("bnk,bn->bk", j, weights * r)
        normal = np.einsum("bnk,bnl->bkl", j * weights[..., None], j)
        at = theta[rows]
        held = ((at <= low) & (gradient < 0)) | ((at >= high) & (gradient > 0))
        free = ~held
        normal = normal * (free[:, :, None] & free[:, None, :])
        diagonal = np.einsum("bkk->bk", normal)
        # A parameter that nothing hangs on would make the system singular: it stays where it is.
        add = damping[rows, None] * np.maximum(diagonal, 1e-10) + held
        steps = np.linalg.solve(normal + add[..., None] * eye, (gradient * free)[..., None])[..., 0]
        tried = np.clip(at + steps, low, high)
        new_values, new_jacobian = evaluate(law, tried, logs)
        new_residuals = log_eers[rows] - new_values
        new_loss = (present[rows] * huber(new_residuals, delta)).sum(axis=1)
        better = new_loss <= loss[rows]
        moved = np.abs(tried - at).max(axis=1)
        gain = loss[rows] - new_loss
        took = rows[better]
        done = better & (gain <= _TOLERANCE * (loss[rows] + 1e-30)) & (moved <= 1e-7)
        theta[took], residuals[took] = tried[better], new_residuals[better]
        jacobian = _with_rows(jacobian, took, new_jacobian[better])
        loss[took] = new_loss[better]
        damping[rows] = np.clip(np.where(better, damping[rows] / 5, damping[rows] * 4), 1e-9, 1e12)
        active[rows[done | (damping[rows] >= 1e10)]] = False
    return theta, loss


def _with_rows(jacobian: Array, rows: npt.NDArray[np.int64], new: Array) -> Array:
    """The Jacobians with some replaced; a linear law's are one that is shared, and stay."""
    if jacobian.flags.writeable:
        jacobian[rows] = new
    return jacobian
