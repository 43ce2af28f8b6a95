"""Kill an ingest of robot episodes again and again, and see that nothing is lost or doubled.

    python scripts/kill_ingest_episodes.py --rounds 10

Each round starts `datalake ingest` into a fresh lake, kills it with SIGKILL at a random moment,
some times in a row, and lets it end. After each kill what a reader sees must be whole; at the end
all episodes, frames and videos must be those of a run that nobody disturbed, in the same order.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from datalake.episodes import episode_sets, open_episodes
from datalake.lake import Lake, open_lake

# The folder that holds this script is no package where it is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from scripts import broken_robot_datasets as zoo

_SET = "robots"
_PATIENCE_S = 300


def make_dataset(folder: Path, num_episodes: int) -> None:
    """A LeRobot dataset of version 2.1: the three episodes of a small one, over and over."""
    zoo.write_good(folder, zoo.V21)
    first = 0
    said = []
    for number in range(num_episodes):
        like = number % len(zoo.LENGTHS)
        length = zoo.LENGTHS[like]
        frames = zoo.frames_of(like)
        for name, value in (("episode_index", [number] * length),
                            ("index", list(range(first, first + length)))):  # fmt: skip
            frames = frames.set_column(frames.column_names.index(name), name, [value])
        pq.write_table(frames, folder / zoo.data_v21(number))
        if number >= len(zoo.LENGTHS):
            shutil.copy(folder / zoo.video_v21(like), folder / zoo.video_v21(number))
        said.append({"episode_index": number, "tasks": [zoo.TASK], "length": length})
        first += length
    # One of them is bad.
    (folder / zoo.video_v21(num_episodes // 2)).write_bytes(b"")
    zoo.write_lines(folder / "meta/episodes.jsonl", said)
    info = json.loads((folder / "meta/info.json").read_text())
    info |= {"total_episodes": num_episodes, "total_frames": first}
    zoo.write_json(folder / "meta/info.json", info)


def start(dataset: Path, lake: Path, table_format: str, executor: str) -> subprocess.Popen[bytes]:
    """Start the command; each unit is a commit of its own: more steps to be killed between."""
    command = [
        *(sys.executable, "-c", "from datalake.cli import main; main()", "ingest"),
        *(str(dataset), _SET, "--lake", str(lake), "--format", table_format),
        *("--connector", "lerobot", "--executor", executor, "--commit-every", "0", "--quiet"),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def contents(lake: Lake) -> str:
    """A hash of all that the set holds, in its order, and of the quarantine.

    Raises:
        RuntimeError: frames do not lie where the episodes say.
    """
    held = open_episodes(lake, _SET)
    digest = hashlib.sha256()
    frames = held.frames.scan().read_all()
    if frames.num_rows != held.index.starts[-1]:
        raise RuntimeError(f"{frames.num_rows} frames, {held.index.starts[-1]} promised")
    for row in held.videos.scan().read_all().sort_by("video_id").to_pylist():
        row["video"] = hashlib.sha256(row["video"]).hexdigest()
        digest.update(json.dumps(row, sort_keys=True).encode())
    for table in (frames, held.episodes.scan().read_all()):
        digest.update(json.dumps(table.to_pylist(), sort_keys=True).encode())
    refused = 0
    if f"{_SET}.quarantine" in lake:
        columns = ["episode_id", "reason", "detail"]
        rows = lake[f"{_SET}.quarantine"].scan(columns).read_all().to_pylist()
        digest.update(json.dumps(sorted(rows, key=str)).encode())
        refused = len(rows)
    episodes = held.episodes.count_rows()
    return f"{episodes} episodes, {frames.num_rows} frames, {refused} refused, {digest.hexdigest()}"


def run_rounds(
    num_rounds: int, num_episodes: int, table_format: str, executor: str, seed: int
) -> None:
    """Do all rounds.

    Raises:
        RuntimeError: a round ended with something else than the undisturbed run.
    """
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kill-episodes-") as name:
        folder = Path(name)
        make_dataset(folder / "data", num_episodes)
        how = table_format, executor
        for name in ("calm", "warm"):
            started = time.monotonic()
            start(folder / "data", folder / name, *how).communicate(timeout=_PATIENCE_S)
            # Of the second run: the first one reads the packages from disk.
            seconds = time.monotonic() - started
        expected = contents(open_lake(folder / "calm"))
        print(f"undisturbed: {expected}, {seconds:.1f} s", flush=True)
        for index in range(num_rounds):
            lake = folder / f"lake{index}"
            seen = []
            for _ in range(rng.randint(1, 4)):
                process = start(folder / "data", lake, *how)
                try:
                    process.communicate(timeout=rng.uniform(0.05, 0.95) * seconds)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                seen.append(0)
                if lake.is_dir() and _SET in episode_sets(open_lake(lake)):
                    contents(open_lake(lake))
                    held = open_episodes(open_lake(lake), _SET)
                    seen[-1] = held.episodes.count_rows() + held.videos.count_rows()
            _, errors = start(folder / "data", lake, *how).communicate(timeout=_PATIENCE_S)
            found = contents(open_lake(lake))
            verdict = "equal" if found == expected else f"DIFFERENT: {found} {errors.decode()}"
            print(f"round {index + 1}: killed with {seen} rows; {verdict}", flush=True)
            if found != expected:
                raise RuntimeError(f"round {index + 1} ended otherwise")
            shutil.rmtree(lake)


def main() -> None:
    """Read the command line and do the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=600)
    parser.add_argument("--format", choices=["lance", "delta"], default="lance")
    parser.add_argument("--executor", choices=["local", "ray"], default="local")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    run_rounds(options.rounds, options.episodes, options.format, options.executor, options.seed)


if __name__ == "__main__":
    main()
