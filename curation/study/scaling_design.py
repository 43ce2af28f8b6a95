"""What a design of training sets can tell about a scaling law, and what it cannot."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.study.laws import Law, num_parameters
from curation.study.scaling_points import Variable
from datalake.errors import InputError, SchemaError

__all__ = ["reason_against", "usable_points", "varying_variables"]

Array = npt.NDArray[np.float64]


def usable_points(points: pa.Table, variables: Sequence[Variable]) -> tuple[pa.Table, list[str]]:
    """The columns needed, of the points whose EER has a log; a remark on the others.

    Raises:
        SchemaError: a column is missing.
        InputError: the variables are none or too many, or a value is not above 0.
    """
    if not variables or len(variables) > 3 or len(set(variables)) < len(variables):
        raise InputError(
            "A law has one to three variables", found=", ".join(variables) or "none"
        )  # fmt: skip
    for name in (*variables, "eer"):
        if name not in points.column_names:
            raise SchemaError("Points lack a column", expected=name)
        values = points[name].to_numpy()
        bad = np.flatnonzero(
            ~np.isfinite(values) | (values < 0) | ((values == 0) & (name != "eer"))
        )
        if len(bad):
            raise InputError(
                "A law needs finite values above 0",
                where=f"row {bad[0]:,}, column {name}",
                found=str(values[bad[0]]),
            )
    table = points.select([*dict.fromkeys((*variables, "eer"))])
    perfect = table["eer"].to_numpy() == 0
    if not perfect.any():
        return table, []
    remark = (
        f"{int(perfect.sum()):,} of {table.num_rows:,} points have an EER of 0, that no power law "
        "meets: left out, so the laws are fitted to the harder points only."
    )
    return table.filter(pa.array(~perfect)), [remark]


def varying_variables(
    table: pa.Table, variables: Sequence[Variable]
) -> tuple[tuple[Variable, ...], list[str]]:
    """The variables that vary, and a remark on each that does not.

    Raises:
        InputError: none does.
    """
    varying: list[Variable] = []
    remarks = []
    for name in variables:
        values = table[name].to_numpy()
        # A few per cent, as of folds that differ in size, are no axis of a design.
        if len(values) and np.log(values.max() / values.min()) > math.log(1.1):
            varying.append(name)
        elif len(values):
            remarks.append(
                f"{name} hardly varies (about {np.median(values):,.6g}): what it does is part of "
                "the constant."
            )
    if not varying:
        raise InputError(
            "A law needs a design in which something varies",
            expected=f"at least a tenth between the smallest and the largest {variables[0]}",
            found=f"{table.num_rows:,} points with EERs above 0. {' '.join(remarks)}".rstrip(". "),
            fix="Run the study with several budgets, or subsets of sources and generators",
        )
    return tuple(varying), remarks


def reason_against(
    law: Law, logs: Array, variables: Sequence[Variable], num_cells: int
) -> str | None:
    """Why this design cannot identify a law; None if it can.

    Args:
        law: which.
        logs: the variables' logs, shape (num_points, num_variables).
        variables: their names.
        num_cells: different combinations of them.
    """
    if law == "B" and len(variables) == 1:
        return "of one variable it is the same as A"
    needed = num_parameters(law, len(variables)) + 1
    if num_cells < needed:
        return f"it needs {needed} cells, of which one can be left out; there are {num_cells}"
    columns = logs - logs.mean(axis=0)
    scaled = columns / np.linalg.norm(columns, axis=0)
    singular = np.linalg.svd(scaled, compute_uv=False)
    if singular[-1] < 0.1:
        return (
            f"{' and '.join(variables)} rise together, so that their effects cannot be told apart"
        )
    if law != "C":
        for name, column in zip(variables, logs.T, strict=True):
            levels = len(_levels(column))
            if levels < 3:
                return f"a floor and a slope need 3 levels of {name}; there are {levels}"
    return None


def _levels(column: Array) -> list[float]:
    """Values further than a tenth apart."""
    found: list[float] = []
    for value in np.sort(column):
        if not found or value - found[-1] > math.log(1.1):
            found.append(float(value))
    return found
