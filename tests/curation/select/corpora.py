"""Small key tables, and selection done the slow way: sort everything, in plain Python."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import count, pairwise

import numpy as np
import pyarrow as pa

from datalake import tables
from datalake.tables import Table

KEYS = pa.schema(
    [
        pa.field("utt_id", pa.string(), nullable=False),
        pa.field("source", pa.string()),
        pa.field("generator", pa.string()),
        pa.field("label", pa.string()),
        pa.field("duration_s", pa.float64()),
    ]
)

_numbers = count()


def key_table(sizes: Mapping[str, int]) -> pa.Table:
    """Keys for so many rows of each domain, named as `<source>` or `<source>/<generator>`."""
    rows = []
    for domain, size in sizes.items():
        source, _, generator = domain.partition("/")
        rows += [
            {
                "utt_id": f"{source}/{generator or 'real'}-{number}",
                "source": source,
                "generator": generator or None,
                "label": "spoof" if generator else "bonafide",
                "duration_s": 1.0 + number % 4,
            }
            for number in range(size)
        ]
    return pa.Table.from_pylist(rows, schema=KEYS)


def stored(keys: pa.Table, *, blocks: int = 1, shuffle: int | None = None) -> Table:
    """A table of these keys in memory, appended in blocks, perhaps in another order."""
    if shuffle is not None:
        order = np.random.default_rng(shuffle).permutation(keys.num_rows)
        keys = keys.take(pa.array(order))
    table = tables.create_table(f"memory://select/{next(_numbers)}", keys.schema, format="memory")
    bounds = np.linspace(0, keys.num_rows, blocks + 1).astype(int)
    for start, stop in pairwise(bounds):
        table = table.append(keys.slice(start, stop - start))
    return table


def domain_name(row: Mapping[str, str | None]) -> str:
    return f"{row['source']}/{row['generator']}" if row["label"] == "spoof" else str(row["source"])


def first_of_each(
    rows: Iterable[Mapping[str, str]], keep: Mapping[str, int], seed: int
) -> dict[str, tuple[str, int]]:
    """The oracle: {utt_id: (domain, rank)} of the first `keep[domain]` rows of each domain."""
    ordered = defaultdict(list)
    for row in rows:
        digest = hashlib.md5(f"{seed}/{row['utt_id']}".encode()).digest()
        ordered[domain_name(row)].append((int.from_bytes(digest[:8], "big"), row["utt_id"]))
    return {
        utt_id: (domain, rank)
        for domain, places in ordered.items()
        for rank, (_, utt_id) in enumerate(sorted(places)[: keep[domain]])
    }
