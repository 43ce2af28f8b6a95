"""Part ids: `<corpus>/<bucket>of<number of buckets>`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["count_by_part", "num_parts_of", "part_id_of"]


def part_id_of(corpus: str, bucket: int, num_parts: int) -> str:
    """The id of a part, the same on every run."""
    return f"{corpus}/{bucket}of{num_parts}"


def num_parts_of(part_id: str) -> int:
    """The number of buckets that a part id tells."""
    return int(part_id.rpartition("of")[2])


def count_by_part(batches: Iterable[pa.RecordBatch], corpus: str) -> Counter[str]:
    """The number of rows of each part of a corpus.

    Args:
        batches: their first column holds part ids, those of other corpora too.
        corpus: its name; `a/b` is another corpus than `a`.
    """
    counts: Counter[str] = Counter()
    for batch in batches:
        for entry in pc.value_counts(batch.column(0)).to_pylist():
            counts[entry["values"]] += entry["counts"]
    return Counter(
        {
            part_id: count
            for part_id, count in counts.items()
            if part_id is not None and part_id.rpartition("/")[0] == corpus
        }
    )
