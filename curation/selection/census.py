"""What there is to choose from: the rows of each domain, counted and checked.

Selecting and weighing begin with it. A row without a domain or two domains of one name would make
any choice by domain wrong in silence, so both are refused here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from curation.domains import Domain, Keys
from curation.manifest import MANIFEST
from curation.selection.amounts import US_PER_HOUR, Amount, KeyGroup
from curation.selection.key_scan import KeyScan
from datalake.errors import InputError
from datalake.tables import Table

__all__ = ["Census", "manifest_of", "refuse_nameless"]

_NUM_ROWS_NAMED: Final = 5


@dataclass(frozen=True)
class Census:
    """How much there is of each domain."""

    groups: Sequence[KeyGroup]
    """The combinations of keys, as stored."""
    available: Mapping[Domain, Amount]
    """In the order of the domains."""

    @property
    def sizes(self) -> dict[Domain, int]:
        """Rows of each domain, at least 1."""
        return {domain: amount.num_rows for domain, amount in self.available.items()}

    @classmethod
    def take(cls, keys: KeyScan, table: Table, where: str | None, *, name: str) -> Census:
        """Count the rows for which `where` holds.

        Raises:
            InputError: there is no row, rows have no domain, or two domains have one name.
            SchemaError: the table lacks a key column.
            PredicateError: `where` cannot be evaluated.
            StoreError: the table cannot be read.
        """
        groups = keys.groups()
        _refuse_rows_without_domain(table, where, groups, keys.keys)
        available = _by_domain(groups)
        _refuse_ambiguous_names(available)
        if not available:
            raise InputError(
                "There is nothing to select from",
                where=name or table.uri,
                found="no row" + (f" for which {where}" if where else ""),
            )
        return cls(groups, available)


def manifest_of(
    available: Mapping[Domain, Amount],
    kept: Mapping[Domain, Amount],
    masses: Mapping[Domain, float],
    binding: Collection[Domain] | None = None,
    order_values: Mapping[Domain, float] | None = None,
) -> pa.Table:
    """The manifest, the largest domain first.

    Args:
        available: what there is of each domain.
        kept: what was chosen of it.
        masses: in what proportion draws fall on each domain; any scale.
        binding: the domains that a limit binds; None for those of which rows were dropped.
        order_values: what the order of rows reached.
    """
    total = math.fsum(masses.values())
    rows: list[dict[str, object]] = []
    largest_first = sorted(available.items(), key=lambda item: (-item[1].num_rows, item[0].name))
    for domain, amount in largest_first:
        taken = kept.get(domain, Amount(0, 0, 0))
        timed = amount.num_timed > 0
        dropped = taken.num_rows < amount.num_rows
        rows.append(
            {
                "domain": domain.name,
                "label": domain.label or None,
                "source": domain.source,
                "generator": domain.generator or None,
                "embodiment": domain.embodiment or None,
                "task": domain.task or None,
                "num_rows": amount.num_rows,
                "num_kept": taken.num_rows,
                "hours": amount.duration_us / US_PER_HOUR if timed else None,
                "hours_kept": taken.duration_us / US_PER_HOUR if timed else None,
                "retention": taken.num_rows / amount.num_rows,
                "mass": masses.get(domain, 0.0) / total if total else 0.0,
                "binds": dropped if binding is None else domain in binding,
                "order_value": (order_values or {}).get(domain),
            }
        )
    return pa.Table.from_pylist(rows, schema=MANIFEST)


def refuse_nameless(rows: pa.Table, *, where: str) -> None:
    """See that every chosen row has an id.

    Raises:
        InputError: rows have none.
    """
    if nameless := rows["utt_id"].null_count:
        raise InputError(
            f"{nameless:,} rows that would be selected have no utt_id",
            where=where,
            expected="an id in every row: it decides the row's place in the order",
            fix="Correct the rows, or leave them out with a `where` such as: utt_id IS NOT NULL",
        )


def _refuse_rows_without_domain(
    table: Table, where: str | None, groups: Sequence[KeyGroup], keys: Keys
) -> None:
    missing = [group for group in groups if group.domain is None]
    if not missing:
        return
    predicate = f"({where}) AND ({keys.without_domain})" if where else keys.without_domain
    examples = table.scan(
        [keys.id_column], where=predicate, limit=_NUM_ROWS_NAMED, with_row_index=True
    ).read_all()
    named = ", ".join(
        f"{row[keys.id_column]} (row {row['row_index']})" for row in examples.to_pylist()
    )
    count = sum(group.amount.num_rows for group in missing)
    raise InputError(
        f"{count:,} rows have no domain",
        where=table.uri,
        expected=keys.expected,
        found=named + (", …" if count > examples.num_rows else ""),
        fix=f"Correct the rows, or leave them out with a `where` such as: {keys.advice}",
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
