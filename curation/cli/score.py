"""`curate score`: judge a file of scores, of whatever detector."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from datalake.cli import console
from datalake.errors import InputError, nearest

if TYPE_CHECKING:
    import pyarrow as pa

    from curation.metrics.measures import Metric

__all__ = ["score"]

_DELIMITERS: Final = {".csv": ",", ".tsv": "\t", ".txt": " "}


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
            help="eer, min_dcf, act_dcf, cllr, min_t_dcf, act_t_dcf; commas between.",
        ),
    ] = "eer,min_dcf",
    score_column: Annotated[
        str, typer.Option("--score", help="The column of scores, higher for bona fide.")
    ] = "score",
    label_column: Annotated[
        str, typer.Option("--label", help="The column of labels: bonafide or spoof.")
    ] = "label",
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
    """
    from curation.metrics import breakdown

    groups = _names(by)
    table = _read(file)
    columns = [score_column, label_column, *groups, *([speaker_column] if speaker_column else [])]
    for name in columns:
        if name not in table.column_names:
            raise InputError(
                f"The scores have no column {name!r}",
                where=str(file),
                found=", ".join(table.column_names),
                fix=nearest(name, table.column_names),
            )
    found = breakdown(
        _numbers(table, score_column, file),
        table[label_column].to_numpy(),
        {name: table[name].cast("string") for name in groups},
        metrics=cast("list[Metric]", _names(metric)),  # checked by `breakdown`
        speakers=None if speaker_column is None else table[speaker_column].cast("string"),
        num_resamples=resamples,
        seed=seed,
    )
    if session.as_json:
        console.print_json({"file": str(file), "num_trials": table.num_rows, "rows": found})
    else:
        console.print_table([_line(row, groups) for row in found.to_pylist()])


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


def _read(file: Path) -> pa.Table:
    """The file as a table.

    Raises:
        InputError: it is not there, or cannot be read as what its name says.
    """
    import pyarrow as pa
    import pyarrow.csv as as_csv
    import pyarrow.parquet as as_parquet

    if file.suffix not in (*_DELIMITERS, ".parquet"):
        raise InputError(
            "Scores cannot be read from such a file",
            where=str(file),
            expected=f"a name in {', '.join(_DELIMITERS)} or .parquet",
        )
    try:
        if file.suffix == ".parquet":
            return as_parquet.read_table(file)
        options = as_csv.ParseOptions(delimiter=_DELIMITERS[file.suffix])
        # A bona fide trial has no attack: an empty field.
        empty_is_null = as_csv.ConvertOptions(strings_can_be_null=True)
        return as_csv.read_csv(file, parse_options=options, convert_options=empty_is_null)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            "The scores cannot be read", where=str(file), found=str(error).partition("\n")[0]
        ) from error


def _numbers(table: pa.Table, column: str, file: Path) -> Any:
    import pyarrow as pa

    try:
        scores = table[column].cast("float64")
    except pa.ArrowException as error:
        raise InputError(
            "Scores are not all numbers",
            where=f"{file}, column {column}",
            found=str(error).partition("\n")[0],
        ) from error
    if scores.null_count:
        raise InputError(
            f"{scores.null_count:,} trials have no score",
            where=f"{file}, column {column}",
            fix="Score them, or leave them out of the file and say so where you report",
        )
    return scores.to_numpy()
