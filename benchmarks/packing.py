"""Pack very many lengths on one core: seconds, peak memory, utilisation.

    python benchmarks/packing.py                     # 10 million lengths of each law
    python benchmarks/packing.py --items 1000000 --window 4096

Each law is packed in a process of its own, so that the peak is its own; `memory` is what packing
adds to the lengths themselves. The plain way is best fit decreasing item by item on a segment tree
of remaining capacities, as packing code usually has it, without windows; it packs `--plain` of the
lengths, and its seconds are given for all of them in proportion.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

from datalake.packing import CARRY, WINDOW, Baselines, pack_lengths

LAWS = {
    "lognormal(5.5, 1)": 4096,
    "uniform(50, 2000)": 2048,
    "normal(150, 40)": 2048,
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--plain", type=int, default=200_000, help="items of the plain way")
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--carry", type=int, default=CARRY)
    parser.add_argument("--method", default="best_fit_decreasing")
    parser.add_argument("--law", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.law:
        print(json.dumps(measure(options)))
        return
    print(f"{options.items:,} lengths, one core; {options.method}, window {options.window:,}, "
          f"carry {options.carry:,}")  # fmt: skip
    print(f"{'law':<18}{'capacity':>9}{'seconds':>9}{'memory':>9}{'used':>9}{'bound':>9}"
          f"{'next fit':>10}{'padded':>8}{'plain':>9}")  # fmt: skip
    for law, capacity in LAWS.items():
        child = [sys.executable, __file__, "--law", law, "--items", str(options.items)]
        for name in ("plain", "window", "carry", "method"):
            child += [f"--{name}", str(getattr(options, name))]
        found = json.loads(
            subprocess.run(
                child, check=True, stdout=subprocess.PIPE, env={**os.environ, **ONE_THREAD}
            ).stdout
        )
        print(f"{law:<18}{capacity:>9,}{found['seconds']:>8.1f}s{found['added'] / 1e6:>6.0f} MB"
              f"{found['utilisation']:>9.4f}{found['bound']:>9.4f}{found['next_fit']:>10.3f}"
              f"{found['padded']:>8.3f}{found['plain_s']:>8.0f}s", flush=True)  # fmt: skip


def draw(law: str, num_items: int) -> np.ndarray:
    """Lengths in 32 bits, drawn in slices so that drawing needs little memory."""
    rng = np.random.default_rng(0)
    lengths = np.empty(num_items, np.int32)
    for start in range(0, num_items, 1 << 16):
        size = min(1 << 16, num_items - start)
        if law.startswith("lognormal"):
            drawn = rng.lognormal(5.5, 1.0, size).clip(1, 4096)
        elif law.startswith("uniform"):
            drawn = rng.integers(50, 2001, size)
        else:
            drawn = rng.normal(150, 40, size).clip(10, 2048)
        lengths[start : start + size] = drawn
    return lengths


def measure(options: argparse.Namespace) -> dict[str, float]:
    capacity = LAWS[options.law]
    lengths = draw(options.law, options.items)
    # Once, so that what is loaded on first use is not counted.
    pack_lengths(lengths[:1000], capacity)
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.process_time()
    bins = pack_lengths(
        lengths, capacity, window=options.window, carry=options.carry, method=options.method
    )
    seconds = time.process_time() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert bins.fills.max() <= capacity
    assert (np.bincount(bins.items, minlength=len(lengths)) == 1).all()
    assert bins.total == lengths.sum(dtype=np.int64)
    others = Baselines.of(lengths, capacity)
    plain = lengths[: options.plain]
    started = time.process_time()
    plain_bins = plainly(plain, capacity)
    plain_s = (time.process_time() - started) * options.items / len(plain)
    assert len(pack_lengths(plain, capacity, window=None)) == plain_bins
    return {
        "seconds": seconds,
        "added": (after.ru_maxrss - before.ru_maxrss) * 1024,
        "utilisation": bins.utilisation,
        "bound": others.bound,
        "next_fit": others.next_fit,
        "padded": others.pad_to_batch_max,
        "plain_s": plain_s,
    }


def plainly(lengths: np.ndarray, capacity: int) -> int:
    """The number of bins of best fit decreasing, an item at a time on a segment tree.

    A leaf is a remaining capacity and holds it if a bin has it, else 0; an inner node holds the
    larger of its two. The smallest remainder of at least a length is found on the way down.
    """
    leaves = 1 << capacity.bit_length()
    tree = [0] * (2 * leaves)
    numbers: list[list[int]] = [[] for _ in range(capacity + 1)]
    bin_of = [0] * len(lengths)
    num_bins = 0

    def mark(remainder: int, value: int) -> None:
        node = leaves + remainder
        tree[node] = value
        while node > 1:
            node //= 2
            tree[node] = max(tree[2 * node], tree[2 * node + 1])

    order = np.argsort(-lengths, kind="stable").tolist()
    for item in order:
        length = int(lengths[item])
        if tree[1] < length:
            number, remainder = num_bins, capacity
            num_bins += 1
        else:
            # Up from the length's leaf until a subtree to the right holds one, then down.
            node = leaves + length
            if not tree[node]:
                while node % 2 or not tree[node + 1]:
                    node //= 2
                node += 1
                while node < leaves:
                    node = 2 * node if tree[2 * node] else 2 * node + 1
            remainder = node - leaves
            number = numbers[remainder].pop()
            if not numbers[remainder]:
                mark(remainder, 0)
        bin_of[item] = number
        rest = remainder - length
        if rest:
            numbers[rest].append(number)
            if len(numbers[rest]) == 1:
                mark(rest, rest)
    return num_bins


if __name__ == "__main__":
    main()
