"""The table of peers and us: the same data and work, turn by turn, one process a measurement.

    python -m benchmarks.loader.run FOLDER --peers-python PYTHON [--rounds 3] [--only audio …]

FOLDER holds the data and every peer's copy (about 25 GB, made on the first run). PYTHON is an
interpreter with the packages of benchmarks/loader/peers.txt; without it there are only us and the
memory map. Cells are medians over rounds; `of limit` is the median over rounds of the ratio to that
round's memory map (`memmap`, one reader) or two plain threads (`limit_2t`, two readers), with the
least and the greatest.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.loader.measure import memory_of

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Peer:
    """Who is measured."""

    variant: str
    module: str
    ours: bool = False
    workers: tuple[int, ...] = (0, 2)
    datasets: tuple[str, ...] = ("audio", "frames", "records")
    modes: tuple[str, ...] = ("audio", "raw", "jpeg", "records")
    copy_of: str = ""
    """The variant whose copy it reads, if it has none of its own."""


PEERS: Final = (
    Peer("memmap", "memmap", ours=True),
    Peer("limit_2t", "memmap", ours=True, workers=(2,)),
    Peer("datalake", "ours", ours=True),
    Peer("datalake_blocks", "ours", True, (2,), datasets=("audio",), copy_of="datalake"),
    Peer("datalake_decoded", "ours", True, (2,), modes=("jpeg",), copy_of="datalake"),
    Peer("hf_arrow", "huggingface"),
    Peer("grain", "grain_"),
    Peer("grain_threads", "grain_", workers=(2,), copy_of="grain"),
    Peer("lance_nc", "lance_"),
    Peer("mosaic", "mosaic"),
    Peer("litdata", "litdata_"),
    Peer("webdataset", "webdataset_"),
    Peer("hf_stream", "huggingface"),
)

CELLS: Final = (
    ("audio", "audio", 0),
    ("audio", "audio", 2),
    ("frames", "raw", 0),
    ("frames", "raw", 2),
    ("frames", "jpeg", 2),
    ("records", "records", 0),
)


@dataclass(frozen=True)
class Setting:
    """Where, and with which interpreters."""

    folder: Path
    peers_python: str | None
    limit_s: float
    cold: bool

    def python(self, peer: Peer) -> str | None:
        """The interpreter that has the peer."""
        return sys.executable if peer.ours else self.peers_python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers-python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit-s", type=float, default=5.0)
    parser.add_argument("--only", nargs="*", default=["audio", "frames", "records"])
    parser.add_argument("--variants", nargs="*", help="these alone")
    parser.add_argument("--cold", action="store_true", help="with an empty page cache")
    parser.add_argument("--json", type=Path, help="append every measurement to this file")
    options = parser.parse_args()
    setting = Setting(options.folder.resolve(), options.peers_python, options.limit_s, options.cold)
    peers = [
        peer
        for peer in PEERS
        if setting.python(peer) and (not options.variants or peer.variant in options.variants)
    ]
    for dataset in options.only:
        _write_missing(setting, peers, dataset)
    results: list[dict[str, Any]] = []
    for number in range(options.rounds):
        for dataset, mode, workers in CELLS:
            if dataset in options.only:
                turn = [p for p in peers if _takes_part(p, dataset, mode, workers)]
                # Who goes first changes, as a machine may tire.
                shift = number % max(1, len(turn))
                for peer in turn[shift:] + turn[:shift]:
                    result = _one(setting, peer, "run", dataset, mode, workers)
                    results.append({"round": number, **result})
                    if options.json:
                        with options.json.open("a") as file:
                            file.write(json.dumps(results[-1]) + "\n")
    for dataset, mode, workers in CELLS:
        cell = [
            r
            for r in results
            if (r["dataset"], r["mode"], r["workers"]) == (dataset, mode, workers)
        ]
        if cell:
            _print_cell(dataset, mode, workers, cell)


def _takes_part(peer: Peer, dataset: str, mode: str, workers: int) -> bool:
    return dataset in peer.datasets and mode in peer.modes and workers in peer.workers


def _write_missing(setting: Setting, peers: Sequence[Peer], dataset: str) -> None:
    for peer in peers:
        marker = setting.folder / "written" / f"{peer.module}-{peer.variant}-{dataset}.json"
        is_there = marker.exists() or peer.module == "memmap" or bool(peer.copy_of)
        if is_there or dataset not in peer.datasets:
            continue
        result = _one(setting, peer, "write", dataset, "", 0, timeout_s=1800)
        if "error" not in result:
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.write_text(json.dumps(result))


def _one(
    setting: Setting,
    peer: Peer,
    what: str,
    dataset: str,
    mode: str,
    workers: int,
    timeout_s: float = 120,
) -> dict[str, Any]:
    """One measurement in a process of its own, and the most memory it had."""
    python = setting.python(peer)
    assert python is not None
    command = [
        *(python, "-m", "benchmarks.loader.one", what, peer.module, peer.variant, dataset),
        *(str(setting.folder), "--mode", mode, "--workers", str(workers)),
        *("--limit-s", str(setting.limit_s), *(["--cold"] if setting.cold else [])),
    ]
    begin, load = time.monotonic(), os.getloadavg()[0]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    pss = held = 0.0
    while process.poll() is None and time.monotonic() - begin < timeout_s:
        memory = memory_of(process.pid)
        pss, held = max(pss, memory.pss), max(held, memory.held)
        time.sleep(0.3)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    output, errors = process.communicate()
    lines = [line for line in output.splitlines() if line.startswith("RESULT ")]
    result = {
        "variant": peer.variant,
        "dataset": dataset,
        "mode": mode,
        "workers": workers,
        "load": load,
        "pss_mb": pss,
        "held_mb": held,
        **(json.loads(lines[-1][7:]) if lines else {"error": errors[-2000:] or "no answer"}),
    }
    shown = {
        name: result[name] for name in ("samples_per_s", "cpu_us", "mb_per_s") if name in result
    }
    told = ", ".join(f"{name} {value:.0f}" for name, value in shown.items() if value is not None)
    told = told or result.get("error", "")[-300:]
    print(f"{what} {peer.variant} {dataset} {mode} {workers}: {told}", file=sys.stderr, flush=True)
    return result


def _print_cell(dataset: str, mode: str, workers: int, cell: Sequence[dict[str, Any]]) -> None:
    limit = "limit_2t" if workers else "memmap"
    limits = {r["round"]: r.get("samples_per_s") for r in cell if r["variant"] == limit}
    print(f"\n### {dataset}, {mode}, {workers or 'one reader, no'} workers\n")
    print(
        "| | samples/s | of limit | CPU µs a sample | mix | blocks a batch | first batch s "
        "| held MB | read | device |\n|" + "---|" * 10
    )
    rows = []
    for variant in dict.fromkeys(r["variant"] for r in cell):
        mine = [r for r in cell if r["variant"] == variant and r.get("samples_per_s")]
        if not mine:
            continue
        ratios = [r["samples_per_s"] / limits[r["round"]] for r in mine if limits.get(r["round"])]
        spread = f"{_median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})" if ratios else "–"
        speed = _median([r["samples_per_s"] for r in mine])
        figures = [
            f"{speed:,.0f}",
            spread,
            f"{_median([r['cpu_us'] for r in mine]):.1f}",
            f"{_median([r['mix'] for r in mine]):.2f}",
            f"{_median([r['blocks_a_batch'] for r in mine]):.1f}",
            f"{_median([r['first_s'] for r in mine]):.2f}",
            f"{_median([r['held_mb'] for r in mine]):.0f}",
            f"{_median([r['read'] for r in mine]):.2f}",
            f"{_median([r['device'] for r in mine]):.2f}",
        ]
        rows.append((speed, f"| {variant} | {' | '.join(figures)} |"))
    for _, row in sorted(rows, reverse=True):
        print(row)


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


if __name__ == "__main__":
    main()
