"""How good a shuffle is: measured on what a stream gave, or predicted before it runs.

    mix         distinct storage blocks in a batch over what a uniform shuffle is expected to have,
                n (1 - (1 - 1/n)^b) for n blocks and batches of b. Above 1 where blocks take turns
    adjacent    mean distance of neighbours in the stream over a uniform shuffle's third of the rows
    displaced   mean distance of an example's place in the stream from its place in the table, over
                a uniform shuffle's third of the rows

1 is uniform in all three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from datalake.loader.order.hashing import keys, mix
from datalake.loader.order.order import Indices, Order

__all__ = ["Quality", "QualityMeter", "expected_blocks", "expected_quality"]

NUM_SAMPLED: Final = 300


@dataclass(frozen=True)
class Quality:
    """How good a shuffle is; NaN where nothing was seen yet."""

    blocks_a_batch: float
    """Distinct storage blocks in a batch, on average."""
    blocks_uniform: float
    """The same, expected of a uniform shuffle."""
    mix: float
    adjacent: float
    displaced: float
    num_batches: int
    """Batches it was measured on."""


def expected_blocks(num_blocks: int, batch_size: float) -> float:
    """Distinct blocks that a batch of a uniform shuffle is expected to have."""
    return (
        float(-num_blocks * np.expm1(batch_size * np.log1p(-1 / num_blocks)))
        if (num_blocks > 1)
        else float(min(batch_size, 1))
    )


class QualityMeter:
    """Measures a shuffle while it runs, in constant memory. One thread uses it.

    Args:
        num_rows: rows of the table (or examples of the selection).
        block_rows: consecutive rows a storage block.
        num_examples: examples an epoch; None for all rows.
    """

    def __init__(self, num_rows: int, block_rows: int, num_examples: int | None = None) -> None:
        self._num_rows = num_rows
        self._num_examples = num_rows if num_examples is None else num_examples
        self._block_rows = block_rows
        self._num_blocks = -(-num_rows // block_rows)
        self._blocks = self._uniform = 0.0
        self._steps = self._moves = 0.0
        self._num_batches = self._num_steps = self._num_moves = 0

    def observe(self, rows: Indices, positions: Indices | None = None) -> None:
        """Count one batch.

        Args:
            rows: the row of each example, in the order of the stream, (n,).
            positions: their positions in the epoch, for `displaced`; None to leave that out.
        """
        if not len(rows):
            return
        self._num_batches += 1
        self._blocks += len(np.unique(rows // self._block_rows))
        self._uniform += expected_blocks(self._num_blocks, len(rows))
        self._steps += float(np.abs(np.diff(rows)).sum())
        self._num_steps += len(rows) - 1
        if positions is not None:
            places = positions * (self._num_rows / self._num_examples)
            self._moves += float(np.abs(places - rows).sum())
            self._num_moves += len(rows)

    def quality(self) -> Quality:
        """What was seen so far."""
        third = self._num_rows / 3
        return Quality(
            blocks_a_batch=_ratio(self._blocks, self._num_batches),
            blocks_uniform=_ratio(self._uniform, self._num_batches),
            mix=_ratio(self._blocks, self._uniform),
            adjacent=_ratio(self._steps, self._num_steps * third),
            displaced=_ratio(self._moves, self._num_moves * third),
            num_batches=self._num_batches,
        )


def expected_quality(
    order: Order, batch_size: int, reference_block_size: int, num_batches: int = NUM_SAMPLED
) -> Quality:
    """How good an order will be, from batches drawn over the epoch; all of them if there are few.

    Args:
        order: of one epoch.
        batch_size: consecutive positions that are counted together: those of all ranks at a step,
            or one rank's.
        reference_block_size: consecutive examples of a storage block.
        num_batches: how many to draw.
    """
    meter = QualityMeter(order.num_examples, reference_block_size)
    whole = max(order.num_examples // batch_size, 1)
    batches = np.arange(whole if whole <= num_batches else num_batches)
    if whole > num_batches:
        # One from each of equally long stretches.
        words = mix(batches.astype(np.uint64), keys(1, "quality")[0])
        within = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        batches = ((batches + within) * (whole / num_batches)).astype(np.int64)
    for batch in batches.tolist():
        stop = min((batch + 1) * batch_size, order.num_examples)
        positions = np.arange(batch * batch_size, stop)
        meter.observe(order.examples(positions), positions)
    return meter.quality()


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
