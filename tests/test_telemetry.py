"""A meter adds up times by stage, without what lies within."""

import pickle
import threading
import time

from datalake.telemetry import Meter


def test_a_stage_within_a_stage_counts_for_itself_only():
    meter = Meter()
    with meter.during("decode"), meter.during("cache"):
        time.sleep(0.05)
    seconds = meter.seconds()
    assert seconds["cache"] >= 0.05
    assert seconds["decode"] < 0.02


def test_threads_add_up_and_know_their_own():
    meter = Meter()

    def work():
        with meter.during("store"):
            time.sleep(0.03)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.seconds()["store"] >= 0.09
    assert meter.own_seconds()["store"] == 0


def test_doing_names_what_lasts_longest():
    meter, release, begun = Meter(), threading.Event(), threading.Event()

    def work():
        with meter.during("store", "block 3"):
            begun.set()
            release.wait(10)

    thread = threading.Thread(target=work, name="fetcher")
    thread.start()
    begun.wait(10)
    (doing,) = meter.doing()
    assert (doing.thread, doing.stage, doing.what) == ("fetcher", "store", "block 3")
    release.set()
    thread.join()
    assert meter.doing() == []


def test_counts_and_copies():
    meter = Meter()
    meter.count("cache_hits")
    meter.count("cache_hits", 4)
    assert meter.counts() == {"cache_hits": 5}
    assert pickle.loads(pickle.dumps(meter)).counts() == {}
