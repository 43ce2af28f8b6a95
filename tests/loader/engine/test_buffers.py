"""Memory goes back when nobody refers to it, and never before."""

import gc

import numpy as np
import pytest
import torch

from datalake.loader.engine.buffers import Buffers

MIB = (256, 1024)


def test_memory_is_used_again_once_nothing_refers_to_it():
    buffers = Buffers()
    array = buffers.allocate(MIB, np.float32)
    address = array.ctypes.data
    del array
    assert buffers.allocate(MIB, np.float32).ctypes.data == address


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[3:],
        lambda a: a.reshape(-1).view(np.uint8)[::7],
        lambda a: torch.from_numpy(a),
        lambda a: torch.from_numpy(a)[2].narrow(0, 1, 5),
        lambda a: torch.from_numpy(a).numpy(),
        lambda a: memoryview(a),
    ],
)
def test_a_view_keeps_its_memory(view):
    buffers = Buffers()
    array = buffers.allocate(MIB, np.float32)
    array[:] = 7
    kept = view(array)
    del array
    gc.collect()
    for _ in range(3):
        buffers.allocate(MIB, np.float32)[:] = 0
    assert bytes(torch.as_tensor(np.asarray(kept)).numpy().tobytes())
    assert np.asarray(kept).any()


def test_what_is_free_and_of_another_size_is_let_go():
    buffers = Buffers()
    for num_mib in range(1, 30):
        buffers.allocate((num_mib, 1 << 20), np.uint8)
    assert buffers.num_bytes < 40 << 20


def test_batches_of_changing_length_settle():
    buffers = Buffers()
    rng = np.random.default_rng(0)
    kept = []
    for length in rng.integers(900, 1000, 200):
        kept = [*kept[-2:], buffers.allocate((64, length), np.float32)]
    assert buffers.num_bytes < 6 * 64 * 1000 * 4


def test_arrays_are_aligned_and_shaped():
    for buffers in (Buffers(), Buffers(lambda n: torch.empty(n, dtype=torch.uint8).numpy())):
        for shape in [(0, 5), (3,), (300, 400), (17, 5, 999)]:
            array = buffers.allocate(shape, np.float64)
            assert array.shape == shape
            assert array.dtype == np.float64
            assert array.ctypes.data % 16 == 0
