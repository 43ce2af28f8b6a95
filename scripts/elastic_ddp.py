"""Show that a training killed again and again, on other numbers of ranks, sees each example once.

    python scripts/elastic_ddp.py

Makes a small table and runs three phases of DistributedDataParallel (gloo): 4 ranks and 3 ranks,
each killed (SIGKILL to all of them) in mid epoch, then 1 rank to the epoch's end. Every few steps
rank 0 saves the model and the loader's state, written beside the old one and put in its place at
once; each phase begins from the last that was saved.

What counts as trained are the examples of the steps up to the saved state that the next phase began
from: the model that goes on has seen these and no others. Steps after it were lost with the ranks
that made them, and their examples come again. Prints what each phase read, and that what counts is
one epoch with none missing and none doubled. Exits 1 if it is not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NUM_ROWS = 1_600
BATCH_SIZE = 8
SAVE_EVERY = 5
PHASES = (4, 3, 1)


def main() -> int:
    """Run the phases and count."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, help="where to work, instead of a temporary folder")
    parser.add_argument("--seed", type=int, default=0, help="of when phases are killed")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--phase", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        train(given.work, given.phase)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return show(given.work or Path(folder), random.Random(given.seed))


def show(work: Path, rng: random.Random) -> int:
    """All phases; the exit code."""
    import torch

    make(work)
    counted: list[int] = []
    for phase, num_ranks in enumerate(PHASES):
        last = phase == len(PHASES) - 1
        steps = run(work, phase, num_ranks, kill_after=None if last else rng.randrange(11, 19))
        saved = torch.load(work / "saved.pt")
        num_saved = saved["steps"] if saved["phase"] == phase else 0
        kept = [row for own in steps for rows in own[:num_saved] for row in rows]
        read = sum(len(rows) for own in steps for rows in own)
        print(
            f"{num_ranks} rank{'s' * (num_ranks > 1)}: "
            f"{'/'.join(str(len(own)) for own in steps)} steps, {read} examples read; "
            f"{'came to the end' if last else 'killed'}; saved after step {num_saved}: "
            f"{len(kept)} count as trained, {read - len(kept)} are read again"
        )
        counted += kept
    missing = NUM_ROWS - len(set(counted))
    doubled = len(counted) - len(set(counted))
    print(f"together: {len(counted)} of {NUM_ROWS}, {missing} missing, {doubled} doubled")
    return 1 if missing or doubled else 0


def make(work: Path) -> None:
    """A table of numbers."""
    import numpy as np
    import pyarrow as pa

    from datalake.tables import create_table

    rows = pa.table(
        {
            "id": pa.array(range(NUM_ROWS), pa.int64()),
            "value": pa.array(np.random.default_rng(0).normal(size=NUM_ROWS), pa.float32()),
        }
    )
    create_table(work / "corpus", rows.schema).append(rows)


def run(work: Path, phase: int, num_ranks: int, kill_after: int | None) -> list[list[list[int]]]:
    """One phase: the rows of each rank and step. Killed once rank 0 made so many steps."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(num_ranks), __file__),
        *("--rank", "--work", str(work), "--phase", str(phase)),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with (work / f"phase{phase}.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stderr=log, stdout=log)
    try:
        while process.poll() is None:
            if kill_after is not None and len(records(work, phase, 0)) >= kill_after:
                break
            time.sleep(0.01)
        if (kill_after is None) != (process.poll() == 0):
            raise SystemExit((work / f"phase{phase}.log").read_text())
    finally:
        process.kill()
        process.wait()
        # The ranks wrote their process numbers down.
        for path in work.glob(f"phase{phase}.rank*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), signal.SIGKILL)
    return [records(work, phase, rank) for rank in range(num_ranks)]


def records(work: Path, phase: int, rank: int) -> list[list[int]]:
    """What a rank trained on, a list a step. A line that the kill cut off is no step."""
    path = work / f"phase{phase}.rank{rank}.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def train(work: Path, phase: int) -> None:
    """One rank."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from datalake.loader import Loader, Rows
    from datalake.tables import open_table

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    (work / f"phase{phase}.rank{rank}.pid").write_text(str(os.getpid()))
    loader = Loader(Rows(open_table(work / "corpus"), columns=["value"]), batch_size=BATCH_SIZE)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if (work / "saved.pt").exists():
        saved = torch.load(work / "saved.pt")
        model.module.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])

    def save(steps: int) -> None:
        # After the optimizer's step, which waited for the gradients of all ranks: all made it.
        state = {
            "model": model.module.state_dict(),
            "loader": loader.state_dict(),
            "phase": phase,
            "steps": steps,
        }
        torch.save(state, work / "saved.pt.new")
        os.replace(work / "saved.pt.new", work / "saved.pt")

    with (work / f"phase{phase}.rank{rank}.jsonl").open("w", buffering=1) as file:
        steps = 0
        for batch in loader:
            loss = model(batch["value"].reshape(-1, 1)).square().mean()
            # Written before gradients are exchanged, so a step that rank 0 made is noted by all.
            file.write(json.dumps(batch["row_index"][~batch["is_pad"]].tolist()) + "\n")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            # Slow enough to be killed in the midst of it.
            time.sleep(0.02)
            if rank == 0 and steps % SAVE_EVERY == 0:
                save(steps)
        if rank == 0:
            save(steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
