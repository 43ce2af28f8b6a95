"""The file that commands write drops to."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

from datalake.errors import InputError
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["check_drops_file", "write_drops"]

_SUFFIXES: Final = (".parquet", ".csv")


def check_drops_file(path: Path | None) -> None:
    """See, before any work, that drops can be written so.

    Raises:
        InputError: the name ends otherwise.
    """
    if path is not None and path.suffix not in _SUFFIXES:
        raise InputError(
            "The drops cannot be written so",
            expected="a name in .parquet or .csv",
            found=str(path),
        )


def write_drops(rows: pa.Table, path: Path) -> None:
    """Write drops; the file appears whole or not at all.

    Raises:
        StoreError: the disk refused.
    """
    import pyarrow.csv as as_csv
    import pyarrow.parquet as as_parquet

    making = path.with_name(f".{path.name}.making")
    with translated(Location(str(path)), "Writing the drops"):
        if path.suffix == ".csv":
            as_csv.write_csv(rows, making)
        else:
            as_parquet.write_table(rows, making)
        making.replace(path)
