"""Select: from a table to a selection."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path

from curation.manifest import remarks
from curation.selection.asked import method_of, options_used
from curation.selection.block_scan import key_scan
from curation.selection.budgets import Budget, Unit, spend
from curation.selection.census import Census, manifest_of, refuse_nameless
from curation.selection.key_scan import KeyScan
from curation.selection.options import Options, RealMode
from curation.selection.ordered_rows import FirstRows, Ordering, first_in_order
from curation.selection.orders import ORDERS, DomainOrder, Order, OrderOptions, RowOrder
from curation.selection.selectors import Selector
from curation.selection.within import within_which
from datalake.errors import InputError
from datalake.lake import SELECTION_ROWS, Selection
from datalake.pipelines.executors import Executor
from datalake.pipelines.run import ProgressSink
from datalake.tables import Table

__all__ = ["ordering_of", "select"]

log = logging.getLogger(__name__)


def select(
    table: Table,
    *,
    table_name: str,
    method: str = "doss",
    cap: int | None = None,
    ratio: float = 1.0,
    real_mode: RealMode = "per_source",
    seed: int = 0,
    budget: float | None = None,
    unit: Unit = "rows",
    where: str | None = None,
    within: Selection | None = None,
    order: str = "hash",
    order_options: OrderOptions | None = None,
    executor: Executor | None = None,
    scratch: Path | None = None,
    progress: ProgressSink | None = None,
    name: str = "",
) -> Selection:
    """Choose rows of a table to train on.

    Only the key columns `utt_id`, `label`, `source` and `generator` are read, `duration_s` where
    there is one, and what the order reads. Memory grows with the rows selected and the number of
    domains, not with the table: about 400 bytes a selected row. The engine holds 3 GB at most and
    spills to disk beyond. Orders of whole domains (all but `hash` and `quality`) hold 40 bytes more
    for each row of a domain that is cut, have their columns in scratch files (mapped: their
    pages come and go as there is room), and say themselves what they hold
    (`curation.selection.orders`).

    The same rows are selected whatever the table's format, partitioning and row order; only their
    indices differ. Rows come ascending by row index, the order in which they are cheapest to read;
    `rank` has the order in which a smaller selection would keep them (of a domain that is kept
    whole that of the hash, but for `quality`). Selections of one order and seed nest: a larger cap
    adds rows and takes none away; `facility_location` says where it does not hold.

    Args:
        table: the version to select from.
        table_name: its name in the lake.
        method: `doss`, `random`, `naive`, or a plug-in's name.
        cap: N_c, the most rows of a spoof domain.
        ratio: rho, the bona fide rows wanted for each spoof row.
        real_mode: how bona fide rows are shared out: `per_source`, `total` or `cap`.
        seed: seed of the hash that orders rows within domains, or breaks ties.
        budget: how much to keep in all, at most; for `doss` it finds the cap.
        unit: what the budget counts: `rows`, `hours` (by `duration_s`) or `bytes` (by a column
            `num_bytes`).
        where: consider only rows for which this SQL expression holds.
        within: consider only rows of this selection, by their ids: what a deduplication kept, say.
        order: which rows of a domain a cap keeps: `hash` (any), `quality` (the best), `speaker` (of
            all speakers by turns), `density`, `k_center`, `facility_location`, or a plug-in's name.
        order_options: what the order reads.
        executor: where keys are read, by blocks (`block_scan`), and domains are ordered; None: this
            process.
        scratch: a folder for files, which go when it is done; all workers must reach it.
        progress: is told how many domains are ordered.
        name: the selection's name.

    Raises:
        InputError: an option cannot be used, rows have no domain or id, or lack what the order
            reads, or nothing is selected.
        NotFoundError: there is no such method or order.
        SchemaError: the table lacks a key column, or one that the order reads.
        PredicateError: `where` cannot be evaluated.
        StoreError: the table cannot be read.
    """
    options = Options(cap=cap, ratio=ratio, real_mode=real_mode)
    selector = method_of(
        "datalake.selectors",
        method,
        Selector,  # type: ignore[type-abstract]
        "an object with `uses` and `pools` (curation.selection.Selector)",
    )
    options_used(method, selector, options)
    ranked = order_options or OrderOptions()
    ordering, order_used = ordering_of(order, ranked, table)
    ordering = replace(ordering, executor=executor, scratch=scratch, progress=progress)
    limit = None if budget is None else Budget(budget, unit)
    ids = None if within is None else within.rows["utt_id"]
    with key_scan(table, where, ids, executor=executor, scratch=scratch) as keys:
        census = Census.take(keys, table, where, name=table_name)
        if limit is None:
            pools = selector.pools(census.sizes, options)
            first = first_in_order(keys, pools, census.groups, seed, ordering)
        else:
            options, first = _within(limit, selector, options, keys, census, seed, ordering)
    rows, kept = first.rows, first.kept
    if not rows.num_rows:
        raise InputError(
            "The selection is empty",
            where=table_name or table.uri,
            expected="options that keep at least one row",
            found=f"{sum(census.sizes.values())} rows in {len(census.available)} domains, "
            "and none of them kept",
        )
    refuse_nameless(rows, where=table_name or table.uri)
    masses = {domain: float(amount.num_rows) for domain, amount in kept.items()}
    manifest = manifest_of(census.available, kept, masses, order_values=first.values)
    used = options_used(method, selector, options)
    if limit is not None:
        used |= {"budget": limit.amount, "unit": limit.unit}
    parameters = {**used, "seed": seed, "where": where, "order": order, **order_used}
    if within is not None:
        parameters |= within_which(within)
    for remark in remarks(manifest, parameters):
        log.warning(remark)
    return Selection(
        name=name,
        table=table_name,
        table_version=table.version,
        rows=rows.cast(SELECTION_ROWS),
        manifest=manifest,
        method=method,
        parameters=parameters,
    )


def ordering_of(
    name: str, options: OrderOptions, table: Table
) -> tuple[Ordering, dict[str, object]]:
    """The order of that name for a table, and the options that it reads.

    Raises:
        NotFoundError: there is none of that name.
        InputError: an option cannot be used, or one is missing.
        SchemaError: the table lacks a column that it reads.
    """
    order = method_of(
        ORDERS,
        name,
        Order,  # type: ignore[type-abstract]
        "an object with `uses`, `reads`, and `keys` or `first` (curation.selection.orders)",
    )
    if not isinstance(order, RowOrder | DomainOrder):
        raise InputError(
            f"The plug-in {name} cannot be used here",
            where=ORDERS,
            expected="a method `keys` or `first`",
            found=type(order).__name__,
        )
    used = options_used(name, order, options, kind="order")
    return Ordering(order, options, order.reads(table.schema, options)), used


def _within(
    limit: Budget,
    selector: Selector,
    options: Options,
    keys: KeyScan,
    census: Census,
    seed: int,
    ordering: Ordering,
) -> tuple[Options, FirstRows]:
    """The largest selection that the budget allows, by what its rows really cost.

    Means find it at once where all rows cost alike; else what they missed by is taken off.
    """
    limit.refuse_unknown(census.available)
    aim = limit
    while True:
        turned = spend(aim, selector, options, census.available)
        pools = selector.pools(census.sizes, turned)
        first = first_in_order(keys, pools, census.groups, seed, ordering)
        cost = math.fsum(limit.cost(amount) for amount in first.kept.values())
        if cost <= limit.amount * (1 + 1e-12):
            return turned, first
        aim = replace(aim, amount=min(aim.amount * limit.amount / cost, aim.amount * (1 - 1e-3)))
