"""A selection of rows that something else has chosen, with their domains, ranks and manifest."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from curation.selection.census import Census, manifest_of
from curation.selection.key_scan import KeyScan
from curation.selection.options import Options
from curation.selection.selectors import NAIVE
from datalake.lake import Selection
from datalake.lake.selection import SELECTION_ROWS
from datalake.tables import Table

__all__ = ["select_passing"]


def select_passing(
    table: Table,
    passing: pa.Table,
    *,
    table_name: str,
    name: str,
    method: str,
    parameters: Mapping[str, object],
    where: str | None = None,
) -> Selection:
    """Select these rows.

    Args:
        table: the version that they are rows of.
        passing: `row_index` and `utt_id`, one row or more.
        table_name: the table's name.
        name: the selection's.
        method: what chose the rows.
        parameters: what it was given.
        where: which rows were considered: the manifest says what became of them.

    Raises:
        InputError: rows have no domain.
        SchemaError: the table lacks a key column.
    """
    with KeyScan(table, where, passing["utt_id"]) as keys:
        census = Census.take(keys, table, where, name=table_name)
        chosen, kept = keys.first(NAIVE.pools(census.sizes, Options()), census.groups, 0)
    with KeyScan(table, where) as keys:
        considered = Census.take(keys, table, where, name=table_name)
    masses = {domain: float(amount.num_rows) for domain, amount in kept.items()}
    return Selection(
        name=name,
        table=table_name,
        table_version=table.version,
        rows=chosen.cast(SELECTION_ROWS),
        manifest=manifest_of(considered.available, kept, masses),
        method=method,
        parameters=dict(parameters),
    )
