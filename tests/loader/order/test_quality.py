"""What a shuffle is worth: measured, predicted, and good enough."""

from __future__ import annotations

import numpy as np
import pytest

from datalake.loader.order import Blocks, Exact, Order, Sequential
from datalake.loader.order.quality import QualityMeter, expected_blocks, expected_quality

NUM_EXAMPLES, BATCH = 20_000, 64


def by_hand(examples: np.ndarray, reference: int) -> tuple[float, float, float]:
    """The definitions written out over a whole epoch."""
    num_blocks = NUM_EXAMPLES // reference
    batches = [examples[i : i + BATCH] for i in range(0, len(examples) - BATCH + 1, BATCH)]
    distinct = np.mean([len({row // reference for row in batch.tolist()}) for batch in batches])
    uniform = num_blocks * (1 - (1 - 1 / num_blocks) ** BATCH)
    steps = np.mean([abs(np.diff(batch)).mean() for batch in batches])
    kept = examples[: len(batches) * BATCH]
    moves = np.abs(kept - np.arange(len(kept))).mean()
    third = NUM_EXAMPLES / 3
    return float(distinct / uniform), float(steps / third), float(moves / third)


@pytest.mark.parametrize(
    "order",
    [Exact(NUM_EXAMPLES, 0, 0), Sequential(NUM_EXAMPLES), Blocks(NUM_EXAMPLES, 32, 9, 0, 0)],
)
def test_follows_its_definitions(order: Order) -> None:
    found = expected_quality(order, BATCH, 50, num_batches=10**6)
    expected = by_hand(order.examples(np.arange(NUM_EXAMPLES)), 50)
    assert (found.mix, found.adjacent, found.displaced) == pytest.approx(expected)
    # Some of the batches say nearly the same.
    sampled = expected_quality(order, BATCH, 50, num_batches=100)
    assert sampled.num_batches == 100
    assert sampled.mix == pytest.approx(found.mix, rel=0.02)


def test_exact_is_uniform() -> None:
    for reference in (50, 1000):
        found = expected_quality(Exact(NUM_EXAMPLES, 0, 0), BATCH, reference)
        assert found.mix >= 0.99
        assert found.adjacent == pytest.approx(1, abs=0.03)
        assert found.displaced == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("block_size", [25, 32, 50, 64])
def test_blocks_with_a_cache_of_a_quarter_are_nearly_uniform(block_size: int) -> None:
    num_blocks = -(-NUM_EXAMPLES // block_size)
    # The blocks in use and a sixteenth of them read ahead fit in a quarter.
    at_once = num_blocks * 4 // 17
    order = Blocks(NUM_EXAMPLES, block_size, at_once, 0, 0)
    assert expected_quality(order, BATCH, 50).mix >= 0.95
    assert expected_quality(order, BATCH, 1000).blocks_a_batch >= 19


def test_a_uniform_batch() -> None:
    assert expected_blocks(20, 64) == pytest.approx(20 * (1 - 0.95**64))
    assert expected_blocks(1, 64) == 1
    assert expected_blocks(1, 0) == 0


def test_nothing_seen_is_no_number() -> None:
    meter = QualityMeter(100, 10)
    meter.observe(np.empty(0, int))
    assert np.isnan(meter.quality().mix)
    meter.observe(np.array([5]))
    assert meter.quality().mix == 1
    assert np.isnan(meter.quality().adjacent)
