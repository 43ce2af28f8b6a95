"""Kill an ingest at random moments, run it again, and see that nothing is lost or doubled.

    python scripts/kill_ingest.py --rounds 20

Each round starts `datalake ingest` into a fresh lake and kills the driver with SIGKILL at a random
moment; starts it again and kills one of Ray's workers; and lets that run end. Then all rows, their
bytes, and the quarantine must be those of a run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import soundfile

from datalake.lake import Lake, open_lake

_TABLE = "corpus"
_PATIENCE_S = 300
_EXIT_WITH_REFUSED = 3


@dataclass(frozen=True)
class Trial:
    """How the ingest is run."""

    corpus: Path
    lake: Path
    format: str
    part_rows: int = 32

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command in a session of its own, so that all of it can be killed."""
        command = [
            *(sys.executable, "-c", "from datalake.cli import main; main()", "ingest"),
            *(str(self.corpus), _TABLE, "--lake", str(self.lake), "--format", self.format),
            *("--connector", "audio_folder", "--part-rows", str(self.part_rows)),
            # A commit a unit: more steps to be killed between.
            *("--commit-every", "0"),
            *("--max-bad-fraction", "1", "--executor", "ray", "--workers", "2"),
            *("--quiet", "--json"),
        ]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )


def make_corpus(folder: Path, num_files: int) -> None:
    """Real and fake noise, every 25th file broken."""
    rng = np.random.default_rng(0)
    for index in range(num_files):
        path = folder / ("real" if index % 2 else "fake/g1") / f"{index:05d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        if index % 25 == 0:
            path.write_bytes(b"no audio, only a text")
        else:
            samples = rng.uniform(-0.5, 0.5, 16_000).astype(np.float32)
            soundfile.write(path, samples, 16_000, subtype="PCM_16")


def contents(lake: Lake) -> str:
    """A hash of all rows, all columns, in the order of their ids, and of the quarantine."""
    digest = hashlib.sha256()
    rows = lake[_TABLE].scan().read_all().sort_by("utt_id")
    for row in rows.to_pylist():
        row["audio"] = hashlib.sha256(row["audio"]).hexdigest()
        digest.update(json.dumps(row, sort_keys=True).encode())
    columns = ["part_id", "path", "reason", "detail"]
    refused = lake[f"{_TABLE}.quarantine"].scan(columns).read_all().to_pylist()
    digest.update(json.dumps(sorted(refused, key=str)).encode())
    return f"{rows.num_rows} rows, {len(refused)} refused, {digest.hexdigest()}"


def kill_driver(trial: Trial, after_s: float) -> str:
    """Run, and kill the driver and all that it started after some seconds."""
    process = trial.start()
    try:
        process.communicate(timeout=after_s)
    except subprocess.TimeoutExpired:
        driver = psutil.Process(process.pid)
        # Ray's daemons outlive their driver for a while; a machine that fails takes them along.
        family = [driver, *driver.children(recursive=True)]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        process.communicate()
        return f"driver killed after {after_s:.1f} s with {_held(trial)} rows in the table"
    return "driver ended before it was killed"


def kill_worker(trial: Trial, rng: random.Random) -> str:
    """Run to the end, and kill a worker that is at work on the way.

    Raises:
        RuntimeError: the run failed.
    """
    process = trial.start()
    wait_s = rng.uniform(0, 0.5)
    killed = False
    while process.poll() is None and not killed:
        time.sleep(0.01)
        if workers := _workers(process.pid):
            time.sleep(wait_s)
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
                killed = True
    _, errors = process.communicate(timeout=_PATIENCE_S)
    if process.returncode != _EXIT_WITH_REFUSED:
        raise RuntimeError(f"the run ended with {process.returncode}: {errors.decode()}")
    return "worker killed" if killed else "nothing was left to do"


def _workers(driver: int) -> list[int]:
    """The processes below the driver that stage a unit at this moment."""
    found: list[int] = []
    with contextlib.suppress(psutil.Error):
        found += [
            member.pid
            for member in psutil.Process(driver).children(recursive=True)
            if "MapBatches" in member.name() or "_stage" in member.name()
        ]
    return found


def _held(trial: Trial) -> int:
    lake = open_lake(trial.lake)
    return lake[_TABLE].count_rows() if _TABLE in lake else 0


def run_trials(num_rounds: int, num_files: int, table_format: str, seed: int) -> None:
    """Do all rounds.

    Raises:
        RuntimeError: a round ended with other rows than the undisturbed run.
    """
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kill-ingest-") as name:
        folder = Path(name)
        make_corpus(folder / "speech", num_files)
        calm = Trial(folder / "speech", folder / "calm", table_format)
        started = time.monotonic()
        calm.start().communicate(timeout=_PATIENCE_S)
        seconds = time.monotonic() - started
        expected = contents(open_lake(calm.lake))
        print(f"undisturbed: {expected}, {seconds:.1f} s", flush=True)
        for index in range(num_rounds):
            trial = Trial(folder / "speech", folder / f"lake{index}", table_format)
            # The first third of the time goes to starting Python and Ray.
            first = kill_driver(trial, rng.uniform(0.3, 1.0) * seconds)
            second = kill_worker(trial, rng)
            found = contents(open_lake(trial.lake))
            verdict = "equal" if found == expected else f"DIFFERENT: {found}"
            print(f"round {index + 1}: {first}; {second}; {verdict}", flush=True)
            if found != expected:
                raise RuntimeError(f"round {index + 1} ended with other rows: {found}")
            shutil.rmtree(trial.lake)


def main() -> None:
    """Read the command line and do the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--format", choices=["lance", "delta"], default="lance")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    run_trials(options.rounds, options.files, options.format, options.seed)


if __name__ == "__main__":
    main()
