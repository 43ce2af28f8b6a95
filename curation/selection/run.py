"""Select: from a table to a selection."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import pyarrow as pa

from curation.domains import Domain
from curation.manifest import remarks
from curation.selection.amounts import Amount
from curation.selection.asked import method_of, options_used
from curation.selection.budgets import Budget, Unit, spend
from curation.selection.census import Census, manifest_of, refuse_nameless
from curation.selection.key_scan import KeyScan
from curation.selection.options import Options, RealMode
from curation.selection.selectors import Selector
from datalake.errors import InputError
from datalake.lake import SELECTION_ROWS, Selection
from datalake.tables import Table

__all__ = ["select"]

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
    name: str = "",
) -> Selection:
    """Choose rows of a table to train on.

    Only the key columns `utt_id`, `label`, `source` and `generator` are read, and `duration_s`
    where there is one. Memory grows with the rows selected and the number of domains, not with the
    table: about 400 bytes a selected row. The engine holds 3 GB at most and spills to disk beyond.

    The same rows are selected whatever the table's format, partitioning and row order; only their
    indices differ. Rows come ascending by row index, the order in which they are cheapest to read;
    `rank` has the order in which a smaller selection would keep them.

    Args:
        table: the version to select from.
        table_name: its name in the lake.
        method: `doss`, `random`, `naive`, or a plug-in's name.
        cap: N_c, the most rows of a spoof domain.
        ratio: rho, the bona fide rows wanted for each spoof row.
        real_mode: how bona fide rows are shared out: `per_source`, `total` or `cap`.
        seed: seed of the order within domains.
        budget: how much to keep in all, at most; for `doss` it finds the cap.
        unit: what the budget counts: `rows`, `hours` (by `duration_s`) or `bytes` (by a column
            `num_bytes`).
        where: consider only rows for which this SQL expression holds.
        within: consider only rows of this selection, by their ids: what a deduplication kept, say.
        name: the selection's name.

    Raises:
        InputError: an option cannot be used, rows have no domain or id, or nothing is selected.
        NotFoundError: there is no such method.
        SchemaError: the table lacks a key column.
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
    limit = None if budget is None else Budget(budget, unit)
    with KeyScan(table, where, None if within is None else within.rows["utt_id"]) as keys:
        census = Census.take(keys, table, where, name=table_name)
        if limit is None:
            rows, kept = keys.first(selector.pools(census.sizes, options), census.groups, seed)
        else:
            options, rows, kept = _within(limit, selector, options, keys, census, seed)
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
    manifest = manifest_of(census.available, kept, masses)
    used = options_used(method, selector, options)
    if limit is not None:
        used |= {"budget": limit.amount, "unit": limit.unit}
    parameters = {**used, "seed": seed, "where": where}
    if within is not None:
        parameters |= {"within": within.name, "within_digest": within.digest}
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


def _within(
    limit: Budget, selector: Selector, options: Options, keys: KeyScan, census: Census, seed: int
) -> tuple[Options, pa.Table, dict[Domain, Amount]]:
    """The largest selection that the budget allows, by what its rows really cost.

    Means find it at once where all rows cost alike; else what they missed by is taken off.
    """
    limit.refuse_unknown(census.available)
    aim = limit
    while True:
        turned = spend(aim, selector, options, census.available)
        rows, kept = keys.first(selector.pools(census.sizes, turned), census.groups, seed)
        cost = math.fsum(limit.cost(amount) for amount in kept.values())
        if cost <= limit.amount * (1 + 1e-12):
            return turned, rows, kept
        aim = replace(aim, amount=min(aim.amount * limit.amount / cost, aim.amount * (1 - 1e-3)))
