"""Merged strides: equal to the rule written out, and never off their shares."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.loader.order.hashing import keys
from datalake.loader.sampling.strides import Strides

weights = st.lists(
    st.one_of(st.integers(1, 9).map(float), st.floats(1e-4, 1.0)), min_size=1, max_size=12
)


def written_out(each: list[float], seed: int, length: int) -> list[tuple[int, int]]:
    """The slow twin: the next event of all streams, again and again."""
    strides = Strides([str(number) for number in range(len(each))], each, seed)
    phases = [
        float(keys(1, "phase", seed, str(number))[0] >> np.uint64(11)) * 2.0**-53
        for number in range(len(each))
    ]
    rates = strides.rates.tolist()
    queue = [((0 + phases[s]) / rates[s], s, 0) for s in range(len(each))]
    heapq.heapify(queue)
    found = []
    for _ in range(length):
        _, stream, number = heapq.heappop(queue)
        found.append((stream, number))
        following = (number + 1 + phases[stream]) / rates[stream]
        heapq.heappush(queue, (following, stream, number + 1))
    return found


def made(each: list[float], seed: int) -> Strides:
    return Strides([str(number) for number in range(len(each))], each, seed)


@settings(deadline=None)
@given(weights, st.integers(0, 2**40), st.data())
def test_equals_the_rule_written_out(each: list[float], seed: int, data: st.DataObject) -> None:
    expected = written_out(each, seed, 600)
    positions = data.draw(st.lists(st.integers(0, 599), max_size=20))
    strides = made(each, seed)
    whole = strides.picks(np.arange(600))
    assert list(zip(*(part.tolist() for part in whole), strict=True)) == expected
    some = strides.picks(np.array(positions, np.int64))
    assert list(zip(*(part.tolist() for part in some), strict=True)) == [
        expected[position] for position in positions
    ]
    for position in positions:
        counts = np.bincount([one for one, _ in expected[:position]], minlength=len(each))
        assert strides.counts(position).tolist() == counts.tolist()


@settings(deadline=None)
@given(weights, st.integers(0, 99))
def test_never_strays_from_its_share(each: list[float], seed: int) -> None:
    strides = made(each, seed)
    streams, _ = strides.picks(np.arange(3000))
    counts = np.cumsum(streams[:, np.newaxis] == np.arange(len(each)), axis=0)
    shares = np.arange(1, 3001)[:, np.newaxis] * strides.rates
    assert (np.abs(counts - shares) < 1 + strides.rates * len(each)).all()


def test_ties_go_to_the_first() -> None:
    """Where phases agree, and the rates too, all times are equal."""
    strides = Strides(["a", "a", "a"], [1, 1, 1], 5)
    streams, numbers = strides.picks(np.arange(300))
    assert streams.tolist() == [0, 1, 2] * 100
    assert numbers.tolist() == [number for number in range(100) for _ in range(3)]


def test_far_away() -> None:
    """No event is lost or given twice where floats are coarse."""
    strides = made([0.123, 0.5, 0.0001, 0.377], 1)
    begin = 10**13 + 7
    streams, numbers = strides.picks(np.arange(begin, begin + 5000))
    before, after = strides.counts(begin), strides.counts(begin + 5000)
    for stream in range(4):
        own = numbers[streams == stream]
        assert np.array_equal(own, np.arange(before[stream], after[stream]))
    assert before.sum() == begin


def test_scattered_positions() -> None:
    strides = made([1, 2, 3], 1)
    positions = np.array([10**9, 5, 10**6, 10**9 + 1, 5])
    streams, numbers = strides.picks(positions)
    for position, stream, number in zip(positions, streams, numbers, strict=True):
        assert [stream, number] == [part[0] for part in strides.picks(np.array([position]))]
