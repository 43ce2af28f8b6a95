"""In which order rows are visited: by the hash of their ids, or by quality first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curation.domains import keys_of
from curation.engine import spilling_engine
from curation.order import PLACE_DIGITS
from datalake.errors import SchemaError, nearest
from datalake.tables import Table

__all__ = ["Visits", "require_columns", "visits_of"]


@dataclass(frozen=True)
class Visits:
    """The rows considered, in the order of the hash of their ids; (rows,) each."""

    row_index: npt.NDArray[np.int64]
    ranks: npt.NDArray[np.int64]
    """When each is visited, from 0: that order, unless there is a quality to go by."""


def visits_of(
    table: Table, *, seed: int = 0, best_by: str | None = None, where: str | None = None
) -> Visits:
    """The order of visits. Memory: 16 bytes a row; sorting spills to disk beyond 2 GB.

    Args:
        table: the version to visit.
        seed: of the hash.
        best_by: a numeric column; rows of the largest value are visited first, those without one
            last, equal ones by the hash.
        where: visit only rows for which this holds.

    Raises:
        SchemaError: the table lacks a column.
        PredicateError: `where` cannot be evaluated.
    """
    id_column = keys_of(table.schema).id_column
    columns = [id_column, *([best_by] if best_by else [])]
    require_columns(table, columns)
    reader = table.scan(list(dict.fromkeys(columns)), where=where, with_row_index=True)
    order = f'md5(concat(?, \'/\', "{id_column}"))[:{PLACE_DIGITS}], "{id_column}", row_index'
    value = f'"{best_by}"::DOUBLE'
    ranked = (
        f"row_number() OVER (ORDER BY CASE WHEN isnan({value}) THEN NULL ELSE {value} END "
        "DESC NULLS LAST, place) - 1"
        if best_by
        else "place"
    )
    carried = f', "{best_by}"' if best_by else ""
    with spilling_engine() as engine:
        engine.register("scanned", reader)
        found = engine.execute(
            f"""SELECT row_index::BIGINT AS row_index, ({ranked})::BIGINT AS rank
                FROM (SELECT row_index{carried}, row_number() OVER (ORDER BY {order}) - 1 AS place
                      FROM scanned)
                ORDER BY place""",
            [str(seed)],
        ).fetchnumpy()
    return Visits(np.asarray(found["row_index"]), np.asarray(found["rank"]))


def require_columns(table: Table, columns: list[str]) -> None:
    """See that the columns are there.

    Raises:
        SchemaError: one is not (names the nearest).
    """
    for name in columns:
        if name not in table.schema.names:
            raise SchemaError(
                f"There is no column {name}", where=table.uri, fix=nearest(name, table.schema.names)
            )
