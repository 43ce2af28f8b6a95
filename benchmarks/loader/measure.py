"""One measurement in a process of its own: an epoch, or the first seconds of one, of one peer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

from benchmarks.loader.data import Audio, Frames, Records
from benchmarks.loader.work import BATCH, check

__all__ = ["Memory", "evicted", "memory_of", "run", "warmed"]

# Batches that start-up may still show in.
_WARM_UP: Final = 8


def run(
    make: Callable[[], Iterable[dict[str, Any]]],
    data: Audio | Frames | Records,
    mode: str,
    *,
    limit_s: float,
) -> dict[str, Any]:
    """Open a stream and read it for some seconds.

    CPU time is that of the whole tree of processes. `mix` is the number of distinct blocks in a
    batch over what a uniform shuffle gives: 1 is uniform. `read` and `device` are the bytes that
    went through read calls, and that came from the device, over the bytes of the payload.
    """
    read_before, device_before = _bytes_read()
    begin = time.perf_counter()
    rows: list[np.ndarray] = []
    first_s = warm_at = 0.0
    warm_cpu_s = longest_s = last = 0.0
    num_warm = 0
    for number, batch in enumerate(make(), 1):
        now = time.perf_counter()
        got = np.asarray(batch["idx"]).reshape(-1)
        if number == 1:
            first_s = now - begin
            check(batch, data, mode)
        elif number > _WARM_UP:
            longest_s = max(longest_s, now - last)
        rows.append(got.copy())
        if number == _WARM_UP:
            warm_cpu_s, num_warm = cpu_seconds(), sum(map(len, rows))
            warm_at = time.perf_counter()
        last = time.perf_counter()
        del batch
        if now - begin - first_s > limit_s:
            break
    end, end_cpu_s = time.perf_counter(), cpu_seconds()
    read_after, device_after = _bytes_read()
    order = np.concatenate(rows)
    payload = int(data.sizes()[order].sum())
    steady = len(order) - num_warm
    return {
        "samples_per_s": steady / (end - warm_at) if warm_at else None,
        "cpu_us": (end_cpu_s - warm_cpu_s) / steady * 1e6 if warm_at and steady else None,
        "first_s": first_s,
        "longest_gap_s": longest_s,
        "num_samples": len(order),
        "read": (read_after - read_before) / payload,
        "device": (device_after - device_before) / payload,
        **_shuffle(order, data),
    }


def _shuffle(order: np.ndarray, data: Audio | Frames | Records) -> dict[str, float]:
    blocks, num_blocks = data.block_of(order), data.NUM_BLOCKS
    whole = len(order) // BATCH
    per_batch = np.mean([len(np.unique(b)) for b in blocks[: whole * BATCH].reshape(whole, BATCH)])
    expected = num_blocks * (1 - (1 - 1 / num_blocks) ** BATCH)
    adjacent = np.abs(np.diff(order)).mean() / (len(data) / 3)
    return {
        "blocks_a_batch": float(per_batch),
        "mix": float(per_batch / expected),
        "adjacent": float(adjacent),
        "repeated": len(order) - len(np.unique(order)),
    }


def _tree() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def cpu_seconds() -> float:
    """User and system time of this process, its living descendants and the children it reaped."""
    total = 0.0
    for process in _tree():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _bytes_read() -> tuple[int, int]:
    """Bytes through read calls, and bytes from the device, of all processes."""
    read = device = 0
    for process in _tree():
        try:
            counters = process.io_counters()
        except psutil.Error:
            continue
        read += counters.read_chars
        device += counters.read_bytes
    return read, device


@dataclass(frozen=True)
class Memory:
    """Memory of a tree of processes, in MB, shared pages counted once."""

    pss: float
    held: float
    """Anonymous and shared memory: what is there for the stream's sake, without the page cache."""


def memory_of(pid: int) -> Memory:
    """Memory of a process and its descendants just now."""
    pss = held = 0
    try:
        root = psutil.Process(pid)
        pids = [pid, *(child.pid for child in root.children(recursive=True))]
    except psutil.Error:
        return Memory(0.0, 0.0)
    for one in pids:
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith("Pss:"):
                pss += int(line.split()[1])
            elif line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                held += int(line.split()[1])
    return Memory(pss / 1024, held / 1024)


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def warmed(path: Path) -> None:
    """Have all files of a copy in the page cache."""
    room = bytearray(1 << 22)
    for name in _files(path):
        with name.open("rb", buffering=0) as file:
            while file.readinto(room):
                pass


def evicted(path: Path) -> None:
    """Have no file of a copy in the page cache."""
    os.sync()
    for name in _files(path):
        with name.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
