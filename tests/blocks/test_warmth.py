"""The kernel is told of what comes while it has to fetch it, and not when all is there."""

import pytest

from datalake.blocks import warmth
from datalake.blocks.warmth import Warmth


@pytest.fixture
def faults(monkeypatch):
    count = [0]
    monkeypatch.setattr(warmth, "_faults", lambda: count[0])
    return count


def test_a_warm_stream_is_soon_left_alone(faults):
    judge = Warmth()
    told = [judge.is_cold() for _ in range(1000)]
    assert 1 <= sum(told) <= 64
    assert not any(told[64:])


def test_a_cold_stream_is_told_nearly_always(faults):
    judge, told = Warmth(), []
    for _ in range(20_000):
        told.append(judge.is_cold())
        # Whoever is not told has to fetch each page when it is touched.
        faults[0] += 0 if told[-1] else 50
    assert sum(told) > 0.98 * len(told)


def test_a_stray_fault_is_no_cold_file(faults):
    judge = Warmth()
    for _ in range(64):
        judge.is_cold()
    faults[0] += 1
    assert not judge.is_cold()
