"""What an example costs on this machine: measured by reading some with one thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.loader.order.hashing import keys, mix
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Sampler
from datalake.loader.sources.source import Columns, Source
from datalake.telemetry import Meter

__all__ = ["FETCH_S", "Costs", "calibrate"]

FETCH_S: Final = 3e-9
"""CPU seconds to bring a byte from a store into the cache (2 to 5 ms a MB were measured)."""

# Examples that are read over and over: enough for a mean, few enough to lie in few blocks.
_NUM_EXAMPLES: Final = 512


@dataclass(frozen=True)
class Costs:
    """What an example takes, by one thread."""

    cpu_s: float
    """CPU seconds to make an example of bytes that are on this machine: looking up what stands at
    its position, reading, decoding, filling the batch."""
    batch_bytes: float
    """Bytes an example takes in a batch."""
    fetch_s: float = FETCH_S
    """CPU seconds a byte that comes from a store."""
    num_examples: int = 0
    """So many were read; 0 for costs that were given."""


def calibrate(sampler: Sampler, *, batch_size: int, for_s: float = 1.5) -> Costs:
    """Read some hundred neighbouring examples again and again, with this thread.

    What has to be fetched for them is fetched before time is taken. CPU time is that of this
    thread alone, so that waiting, and other work on the machine, do not count.

    Args:
        sampler: whose sources are read.
        batch_size: examples a batch.
        for_s: how long.

    Raises:
        BadRowsError: an example is bad.
        StoreError: rows cannot be read.
    """
    count = min(_NUM_EXAMPLES, sampler.num_examples)
    batches = [np.arange(s, min(s + batch_size, count)) for s in range(0, count, batch_size)]
    first = [_first_rows(source, rows) for source, rows in sampler.reach()]
    rows = [_neighbours(sampler, first, index, len(batch)) for index, batch in enumerate(batches)]
    meter, sampler = Meter(), sampler.view()
    for source in sampler.sources:
        source.attach(meter)
    sizes = 0
    for places, own in zip(batches, rows, strict=True):
        sizes += _read(sampler, places, own)
    spent = done = 0.0
    deadline = time.monotonic() + for_s
    while done == 0 or time.monotonic() < deadline:
        for places, own in zip(batches, rows, strict=True):
            begin = time.thread_time()
            _read(sampler, places, own)
            spent += time.thread_time() - begin
            done += len(places)
    return Costs(spent / done, sizes / count, num_examples=int(done))


def _first_rows(source: Source, rows: Indices | None) -> Indices:
    """The first rows that may come of a source: others may be masked, or bad."""
    if rows is None:
        return np.arange(min(_NUM_EXAMPLES, source.num_rows))
    count = min(_NUM_EXAMPLES, len(rows))
    return np.sort(np.partition(rows, count - 1)[:count]) if count else rows


def _neighbours(
    sampler: Sampler, first: Sequence[Indices], batch: int, size: int
) -> dict[int, Indices]:
    """Rows for a batch: of each source as many as it has in a batch of the stream, side by side."""
    picks = sampler.picks(0, np.arange(batch * size, min((batch + 1) * size, sampler.num_examples)))
    found = {}
    for index, rows in enumerate(first):
        own = int((picks.sources == index).sum())
        if own:
            found[index] = rows[(np.arange(own) + batch * own) % len(rows)]
    return found


def _read(
    sampler: Sampler, positions: npt.NDArray[np.int64], rows: dict[int, npt.NDArray[np.int64]]
) -> int:
    """Do what making a batch takes; its bytes."""
    sampler.picks(0, positions)
    size = 0
    for index, own in rows.items():
        words = mix(own.astype(np.uint64), keys(1, "calibrate")[0])
        size += _bytes_of(sampler.sources[index].read(own, words, _fresh))
    return size


def _fresh(shape: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.empty(tuple(shape), dtype)


def _bytes_of(columns: Columns) -> int:
    size = 0
    for values in columns.values():
        if isinstance(values, np.ndarray):
            size += values.nbytes
        elif isinstance(values, list):
            size += sum(len(v) if isinstance(v, str | bytes) else 8 for v in values)
    return size
