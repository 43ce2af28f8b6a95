"""What a proxy lost on each domain, step by step, as a file.

Lines of `step`, `domain` and either `excess_loss` or `loss` and `reference_loss`: one for each
domain of a step, or one for each row. Without `step` all are of one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curation.selection.group_dro import GroupDro
from datalake.errors import InputError, NotFoundError, SchemaError
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["LOSSES", "dro_weights", "read_losses"]

LOSSES: Final = pa.schema(
    [
        # From 1.
        pa.field("step", pa.int64(), nullable=False),
        pa.field("domain", pa.string(), nullable=False),
        # Rows of the domain in the step's batch.
        pa.field("num_rows", pa.int64(), nullable=False),
        # Means over them: of the proxy's loss, the reference's, and max(loss - reference, 0).
        pa.field("loss", pa.float64(), nullable=False),
        pa.field("reference_loss", pa.float64(), nullable=False),
        pa.field("excess_loss", pa.float64(), nullable=False),
        # What the domain weighed in the step.
        pa.field("weight", pa.float64(), nullable=False),
    ]
)
"""The columns that `curate proxy` writes; a file of another's making needs fewer."""


def read_losses(path: Path) -> pa.Table:
    """A file of losses: `step`, `domain` and `excess_loss`, a line for each domain of a step.

    Lines of one domain and step are averaged, after each loss below its reference was taken for
    none. Memory: the file's.

    Raises:
        NotFoundError: there is no such file.
        SchemaError: it lacks a column, or has another type there.
        InputError: its name does not say what it is, it is empty, or lines lack a value.
        StoreError: it cannot be read.
    """
    import pyarrow.csv as as_csv
    import pyarrow.parquet as as_parquet

    readers = {".parquet": as_parquet.read_table, ".csv": as_csv.read_csv}
    if path.suffix not in readers:
        raise InputError(
            "The losses cannot be read", expected="a name in .parquet or .csv", found=str(path)
        )
    if not path.is_file():
        raise NotFoundError("There is no such file of losses", where=str(path))
    with translated(Location(str(path)), "Reading the losses"):
        lines = readers[path.suffix](path)
    names = lines.column_names
    if "domain" not in names or not (
        "excess_loss" in names or {"loss", "reference_loss"} <= {*names}
    ):
        raise SchemaError(
            "The file has no losses by domain",
            where=str(path),
            expected="the columns domain, and excess_loss or loss and reference_loss",
            found=", ".join(names),
        )
    try:
        if "excess_loss" in names:
            excess = lines["excess_loss"].cast(pa.float64())
        else:
            both = (lines[name].cast(pa.float64()) for name in ("loss", "reference_loss"))
            excess = pc.max_element_wise(pc.subtract(*both), 0.0, skip_nulls=False)
        step = lines["step"].cast(pa.int64()) if "step" in names else pa.repeat(1, len(lines))
        found = pa.table(
            {"step": step, "domain": lines["domain"].cast(pa.string()), "excess_loss": excess}
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            "The losses are no numbers", where=str(path), found=str(error).partition("\n")[0]
        ) from error
    missing = sum(found[name].null_count for name in found.column_names)
    if missing or not found.num_rows:
        raise InputError(
            "The file of losses is not complete" if missing else "The file of losses is empty",
            where=str(path),
            expected="a step, a domain and a loss in every line",
            found=f"{missing:,} missing" if missing else "no line",
        )
    # Sorted by their values, sums do not hang on the order of the lines.
    found = found.sort_by([(name, "ascending") for name in found.column_names])
    means = found.group_by(["step", "domain"], use_threads=False)
    means = means.aggregate([("excess_loss", "mean")])
    return means.rename_columns(["step", "domain", "excess_loss"])


def dro_weights(losses: pa.Table, *, step_size: float, smoothing: float) -> dict[str, float]:
    """The mean weight of each domain over the steps, from what `read_losses` gives.

    Raises:
        InputError: a number is out of its range.
    """
    domains = sorted(set(losses["domain"].to_pylist()))
    numbers = {domain: number for number, domain in enumerate(domains)}
    dro = GroupDro(domains, step_size=step_size, smoothing=smoothing)
    steps = losses["step"].to_numpy()
    places = np.array([numbers[name] for name in losses["domain"].to_pylist()], np.int64)
    excess = losses["excess_loss"].to_numpy()
    order = np.argsort(steps, kind="stable")
    for lines in np.split(order, np.flatnonzero(np.diff(steps[order])) + 1):
        of_step = np.full(len(domains), np.nan)
        of_step[places[lines]] = excess[lines]
        dro.step(of_step)
    return dict(dro.average())
