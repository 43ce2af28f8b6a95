"""Copies without the lock give what copies one by one give, in the threads that make batches."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.blocks.gather import Gatherer, gatherer
from datalake.loader.engine.threads import Crew
from datalake.loader.engine.unlocked import Unlocked, begin_unlocked
from tests.patience import PATIENCE_S

KINDS = ("int16", "float32", "uint8", "int64", "bool")


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(st.integers(0, 70), max_size=5), shift=st.integers(0, 3))
def test_all_at_once_is_one_by_one(kind: str, sizes: list[int], shift: int) -> None:
    dtype = np.dtype(kind)
    for factor in (None, 2.0**-15) if kind in ("int16", "float32") else (None,):
        into: npt.DTypeLike = np.float32 if factor else dtype
        made = filled(Unlocked(), sizes, shift, dtype, into, factor)
        assert made == filled(gatherer(), sizes, shift, dtype, into, factor)


def filled(
    one: Gatherer,
    sizes: list[int],
    shift: int,
    dtype: np.dtype[Any],
    into: npt.DTypeLike,
    factor: float | None,
) -> list[bytes]:
    """Slices of wider arrays, filled from read-only values at odd addresses, and zeroed."""
    values = []
    for size in sizes:
        data = np.arange(size * dtype.itemsize + shift, dtype=np.uint8)
        if dtype.kind == "f":
            data[shift:] = np.arange(size, dtype=dtype).view(np.uint8)
        if dtype.kind == "b":
            data &= 1
        value = data[shift:].view(dtype)
        value.flags.writeable = False
        values.append(value)
    wide = [np.full(size + 4, 1, into) for size in sizes]
    one.copy([array[2:-2] for array in wide], values, factor)
    one.zero([array[-1:] for array in wide])
    return [array.tobytes() for array in wide]


def test_of_all_threads_those_of_the_crew_alone_copy_so() -> None:
    crew = Crew(1, "crew", begin_unlocked)
    before = torch.get_num_threads()
    assert isinstance(crew.submit(gatherer).result(), Unlocked)
    assert crew.submit(torch.get_num_threads).result() == 1
    assert not isinstance(gatherer(), Unlocked)
    others: list[int] = []
    thread = threading.Thread(target=lambda: others.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [*others, torch.get_num_threads()] == [before, before]
    assert crew.close(5.0)


STREAM = """
import threading
import numpy as np
from datalake.blocks.gather import gatherer
from datalake.loader.engine.threads import Crew
from datalake.loader.engine.unlocked import begin_unlocked

into = [np.zeros(200_000, np.float32) for _ in range(8)]
values = [np.ones(200_000, np.int16) for _ in range(8)]
begun = threading.Barrier(4)

def work():
    gatherer().copy(into, values, 0.5)
    begun.wait()
    while True:
        gatherer().copy(into, values, 0.5)
        gatherer().zero(into)

crew = Crew(3, "crew", begin_unlocked)
for _ in range(3):
    crew.submit(work)
begun.wait()
"""


def test_a_process_ends_in_the_midst_of_copies() -> None:
    ended = subprocess.run([sys.executable, "-c", STREAM], capture_output=True, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_forked_child_does_not_wait_for_a_copy_of_its_parent() -> None:
    one = Unlocked()
    one.is_busy = True
    child = os.fork()
    if child == 0:
        os._exit(one.is_busy)
    assert os.waitpid(child, 0)[1] == 0
    one.is_busy = False
