"""What an epoch takes from the store: a pure calculation over blocks, order and cache.

All numbers are of one node, whose ranks share its cache. With `k` examples in a block of which this
node has one in `N`, the node needs the block with probability 1 - (1 - 1/N)^k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.loader.order.blocks import MAX_LANES
from datalake.loader.planning.columns import ReadColumn
from datalake.loader.planning.retention import kept_in_turn, kept_shuffled
from datalake.loader.sampling.sampler import Sampler

__all__ = ["Access", "Reading", "Taken", "access_of", "reading"]

How: TypeAlias = Literal["exact", "blocks", "sequential"]

# Of a Parquet file of ours: what is read to get at any of its rows.
_GROUP_BYTES: Final = 10 << 20
# Measured against SeaweedFS: Lance takes 1 GET for a block of media and 4 for the first narrow
# block of a file, and joins few of the rows that it takes one by one. Delta asks for the size of a
# file before each row group.
_LANCE_NARROW: Final = 4
_DELTA_REQUESTS: Final = 2
# As the loader's engine has it: steps that are begun ahead.
_AHEAD_STEPS: Final = 32
# Of a file of the cache, beside the rows: its head, and the rest of the last page.
_FILE_BYTES: Final = 3072


@dataclass(frozen=True)
class Access:
    """How the rows of a source come."""

    how: How
    num_examples: float
    """Of this source, an epoch, all ranks."""
    blocks_at_once: int
    """Of `blocks`."""
    counts: npt.NDArray[np.int64]
    """Examples in each block of the source that has any, (num_blocks,)."""
    block_rows: int
    num_rows: int


@dataclass(frozen=True)
class Taken:
    """What comes from the store in an epoch."""

    reads: float = 0.0
    """Calls to the table: of a block, or of the rows of a batch."""
    num_bytes: float = 0.0
    """Of rows: what `stats().counts["origin_bytes"]` will say."""
    requests: float = 0.0
    """Of a store, about; a read each for a local table."""
    store_bytes: float = 0.0
    """What the store sends, or the disk, about: more where rows cannot be had alone."""

    def __add__(self, other: Taken) -> Taken:
        return Taken(
            self.reads + other.reads,
            self.num_bytes + other.num_bytes,
            self.requests + other.requests,
            self.store_bytes + other.store_bytes,
        )


@dataclass(frozen=True)
class Reading:
    """What a source's columns take in the first and in later epochs."""

    first: Taken
    later: Taken
    cache_bytes: float
    """What the cache has to hold for the order to be read without fetching twice in an epoch."""
    all_bytes: float
    """What it has to hold for later epochs to fetch nothing."""
    hit_share_first: float
    """Blocks that are there when an example needs one, over all that examples need; of media that
    are not mapped, NaN without such."""
    hit_share_later: float
    notes: tuple[str, ...] = ()
    opening_blocks: float = 0.0
    """Blocks, narrow ones too, that the first batch of a rank needs."""
    opening_bytes: float = 0.0


def access_of(sampler: Sampler, source: int, how: How, share: float, at_once: int) -> Access:
    """How a sampler's examples lie in the blocks of one of its sources.

    Args:
        sampler: of the stream.
        source: which.
        how: the order's kind.
        share: of the examples that are of this source.
        at_once: blocks that `blocks` works on together.
    """
    of = sampler.sources[source]
    num_blocks = -(-of.num_rows // of.block_rows)
    rows = getattr(sampler, "rows", None)
    if rows is not None:
        counts = np.bincount(np.asarray(rows) // of.block_rows, minlength=num_blocks)
    else:
        counts = np.full(num_blocks, of.block_rows, np.int64)
        counts[-1] = of.num_rows - (num_blocks - 1) * of.block_rows
    return Access(
        how, sampler.num_examples * share, at_once, counts[counts > 0], of.block_rows, of.num_rows
    )


def reading(
    columns: Sequence[ReadColumn],
    access: Access,
    *,
    cache_bytes: float,
    batch_size: int,
    world_size: int,
    nodes: int,
    read_bytes: int,
) -> Reading:
    """What a node takes for one source.

    Args:
        columns: of the source.
        access: how its rows come.
        cache_bytes: the node's budget.
        batch_size: examples a rank and step.
        world_size: ranks.
        nodes: among which they are shared out evenly.
        read_bytes: a rank's, that may be on the way from stores.
    """
    cached = [column for column in columns if not column.is_mapped]
    narrow = [column for column in cached if not column.is_media]
    media = [column for column in cached if column.is_media]
    first = later = Taken()
    for column in narrow:
        first += _blocks(column, column.layout.num_blocks)
    narrow_bytes = first.num_bytes
    narrow_blocks = first.reads
    if not media:
        batch = Reading(first, later, narrow_bytes, narrow_bytes, 1.0, 1.0)
        return replace(batch, opening_blocks=narrow_blocks, opening_bytes=narrow_bytes)
    block_bytes = sum(c.layout.block_rows * c.layout.row_bytes for c in media)
    row_bytes = sum(c.layout.row_bytes for c in media)
    touched, touches = _touched(access, batch_size, world_size, nodes)
    own = access.num_examples / nodes
    # A block that is shorter than others counts as what it has.
    filled = float(np.minimum(access.counts, access.block_rows).sum()) / (
        len(access.counts) * access.block_rows
    )
    if access.counts.sum() < access.num_rows:
        filled = 1.0  # Of a selection whole blocks are fetched all the same.
    all_bytes = touched * block_bytes * filled
    file_bytes = block_bytes * filled + len(media) * _FILE_BYTES
    room = max(cache_bytes - narrow_bytes, 0.0) / file_bytes
    ranks = world_size / nodes
    ahead = min(
        _AHEAD_STEPS * batch_size * ranks * touched / max(own, 1.0),
        max(read_bytes * ranks / file_bytes, 1.0),
    )
    overflows = sum(c.reader.num_bytes([c.layout.column]) for c in media) > cache_bytes
    notes: tuple[str, ...] = ()
    # Blocks of a selection's rows lie in several blocks of the table.
    spread = touched / max(own * nodes / access.block_rows, 1.0)
    at_once = access.blocks_at_once * max(spread, 1.0)
    working = float(min(at_once, touched)) if access.how == "blocks" else 1.0
    in_use = min(working + max(working / MAX_LANES, ahead), touched)
    if access.how == "exact" and overflows:
        notes = (
            "The media are more than the cache holds, and rows come one here and one there: they "
            "are fetched one by one in every epoch (order=blocks fetches each block once)",
        )
        steps = own / batch_size
        each = Taken()
        for column in media:
            each += _rows(column, own, steps, batch_size)
        first, later = first + each, each
        return Reading(
            first,
            later,
            narrow_bytes,
            narrow_bytes + all_bytes,
            0.0,
            0.0,
            notes,
            narrow_blocks + batch_size,
            narrow_bytes + batch_size * row_bytes,
        )
    fetched_first, fetched_later = touched, 0.0
    if access.how == "blocks":
        if room < working:
            again = touches * (1 - room / working)
            fetched_first = fetched_later = max(touched, again)
            notes = (
                f"The cache holds {room:.0f} blocks, fewer than the {working:.0f} that are in use "
                "together: blocks are fetched again and again (a smaller --working-set)",
            )
        else:
            fetched_later = touched * (1 - kept_shuffled(round(touched), room, in_use))
            if room >= touched:
                fetched_later = 0.0
    elif access.how == "sequential":
        fetched_later = touched * (1 - kept_in_turn(round(touched), room - ahead))
    for column in media:
        first += _blocks(column, fetched_first, filled)
        later += _blocks(column, fetched_later, filled)
    opening = min(float(batch_size), touched, max(working, 1.0) if access.how == "blocks" else 1e18)
    if access.how == "sequential":
        opening = batch_size / access.block_rows + 1
    return Reading(
        first,
        later,
        narrow_bytes + in_use * block_bytes if access.how != "exact" else narrow_bytes + all_bytes,
        narrow_bytes + all_bytes,
        max(0.0, 1 - fetched_first / touches),
        max(0.0, 1 - fetched_later / touches),
        notes,
        narrow_blocks + opening * len(media),
        narrow_bytes + opening * block_bytes * filled,
    )


def _touched(access: Access, batch_size: int, world_size: int, nodes: int) -> tuple[float, float]:
    """Different blocks of media that a node needs in an epoch, and how often a batch needs one."""
    num_blocks = len(access.counts)
    seen = min(1.0, access.num_examples / max(float(access.counts.sum()), 1.0))
    if access.how == "sequential":
        # A rank's part of a step is a run of rows.
        steps = access.num_examples / (batch_size * world_size)
        slice_rows = batch_size * world_size / nodes
        own = min(float(num_blocks), steps * ((slice_rows - 1) / access.block_rows + 1))
        ranks = world_size / nodes
        return own, steps * ranks * ((batch_size - 1) / access.block_rows + 1)
    missed = (1 - seen / nodes) ** access.counts
    touched = float((1 - missed).sum())
    at_once = num_blocks if access.how == "exact" else min(access.blocks_at_once, num_blocks)
    steps = access.num_examples / nodes / batch_size
    in_batch = at_once * (1 - (1 - 1 / at_once) ** batch_size) if at_once > 1 else 1.0
    return touched, steps * in_batch


def _blocks(column: ReadColumn, count: float, filled: float = 1.0) -> Taken:
    layout = column.layout
    rows = count * layout.block_rows * filled if column.is_media else layout.num_rows
    num_bytes = rows * layout.row_bytes
    kind = column.reader.table.format
    if kind == "delta":
        # The groups in which a block begins and ends are read whole.
        group = min(_GROUP_BYTES, column.reader.table.num_bytes()) if column.is_media else 0
        groups = count * (num_bytes / max(count, 1) / max(group, 1) + 1) if group else count
        requests = (_DELTA_REQUESTS if column.reader.is_remote else 1) * groups
        return Taken(count, num_bytes, requests, num_bytes + count * group)
    requests = count * (_LANCE_NARROW if column.reader.is_remote and not column.is_media else 1)
    return Taken(count, num_bytes, requests, num_bytes)


def _rows(column: ReadColumn, rows: float, steps: float, batch_size: int) -> Taken:
    """Rows without their blocks, a batch at a time."""
    num_bytes = rows * column.layout.row_bytes
    if column.reader.table.format == "delta":
        whole = column.reader.table.num_bytes()
        groups = max(whole / _GROUP_BYTES, 1.0)
        touched = groups * (1 - (1 - 1 / groups) ** batch_size) if groups > 1 else 1.0
        return Taken(
            steps, num_bytes, _DELTA_REQUESTS * steps * touched, steps * touched * whole / groups
        )
    return Taken(steps, num_bytes, rows if column.reader.is_remote else steps, num_bytes)
