"""Where rows stand in the order that a selection was cut by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from curation.domains import Domain
from curation.order import place
from curation.selection.asked import method_of
from curation.selection.census import Census
from curation.selection.key_scan import ORDER_KEY, KeyScan
from curation.selection.options import Options
from curation.selection.ordered_rows import Ordering, keyed_rows
from curation.selection.orders import OrderOptions, RowOrder
from curation.selection.pool_plan import PoolPlan, every_row
from curation.selection.run import ordering_of
from curation.selection.selectors import Selector
from datalake.lake import Selection
from datalake.tables import Table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Standing", "standings"]


@dataclass(frozen=True)
class Standing:
    """Where a row stands among those that were cut with it."""

    num_domains: int
    """Domains that were cut together; 0 if the row's was left out altogether."""
    place: int | None
    """Rows before it; None where the order does not say of rows that it does not keep."""
    num_kept: int
    num_rows: int


def standings(
    table: Table,
    selection: Selection,
    domains: Mapping[int, Domain],
    within: pa.ChunkedArray | None,
) -> dict[int, Standing]:
    """Cut the table anew in thought, and see where some rows stand.

    The table's keys are read twice, with what the order reads. Memory does not grow with the table.

    Args:
        table: the version that was selected from.
        selection: made by a selector.
        domains: of the rows asked about, by row index; rows that were considered.
        within: the ids among which was selected.

    Returns:
        By row index.

    Raises:
        NotFoundError: the selector or the order is a plug-in that is not installed.
    """
    parameters = selection.parameters
    selector = method_of(
        "datalake.selectors",
        selection.method,
        Selector,  # type: ignore[type-abstract]
        "an object with `uses` and `pools` (curation.selection.Selector)",
    )
    options = Options(**_chosen(parameters, Options))
    order_options = OrderOptions(**_chosen(parameters, OrderOptions))
    ordering, _ = ordering_of(str(parameters.get("order", "hash")), order_options, table)
    seed = int(str(parameters.get("seed", 0)))
    where = parameters.get("where")
    with KeyScan(table, None if where is None else str(where), within) as keys:
        census = Census.take(keys, table, keys.where, name=selection.table)
        plan = PoolPlan.of(selector.pools(census.sizes, options), census.groups, keys.keys.columns)
        pool_of = {d: number for number, pool in enumerate(plan.pools) for d in pool.domains}
        before: Mapping[int, int] = {}
        if isinstance(ordering.order, RowOrder):
            pools = {row: pool_of[domain] for row, domain in domains.items() if domain in pool_of}
            before = _num_before(keys, plan, pools, seed, ordering.order, ordering)
    found = {}
    for row, domain in domains.items():
        number = pool_of.get(domain)
        if number is None or not plan.pools[number].keep:
            found[row] = Standing(0, None, 0, census.sizes[domain])
            continue
        pool = plan.pools[number]
        found[row] = Standing(
            len(pool.domains), before.get(row), min(pool.keep, plan.sizes[number]),
            plan.sizes[number],
        )  # fmt: skip
    return found


def _num_before(
    keys: KeyScan,
    plan: PoolPlan,
    pools: Mapping[int, int],
    seed: int,
    order: RowOrder,
    ordering: Ordering,
) -> dict[int, int]:
    rows = sorted(row for row, pool in pools.items() if plan.pools[pool].keep)
    if not rows:
        return {}
    columns = keys.scanned_columns(ordering.columns)
    own = keys.table.take(np.array(rows), columns)
    own = own.append_column("row_index", pa.array(rows, pa.uint64()))
    asked = keyed_rows(own.to_reader(), order, ordering).read_all()
    ids = asked[keys.keys.id_column].to_pylist()
    return keys.num_before(
        keyed_rows(keys.scan(ordering.columns), order, ordering),
        plan.thresholds(every_row),
        seed,
        pa.table(
            {
                "number": rows,
                "pool": [pools[row] for row in rows],
                ORDER_KEY: asked[ORDER_KEY],
                "place": [place(seed, each) for each in ids],
                "utt_id": ids,
                "row_index": pa.array(rows, pa.uint64()),
            }
        ),
    )


def _chosen(parameters: Mapping[str, Any], options: type[DataclassInstance]) -> dict[str, Any]:
    names = [field.name for field in fields(options)]
    return {name: parameters[name] for name in names if name in parameters}
