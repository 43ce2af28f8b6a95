"""How long clips are, by the table alone: nothing is decoded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from datalake.blocks.reader import TableReader
from datalake.errors import InputError
from datalake.loader.order.order import Indices

__all__ = ["durations_s"]


def durations_s(reader: TableReader, rows: Indices) -> npt.NDArray[np.float64]:
    """The duration of each row in seconds, (n,); NaN where it is not known.

    Raises:
        InputError: the table has no durations.
    """
    table = reader.table
    if "duration_s" not in table.schema.names:
        raise InputError(
            "The table does not tell how long its clips are",
            where=table.uri,
            expected="a column duration_s",
            fix="Batches of a fixed number of examples need none; or ingest the corpus, which "
            "measures durations",
        )
    seconds = reader.numbers("duration_s", rows).astype(np.float64)
    # No clip is of no length: whoever wrote 0 had not measured it.
    seconds[~((seconds > 0) & np.isfinite(seconds))] = np.nan
    return seconds
