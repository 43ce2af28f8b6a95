"""Pools and the keys of their rows, numbered for the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from curation.domains import Domain
from curation.order import place_below
from curation.selection.amounts import KeyGroup
from curation.selection.selectors import Pool

__all__ = ["PoolPlan", "every_row"]


def every_row(keep: int, size: int) -> float:  # noqa: ARG001
    """The share below which all rows of a pool stand."""
    return 1.0


@dataclass(frozen=True)
class PoolPlan:
    """Pools and key groups, numbered for the engine."""

    pools: Sequence[Pool]
    groups: Sequence[KeyGroup]
    columns: Sequence[str]
    domains: Sequence[Domain]
    sizes: Sequence[int]
    """Rows of each pool."""

    @classmethod
    def of(
        cls, pools: Sequence[Pool], groups: Sequence[KeyGroup], columns: Sequence[str]
    ) -> PoolPlan:
        """The plan of these pools, over the groups of keys that there are in these columns."""
        rows: Counter[Domain | None] = Counter()
        for group in groups:
            rows[group.domain] += group.amount.num_rows
        return cls(
            pools,
            groups,
            columns,
            domains=[domain for pool in pools for domain in pool.domains],
            sizes=[sum(rows[domain] for domain in pool.domains) for pool in pools],
        )

    def short(self, found: Mapping[int, int]) -> list[int]:
        """The pools that have fewer candidates than rows to keep."""
        return [
            index
            for index, (pool, size) in enumerate(zip(self.pools, self.sizes, strict=True))
            if found.get(index, 0) < min(pool.keep, size)
        ]

    def thresholds(
        self, share: Callable[[int, int], float], only: Collection[int] | None = None
    ) -> pa.Table:
        """For the keys of the pools, the place below which rows are candidates."""
        numbers = {domain: index for index, domain in enumerate(self.domains)}
        pool_of = {
            domain: index
            for index, pool in enumerate(self.pools)
            for domain in pool.domains
            if pool.keep and (only is None or index in only)
        }
        below = [
            place_below(share(pool.keep, size))
            for pool, size in zip(self.pools, self.sizes, strict=True)
        ]
        return pa.Table.from_pylist(
            [
                {
                    **dict(zip(self.columns, group.values, strict=True)),
                    "domain_index": numbers[group.domain],
                    "pool": pool_of[group.domain],
                    "below": below[pool_of[group.domain]],
                }
                for group in self.groups
                if group.domain in pool_of
            ],
            schema=pa.schema([*((name, pa.string()) for name in self.columns), *_THRESHOLDS]),
        )

    def pool_table(self) -> pa.Table:
        """How many rows each pool keeps: `pool` and `keep`."""
        return pa.table(
            {"pool": range(len(self.pools)), "keep": [pool.keep for pool in self.pools]}
        )

    def domain_table(self) -> pa.Table:
        """The names of the domains: `domain_index` and `domain`."""
        return pa.table(
            {
                "domain_index": range(len(self.domains)),
                "domain": [domain.name for domain in self.domains],
            }
        )


_THRESHOLDS: Final = (
    ("domain_index", pa.int32()),
    ("pool", pa.int32()),
    ("below", pa.string()),
)
