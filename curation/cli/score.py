"""`curate score`: judge a file of scores, of whatever detector."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from curation.cli.score_files import joined, numbers, read_table
from datalake.cli import console
from datalake.errors import InputError, nearest

if TYPE_CHECKING:
    import pyarrow as pa

    from curation.metrics.measures import Metric

__all__ = ["score"]

_OF_TANDEM: Final = {"a_dcf": ("sasv-score",), "t_eer": ("asv-score",)}
"""The metrics of a system that verifies speakers too, and the columns that each needs beside
`asv-label`."""
_KINDS: Final = ("target", "nontarget", "spoof")


def score(
    session: console.Session,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Scores, with a heading: .csv, .tsv, .txt (one space between) or .parquet.",
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Break down by these columns, commas between."),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="eer, min_dcf, act_dcf, cllr, min_t_dcf, act_t_dcf, and of systems that verify "
            "speakers a_dcf, t_eer; commas between.",
        ),
    ] = "eer,min_dcf",
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What is true of each trial, if another file says."),
    ] = None,
    asv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The verifier's scores, if another file has them."),
    ] = None,
    score_column: Annotated[
        str | None,
        typer.Option(
            "--score",
            metavar="COLUMN",
            help="Scores, higher for bona fide.  [default: score or cm-score]",
        ),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            "--label", metavar="COLUMN", help="bonafide or spoof.  [default: label or cm-label]"
        ),
    ] = None,
    speaker_column: Annotated[
        str | None,
        typer.Option("--speaker", help="Draw whole speakers for intervals, by this column."),
    ] = None,
    resamples: Annotated[
        int, typer.Option(min=0, help="Bootstrap replicates an interval; 0 for no intervals.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
) -> None:
    """Say how well scores tell bona fide from spoof: the official metrics, by attack or codec.

    No lake is needed. Spoofs of a group are held against the bona fide trials that agree with it in
    each column that bona fide trials have, and against all of them in the others.

    Files of the ASVspoof 5 evaluation package are read as they are: --key has cm-label and
    asv-label of each filename (and spk). a_dcf is of sasv-score, t_eer of asv-score and the
    countermeasure's; both are of all trials, without intervals.
    """
    from curation.metrics import breakdown

    groups = _names(by)
    table = read_table(file)
    for other in (key, asv):
        if other is not None:
            table = joined(table, file, read_table(other), other)
    score_column = score_column or _present(table, "score", "cm-score")
    label_column = label_column or _present(table, "label", "cm-label")
    names = _names(metric)
    tandem = [name for name in names if name in _OF_TANDEM]
    single = [name for name in names if name not in _OF_TANDEM]
    columns = [
        *([score_column] if single or "t_eer" in tandem else []),
        *([label_column] if single else []),
        *groups,
        *([speaker_column] if speaker_column else []),
        *(["asv-label"] if tandem else []),
        *(column for name in tandem for column in _OF_TANDEM[name]),
    ]
    for name in columns:
        if name not in table.column_names:
            raise InputError(
                f"The scores have no column {name!r}",
                where=str(file),
                found=", ".join(table.column_names),
                fix=nearest(name, table.column_names),
            )
    of_system = _tandem(table, tandem, score_column, file)
    if tandem and not single:
        if session.as_json:
            console.print_json({"file": str(file), "num_trials": table.num_rows, **of_system})
        else:
            console.print_pairs(_rounded(of_system))
        return
    found = breakdown(
        numbers(table, score_column, file),
        table[label_column].to_numpy(),
        {name: table[name].cast("string") for name in groups},
        metrics=cast("list[Metric]", single),  # checked by `breakdown`
        speakers=None if speaker_column is None else table[speaker_column].cast("string"),
        num_resamples=resamples,
        seed=seed,
    )
    if session.as_json:
        console.print_json(
            {"file": str(file), "num_trials": table.num_rows, **of_system, "rows": found}
        )
    else:
        console.print_table([_line(row, groups) for row in found.to_pylist()])
        if of_system:
            typer.echo()
            console.print_pairs(_rounded(of_system))


def _tandem(table: pa.Table, metrics: list[str], score_column: str, file: Path) -> dict[str, float]:
    """The metrics of a system that verifies speakers too, of all trials.

    Raises:
        InputError: a trial is of no known kind, or of a kind there is none.
    """
    import numpy as np

    from curation.metrics import a_dcf, t_eer

    if not metrics:
        return {}
    kinds = np.asarray(table["asv-label"].cast("string").to_pylist(), dtype=object)
    if unknown := sorted({str(kind) for kind in kinds} - set(_KINDS)):
        raise InputError(
            "Trials are of unknown kinds",
            where=f"{file}, column asv-label",
            expected=", ".join(_KINDS),
            found=", ".join(unknown[:5]),
        )
    found = {}
    if "a_dcf" in metrics:
        scores = numbers(table, "sasv-score", file)
        found["a_dcf"] = a_dcf(*(scores[kinds == kind] for kind in _KINDS))
    if "t_eer" in metrics:
        both = np.column_stack(
            [numbers(table, "asv-score", file), numbers(table, score_column, file)]
        )
        found["t_eer"] = t_eer(*(both[kinds == kind] for kind in _KINDS))
    return found


def _present(table: pa.Table, name: str, other: str) -> str:
    """The one of two names that a table has, else the first."""
    return other if name not in table.column_names and other in table.column_names else name


def _rounded(found: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in found.items()}


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _line(row: dict[str, Any], groups: list[str]) -> dict[str, Any]:
    """A row for a person: an interval stands behind its value."""
    line: dict[str, Any] = {"scope": row["scope"], **{name: row[name] for name in groups}}
    line |= {"bona fide": row["num_bonafide"], "spoof": row["num_spoof"]}
    for name in row:
        if name.endswith("_low"):
            metric = name.removesuffix("_low")
            value, low, high = (row[metric + end] for end in ("", "_low", "_high"))
            line[metric] = None if value is None else round(value, 4)
            if low is not None:
                line[f"{metric} within"] = f"{low:.4f}–{high:.4f}"
    return line
