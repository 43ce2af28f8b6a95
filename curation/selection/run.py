"""Select: from a table to a selection."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields

import pyarrow as pa

from curation.domains import WITHOUT_DOMAIN, Domain
from curation.manifest import MANIFEST, remarks
from curation.selection.key_scan import Amount, KeyGroup, KeyScan
from curation.selection.options import Options, RealMode
from curation.selection.selectors import Selector
from datalake import plugins
from datalake.errors import InputError
from datalake.lake import SELECTION_ROWS, Selection
from datalake.tables import Table

__all__ = ["select"]

NUM_ROWS_NAMED = 5
US_PER_HOUR = 3_600_000_000

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
    budget: int | None = None,
    where: str | None = None,
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
        budget: rows in all, for methods that go by a budget.
        where: consider only rows for which this SQL expression holds.
        name: the selection's name.

    Raises:
        InputError: an option cannot be used, rows have no domain or id, or nothing is selected.
        NotFoundError: there is no such method.
        SchemaError: the table lacks a key column.
        PredicateError: `where` cannot be evaluated.
        StoreError: the table cannot be read.
    """
    options = Options(cap=cap, ratio=ratio, real_mode=real_mode, budget=budget)
    selector = _selector(method)
    used = _used(method, selector, options)
    with KeyScan(table, where) as keys:
        groups = keys.groups()
        _refuse_rows_without_domain(table, where, groups)
        available = _by_domain(groups)
        _refuse_ambiguous_names(available)
        if not available:
            raise InputError(
                "There is nothing to select from",
                where=table_name or table.uri,
                found="no row" + (f" for which {where}" if where else ""),
            )
        sizes = {domain: amount.num_rows for domain, amount in available.items()}
        rows, kept = keys.first(selector.pools(sizes, options), groups, seed)
    if not rows.num_rows:
        raise InputError(
            "The selection is empty",
            where=table_name or table.uri,
            expected="options that keep at least one row",
            found=f"{sum(sizes.values())} rows in {len(sizes)} domains, and none of them kept",
        )
    if nameless := rows["utt_id"].null_count:
        raise InputError(
            f"{nameless:,} rows that would be selected have no utt_id",
            where=table_name or table.uri,
            expected="an id in every row: it decides the row's place in the order",
            fix="Correct the rows, or leave them out with a `where` such as: utt_id IS NOT NULL",
        )
    manifest = _manifest(available, kept)
    parameters = {**used, "seed": seed, "where": where}
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


def _selector(method: str) -> Selector:
    found = plugins.load("datalake.selectors", method)
    if not isinstance(found, Selector):
        raise InputError(
            f"The plug-in {method} is no selector",
            expected="an object with `uses` and `pools` (curation.selection.Selector)",
            found=type(found).__name__,
        )
    return found


def _used(method: str, selector: Selector, options: Options) -> dict[str, object]:
    """The options that the selector reads, by name; refuses others that were set."""
    used: dict[str, object] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name in selector.uses:
            used[field.name] = value
        elif value != field.default:
            raise InputError(
                f"The method {method} does not use {field.name}",
                expected=", ".join(sorted(selector.uses)) or "no options but the seed",
                found=f"{field.name} = {value}",
                fix=f"Leave {field.name} out, or choose another method",
            )
    return used


def _refuse_rows_without_domain(
    table: Table, where: str | None, groups: Sequence[KeyGroup]
) -> None:
    missing = [group for group in groups if group.domain is None]
    if not missing:
        return
    predicate = f"({where}) AND ({WITHOUT_DOMAIN})" if where else WITHOUT_DOMAIN
    examples = table.scan(
        ["utt_id"], where=predicate, limit=NUM_ROWS_NAMED, with_row_index=True
    ).read_all()
    named = ", ".join(f"{row['utt_id']} (row {row['row_index']})" for row in examples.to_pylist())
    count = sum(group.amount.num_rows for group in missing)
    raise InputError(
        f"{count:,} rows have no domain",
        where=table.uri,
        expected="a label (bonafide or spoof), a source, and for spoofs a generator",
        found=named + (", …" if count > examples.num_rows else ""),
        fix="Correct the rows, or leave them out with a `where` such as: label IS NOT NULL AND "
        "(label = 'bonafide' OR generator IS NOT NULL)",
    )


def _refuse_ambiguous_names(domains: Mapping[Domain, object]) -> None:
    counts = Counter(domain.name for domain in domains)
    name, count = counts.most_common(1)[0] if counts else ("", 0)
    if count > 1:
        raise InputError(
            "Two domains have one name",
            expected="sources and generators whose names tell them apart",
            found="; ".join(str(domain) for domain in domains if domain.name == name),
            fix="Rename a source so that it is not another one's `<source>/<generator>`",
        )


def _by_domain(groups: Sequence[KeyGroup]) -> dict[Domain, Amount]:
    """Amounts by domain, in the order of the domains."""
    amounts: dict[Domain, Amount] = {}
    for group in groups:
        if group.domain is not None:
            known = amounts.get(group.domain)
            amounts[group.domain] = known + group.amount if known else group.amount
    return dict(sorted(amounts.items()))


def _manifest(available: Mapping[Domain, Amount], kept: Mapping[Domain, Amount]) -> pa.Table:
    rows: list[dict[str, object]] = []
    largest_first = sorted(available.items(), key=lambda item: (-item[1].num_rows, item[0].name))
    for domain, amount in largest_first:
        taken = kept.get(domain, Amount(0, 0, 0))
        timed = amount.num_timed > 0
        rows.append(
            {
                "domain": domain.name,
                "label": domain.label,
                "source": domain.source,
                "generator": domain.generator or None,
                "num_rows": amount.num_rows,
                "num_kept": taken.num_rows,
                "hours": amount.duration_us / US_PER_HOUR if timed else None,
                "hours_kept": taken.duration_us / US_PER_HOUR if timed else None,
                "retention": taken.num_rows / amount.num_rows,
                "binds": taken.num_rows < amount.num_rows,
            }
        )
    return pa.Table.from_pylist(rows, schema=MANIFEST)
