"""The file that commands write drops, or other rows, to."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

from datalake.errors import InputError
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["check_drops_file", "write_drops"]

_SUFFIXES: Final = (".parquet", ".csv")


def check_drops_file(path: Path | None, what: str = "drops") -> None:
    """See, before any work, that rows (`what` they are) can be written so.

    Raises:
        InputError: the name ends otherwise.
    """
    if path is not None and path.suffix not in _SUFFIXES:
        raise InputError(
            f"The {what} cannot be written so",
            expected="a name in .parquet or .csv",
            found=str(path),
        )


def write_drops(rows: pa.Table, path: Path, what: str = "drops") -> None:
    """Write rows; the file appears whole or not at all.

    Raises:
        StoreError: the disk refused.
    """
    import pyarrow.csv as as_csv
    import pyarrow.parquet as as_parquet

    making = path.with_name(f".{path.name}.making")
    with translated(Location(str(path)), f"Writing the {what}"):
        if path.suffix == ".csv":
            as_csv.write_csv(rows, making)
        else:
            as_parquet.write_table(rows, making)
        making.replace(path)
