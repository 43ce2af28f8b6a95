"""One peer, one measurement, one process; prints a line of JSON.

python -m benchmarks.loader.one write MODULE VARIANT DATASET FOLDER
python -m benchmarks.loader.one run MODULE VARIANT DATASET FOLDER --mode M --workers N
"""

from __future__ import annotations

import os

# Before numpy and torch: threads of theirs would take cores from readers and be counted as ours.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import argparse
import importlib
import json
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.loader.data import opened
from benchmarks.loader.measure import evicted, run, warmed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["write", "run"])
    parser.add_argument("module")
    parser.add_argument("variant")
    parser.add_argument("dataset")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mode", default="")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--limit-s", type=float, default=5.0)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    peer = importlib.import_module(f"benchmarks.loader.peers.{options.module}")
    result = write(peer, options) if options.what == "write" else measured(peer, options)
    print("RESULT " + json.dumps(result), flush=True)
    sys.stdout.flush()
    # Some peers' threads and processes do not end by themselves.
    os._exit(0)


def write(peer: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Store the data as the peer does."""
    target = peer.place(options.folder, options.dataset, options.variant)
    data = opened(options.folder / "data", options.dataset)
    if peer.VARIANTS[0] != "memmap" and target.exists():
        shutil.rmtree(target)
    begin = time.perf_counter()
    peer.write(options.folder, options.dataset, options.variant)
    seconds = time.perf_counter() - begin
    size = sum(file.stat().st_size for file in target.rglob("*")) if target.is_dir() else 0
    payload = int(data.sizes().sum())
    return {"write_s": seconds, "mb_per_s": payload / seconds / 1e6, "size": size / payload}


def measured(peer: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Stream the data and measure."""
    data = opened(options.folder / "data", options.dataset)
    files = peer.place(options.folder, options.dataset, options.variant)
    if options.cold:
        evicted(files)
    else:
        warmed(files)

    def make() -> Any:
        return peer.stream(
            options.folder, options.dataset, options.variant, options.mode, options.workers
        )

    return run(make, data, options.mode, limit_s=options.limit_s)


if __name__ == "__main__":
    main()
