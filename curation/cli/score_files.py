"""Files of scores and of keys, and how they are put together.

The names of columns are those of the ASVspoof 5 evaluation package: `filename` and `spk` say which
trial, `cm-score`, `asv-score` and `sasv-score` are the countermeasure's, the verifier's and the
whole system's, `cm-label` and `asv-label` what is true of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from datalake.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["joined", "numbers", "read_table"]

_DELIMITERS: Final = {".csv": ",", ".tsv": "\t", ".txt": " "}
_TRIAL: Final = ("spk", "filename", "utt_id")
_OTHER_NAMES: Final = {"tar_spk_anon": "spk", "trial_anon": "filename"}
_NUM_NAMED: Final = 3


def read_table(file: Path) -> pa.Table:
    """A file as a table; a .txt whose heading has tabs is read as .tsv.

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
            table = as_parquet.read_table(file)
        else:
            delimiter = _DELIMITERS[file.suffix]
            if delimiter == " ":
                with file.open(encoding="utf-8", errors="replace") as lines:
                    delimiter = "\t" if "\t" in lines.readline() else " "
            table = as_csv.read_csv(
                file,
                parse_options=as_csv.ParseOptions(delimiter=delimiter),
                # A bona fide trial has no attack: an empty field.
                convert_options=as_csv.ConvertOptions(strings_can_be_null=True),
            )
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            "The scores cannot be read", where=str(file), found=str(error).partition("\n")[0]
        ) from error
    return table.rename_columns([_OTHER_NAMES.get(name, name) for name in table.column_names])


def joined(scores: pa.Table, file: Path, other: pa.Table, other_file: Path) -> pa.Table:
    """Scores with the columns of another file that they lack, trial by trial, in their order.

    Trials are told apart by those of `spk`, `filename` and `utt_id` that both files have.

    Raises:
        InputError: they share none of these, a trial stands twice in the other file, or one file
            has trials that the other lacks.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    by = [name for name in _TRIAL if name in scores.column_names and name in other.column_names]
    where = f"{file} and {other_file}"
    if not by:
        raise InputError(
            "Two files do not say which trials are the same",
            where=where,
            expected=f"one of the columns {', '.join(_TRIAL)} in both",
            found=f"{', '.join(scores.column_names)}; {', '.join(other.column_names)}",
        )
    # The separator of units cannot stand in a name that a text file gave.
    one, two = (
        pc.binary_join_element_wise(*(table[name].cast(pa.string()) for name in by), "\x1f")
        for table in (scores, other)
    )
    one, two = one.combine_chunks(), two.combine_chunks()
    if len(pc.unique(two)) < len(two):
        counts = pc.value_counts(two).to_pylist()
        named = [each["values"] for each in counts if each["counts"] > 1]
        raise InputError(
            f"{len(named):,} trials stand more than once in a file",
            where=str(other_file),
            found=_named(named),
            expected=f"one line for each {' and '.join(by)}",
        )
    places = pc.index_in(one, value_set=two)
    for kind, own, fault, at in (
        ("scores have no line in the other file", one, pc.is_null(places), other_file),
        ("lines have no score", two, pc.invert(pc.is_in(two, value_set=one)), file),
    ):
        missing = own.filter(fault)
        if len(missing):
            raise InputError(
                f"{len(missing):,} {kind}",
                where=str(at),
                found=_named(missing.to_pylist()),
                expected="the same trials in both files",
            )
    for name in other.column_names:
        if name not in scores.column_names:
            scores = scores.append_column(name, other[name].take(places))
    return scores


def numbers(table: pa.Table, column: str, file: Path) -> Any:
    """A column of scores, (trials,) float64.

    Raises:
        InputError: they are not all numbers.
    """
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


def _named(trials: list[str]) -> str:
    shown = ", ".join(str(trial).replace("\x1f", " ") for trial in trials[:_NUM_NAMED])
    return shown + (", …" if len(trials) > _NUM_NAMED else "")
