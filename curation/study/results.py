"""The long table of a study's results: what the runner writes and the statistics read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curation.manifest import MANIFEST
from datalake.errors import InputError, SchemaError

__all__ = [
    "CELL",
    "MIXTURES",
    "PROTOCOLS",
    "PROTOCOL_TITLES",
    "RESULTS",
    "Protocol",
    "check_results",
    "parameters_text",
    "results_of",
]

Protocol = Literal["logo", "loso", "cross"]
"""Leave one generator out, leave one source out, train on one source and test on each."""

PROTOCOLS: Final[tuple[Protocol, ...]] = ("logo", "loso", "cross")

PROTOCOL_TITLES: Final[Mapping[Protocol, str]] = {
    "logo": "Leave one generator out",
    "loso": "Leave one source out",
    "cross": "Train on one source, test on the others",
}
"""How a person reads them."""

CELL: Final = pa.schema(
    [
        # The method's name, as `doss`, `random`, `naive`.
        pa.field("method", pa.string(), nullable=False),
        # Its parameters as JSON with sorted keys (`parameters_text`), without budget and seed: a
        # method with other parameters is another arm of the study.
        pa.field("parameters", pa.string(), nullable=False),
        # The rows that it might keep; null where there is no budget (all of the training side).
        pa.field("budget_rows", pa.int64()),
        pa.field("protocol", pa.string(), nullable=False),
        # What is held out: a generator (logo) or a source (loso); in `cross`, who trained.
        pa.field("fold", pa.string(), nullable=False),
        # Of the selection and of the training, one for both.
        pa.field("seed", pa.int64(), nullable=False),
    ]
)
"""The key of one training: a cell of the study's grid."""

RESULTS: Final = pa.schema(
    [
        *CELL,
        # What the EER is of: `pooled` (all trials of the fold's test), `domain` (the spoofs of one
        # (source, generator) against the test's bona fide rows), `source` (the trials of one
        # source: what the cross-source matrix is made of).
        pa.field("scope", pa.string(), nullable=False),
        # The domain or the source; null for `pooled`.
        pa.field("test_domain", pa.string()),
        # A fraction.
        pa.field("eer", pa.float64(), nullable=False),
        # Test trials behind it.
        pa.field("num_bonafide", pa.int64(), nullable=False),
        pa.field("num_spoof", pa.int64(), nullable=False),
        # From here on: what was trained on, the same in all rows of a cell.
        pa.field("num_rows_used", pa.int64(), nullable=False),
        pa.field("num_sources", pa.int64(), nullable=False),
        # Counted as (source, generator) pairs are not: a generator in two sources counts once.
        pa.field("num_generators", pa.int64(), nullable=False),
        # Of speech; null if durations are not known.
        pa.field("hours", pa.float64()),
        # exp(entropy) of the domains' shares of the draws: `num_effective_domains`.
        pa.field("n_eff", pa.float64(), nullable=False),
        # Wall time of selecting, training and testing the cell.
        pa.field("seconds", pa.float64()),
    ]
)
"""One row an EER: cell x what is tested. Rows are in no particular order."""

MIXTURES: Final = pa.schema([*CELL, *MANIFEST])
"""What a cell's selection took of each domain: its manifest under the cell's key."""

_SCOPES: Final = ("pooled", "domain", "source")


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Parameters as the text of the column `parameters`: the same for the same values."""
    return json.dumps(dict(parameters), sort_keys=True, separators=(",", ":"))


def results_of(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The table of `rows`, checked.

    Raises:
        SchemaError, InputError: see `check_results`.
    """
    try:
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=RESULTS)
    except (pa.ArrowException, TypeError) as error:
        raise SchemaError("Results do not fit their columns", found=str(error)) from error
    return check_results(table)


def check_results(table: pa.Table) -> pa.Table:
    """The table with its columns in order, once nothing in it can mislead the statistics.

    Raises:
        SchemaError: a column is missing or of another type.
        InputError: an unknown protocol or scope, an EER that is no fraction, a null where there
            may be none, or two rows for the same cell and test.
    """
    missing = [name for name in RESULTS.names if name not in table.column_names]
    if missing:
        raise SchemaError(
            "Results lack columns", expected=", ".join(RESULTS.names), found=f"no {missing[0]}"
        )
    try:
        table = table.select(RESULTS.names).cast(RESULTS).combine_chunks()
    except (pa.ArrowException, ValueError) as error:
        raise SchemaError("Results do not fit their columns", found=str(error)) from error
    for field in RESULTS:
        if not field.nullable and table[field.name].null_count:
            raise InputError("Results lack a value", where=f"column {field.name}")
    for name, known in (("protocol", PROTOCOLS), ("scope", _SCOPES)):
        for value in table[name].unique().to_pylist():
            if value not in known:
                raise InputError(
                    "Results are of a kind that is not known",
                    where=f"column {name}",
                    expected=", ".join(known),
                    found=str(value),
                )
    eers = table["eer"].to_numpy()
    bad = np.flatnonzero(~((eers >= 0) & (eers <= 1)))
    if len(bad):
        raise InputError(
            "An EER is a fraction",
            where=f"row {bad[0]:,}, column eer",
            expected="0 to 1",
            found=f"{eers[bad[0]]}",
        )
    _refuse_twins(table)
    return table


def _refuse_twins(table: pa.Table) -> None:
    """Two values for one cell and test: a merge gone wrong, that would narrow every interval."""
    key = [*CELL.names, "scope", "test_domain"]
    counts = table.group_by(key).aggregate([([], "count_all")])
    twins = counts.filter(pc.field("count_all") > 1)
    if twins.num_rows:
        row = twins.slice(0, 1).to_pylist()[0]
        found = ", ".join(f"{name}={row[name]}" for name in key)
        raise InputError(
            f"{twins.num_rows:,} cells have more than one result", found=found,
            fix="Keep one row for each cell and test",
        )  # fmt: skip
