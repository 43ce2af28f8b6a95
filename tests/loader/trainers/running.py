"""Examples run as users run them, and what their records say.

What needs no other processes runs in this one: importing torch and a trainer costs far more than
the training.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
NUM_ROWS = 150

_OF_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def here(name: str, *arguments: str | Path, env: Mapping[str, str] | None = None) -> None:
    """Run an example in this process."""
    path = EXAMPLES / name
    cleared = {key: value for key, value in os.environ.items() if key not in _OF_RANKS}
    with (
        mock.patch.dict(os.environ, {**cleared, **(env or {})}, clear=True),
        mock.patch.object(sys, "argv", [str(path), *map(str, arguments)]),
        mock.patch.object(sys, "path", [str(EXAMPLES), *sys.path]),
    ):
        runpy.run_path(str(path), run_name="__main__")


def ranks(num_ranks: int, name: str, *arguments: str | Path) -> None:
    """Run an example in so many processes, told of each other as torchrun would."""
    world = {"WORLD_SIZE": str(num_ranks), "LOCAL_WORLD_SIZE": str(num_ranks), **free_address()}
    started = [
        start(name, *arguments, env={**world, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(num_ranks)
    ]
    finish(started)


def start(
    name: str, *arguments: str | Path, prefix: tuple[str, ...] = (), env: Mapping[str, str]
) -> subprocess.Popen[str]:
    """Begin an example in a process of its own."""
    inherited = {key: value for key, value in os.environ.items() if key not in _OF_RANKS}
    quiet = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *prefix, str(EXAMPLES / name), *map(str, arguments)],
        env={**inherited, **quiet, "PYTHONPATH": str(ROOT), **env},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(started: list[subprocess.Popen[str]]) -> None:
    """Wait for all, which must succeed."""
    try:
        said = [process.communicate(timeout=PATIENCE_S)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert all(process.returncode == 0 for process in started), "\n\n".join(said)


def free_address() -> dict[str, str]:
    """Where ranks may meet."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}


def seen(work: Path, num_ranks: int) -> list[tuple[int, int]]:
    """(epoch, row) of what a phase trained on; all ranks made equally many steps.

    Takes the records away, so that the next phase begins its own.
    """
    steps = []
    for rank in range(num_ranks):
        path = work / f"rank{rank}.jsonl"
        steps.append([json.loads(line) for line in path.read_text().splitlines()])
        path.unlink()
    assert len({len(own) for own in steps}) == 1
    assert not list(work.glob("rank*.jsonl"))
    return [(step["epoch"], row) for own in steps for step in own for row in step["rows"]]


def epochs(count: int) -> list[tuple[int, int]]:
    """(epoch, row): each row of the examples' corpus once an epoch."""
    return [(epoch, row) for epoch in range(count) for row in range(NUM_ROWS)]
