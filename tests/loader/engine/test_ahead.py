"""Working ahead keeps the order and the bounds, and never hangs in silence."""

import logging
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.errors import StalledError
from datalake.loader.engine.ahead import Limits, ahead
from datalake.telemetry import Meter


class Nothing:
    num_bytes = 0

    def wait(self):
        pass


def run(tasks, make, *, num_threads=2, made_bytes=100, size=lambda _: 1, meter=None, **limits):
    return ahead(
        iter(tasks),
        make,
        prefetch=lambda _: [Nothing()],
        size=size,
        limits=Limits(num_threads, made_bytes, 1000, **{"timeout_s": 60.0, **limits}),
        meter=meter or Meter(),
    )


@given(st.integers(0, 40), st.integers(0, 4), st.integers(0, 50))
def test_results_come_in_order(num_tasks, num_threads, made_bytes):
    made = run(range(num_tasks), lambda n: n * n, num_threads=num_threads, made_bytes=made_bytes)
    assert [one.result for one in made] == [n * n for n in range(num_tasks)]


def test_an_error_comes_in_its_turn():
    made = run([2, 1, 0, 3], lambda n: 6 // n)
    assert [next(made).result, next(made).result] == [3, 6]
    with pytest.raises(ZeroDivisionError):
        next(made)


def test_no_more_is_made_than_fits_the_budget():
    lock, begun = threading.Lock(), []

    def make(n):
        with lock:
            begun.append(n)
        return n

    made = run(range(100), make, made_bytes=40, size=lambda _: 10)
    next(made), next(made)
    time.sleep(0.2)
    # Two delivered, one awaited, four that fit.
    assert len(begun) <= 2 + 1 + 4
    made.close()


def test_prefetching_is_bounded_by_bytes():
    class Bytes:
        num_bytes = 10

        def wait(self):
            pass

    asked = []

    def prefetch(n):
        asked.append(n)
        return [Bytes()]

    limits = Limits(1, 0, 35, timeout_s=60)
    made = ahead(
        iter(range(100)), int, prefetch=prefetch, size=lambda _: 1, limits=limits, meter=Meter()
    )
    next(made)
    assert len(asked) <= 4 + 2
    made.close()


def test_a_consumer_that_stops_leaves_no_thread():
    before = threading.active_count()
    made = run(range(1000), lambda n: n, num_threads=3)
    next(made)
    made.close()
    assert threading.active_count() <= before


def test_what_hangs_is_named(caplog):
    meter, release = Meter(), threading.Event()

    def make(n):
        if n == 1:
            with meter.during("store", "block 7 of s3://bucket/table"):
                release.wait(30)
        return n

    made = run(range(3), make, num_threads=1, timeout_s=0.3, warn_after_s=0.1, meter=meter)
    assert next(made).result == 0
    with caplog.at_level(logging.WARNING), pytest.raises(StalledError) as stalled:
        next(made)
    release.set()
    assert "block 7 of s3://bucket/table" in str(stalled.value)
    assert "block 7 of s3://bucket/table" in caplog.text


def test_a_timeout_of_the_work_itself_is_its_own():
    def make(_):
        raise TimeoutError("the store's")

    with pytest.raises(TimeoutError, match="the store's"):
        next(run([1], make))


def test_making_is_timed_by_stage():
    meter = Meter()

    def make(n):
        with meter.during("decode"):
            time.sleep(0.02)
            with meter.during("store"):
                time.sleep(0.03)
        return n

    (made,) = run([1], make, meter=meter)
    assert made.seconds["decode"] >= 0.02
    assert made.seconds["store"] >= 0.03
    assert made.seconds["decode"] < made.seconds["store"] + 0.02
