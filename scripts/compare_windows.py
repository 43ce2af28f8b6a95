"""Ask the real `lerobot` package and our windows for the same items, and compare every value.

    python scripts/compare_windows.py DATASET LAKE NAME --lerobot-python PYTHON
        [--delta-timestamps JSON] [--items 64] [--picture-tolerance 0]

DATASET is a LeRobot dataset (version 3.0, or 2.1, which `lerobot` converts in a copy), and NAME the
episode set of LAKE into which it was ingested, whole and alone. Items are drawn at random and from
both ends of every episode, so that windows are clamped at either side. Numbers, texts, pads and
pictures must be equal. Pictures come out of two builds of FFmpeg; should they round colours in
different ways, --picture-tolerance allows a mean difference for each (of 255).
Exits 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

HISTORY = (-3, -1, 0)
CHUNK = tuple(range(16))


def main() -> int:
    """Read our windows, let the other interpreter read its items, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("lake", nargs="?")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--lerobot-python", help="an interpreter that has lerobot")
    parser.add_argument("--delta-timestamps", type=json.loads, help="feature -> seconds, as JSON")
    parser.add_argument("--items", type=int, default=64, help="items drawn at random")
    parser.add_argument("--picture-tolerance", type=float, default=0.0)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        return answer(given.dataset, given.inside)
    if not (given.lake and given.name and given.lerobot_python):
        parser.error("LAKE, NAME and --lerobot-python are needed")

    from datalake.episodes import open_episodes
    from datalake.episodes.windows import Windows
    from datalake.lake import open_lake

    episodes = open_episodes(open_lake(given.lake, create=False), given.name)
    deltas = given.delta_timestamps or usual_deltas(episodes)
    rows = chosen_rows(episodes.index.starts, given.items)
    ours = Windows(episodes, deltas).batch(rows)
    with tempfile.TemporaryDirectory(prefix="compare-windows-") as folder:
        work = Path(folder)
        (work / "asked.json").write_text(json.dumps({"deltas": deltas, "rows": rows.tolist()}))
        command = [given.lerobot_python, __file__, str(given.dataset), "--inside", str(work)]
        if subprocess.run(command, check=False).returncode:
            return 1
        theirs = pickle.loads((work / "items.pickle").read_bytes())
    return compare(ours, theirs, given.picture_tolerance)


def usual_deltas(episodes: Any) -> dict[str, list[float]]:
    """A chunk of actions, a history of everything else that is a vector or a camera."""
    fps = float(episodes.episodes.take([0], ["fps"])["fps"][0].as_py())
    deltas = {}
    for feature in episodes.features:
        if feature.dtype == "video" or len(feature.shape) == 1:
            steps = CHUNK if feature.name == "action" else HISTORY
            deltas[feature.name] = [step / fps for step in steps]
    return deltas


def chosen_rows(starts: np.ndarray, num_random: int) -> np.ndarray:
    """Rows near both ends of every episode, and some in between."""
    ends = [
        row
        for start, end in pairwise(starts)
        for row in (start, start + 1, end - 2, end - 1)
        if start <= row < end
    ]
    drawn = np.random.default_rng(0).integers(0, starts[-1], num_random)
    return np.unique(np.concatenate([np.array(ends[:400], np.int64), drawn]))


def answer(dataset: Path, work: Path) -> int:
    """Runs in the interpreter that has lerobot: its items, as arrays."""
    sys.path.insert(0, str(Path(__file__).parent))
    import real_lerobot

    real_lerobot.prepare()
    asked = json.loads((work / "asked.json").read_text())
    items = real_lerobot.open_dataset(dataset, delta_timestamps=asked["deltas"])
    found = [
        {key: value.numpy() if hasattr(value, "numpy") else value for key, value in item.items()}
        for item in (items[row] for row in asked["rows"])
    ]
    (work / "items.pickle").write_bytes(pickle.dumps(found))
    return 0


def compare(
    ours: dict[str, np.ndarray], theirs: list[dict[str, Any]], picture_tolerance: float
) -> int:
    """Print what was compared, and say whether anything differs."""
    num_wrong = 0
    for key in sorted(theirs[0]):
        if key not in ours:
            print(f"{key}: lerobot has it, we do not")
            num_wrong += 1
            continue
        same, what = _compared(ours[key], [item[key] for item in theirs], picture_tolerance)
        num_wrong += not same
        print(f"{key}: {'equal' if same else 'DIFFERS'}: {what}")
    only_ours = sorted(set(ours) - set(theirs[0]))
    print(f"ours alone: {', '.join(only_ours) or 'nothing'}")
    print(f"{len(theirs)} items, {len(theirs[0])} keys, {num_wrong} differ")
    return 1 if num_wrong else 0


def _compared(ours: np.ndarray, theirs: list[Any], picture_tolerance: float) -> tuple[bool, str]:
    if isinstance(theirs[0], str):
        return list(ours) == theirs, f"{len(theirs)} texts"
    stacked = np.stack(theirs)
    if ours.dtype == np.uint8 and stacked.dtype == np.float32 and stacked.ndim >= 4:
        # (…, channels, height, width) in [0, 1]; a single offset has lost its axis there.
        pictures = np.rint(np.moveaxis(stacked, -3, -1) * 255).astype(int)
        own = ours.reshape(pictures.shape).astype(int)
        away = np.abs(pictures - own).mean((-3, -2, -1))
        largest = int(np.abs(pictures - own).max())
        what = f"pictures {pictures.shape}, mean difference {away.mean():.3f}"
        what += f", at most {away.max():.3f} a picture and {largest} a value"
        return bool(away.max() <= picture_tolerance), what
    # LeRobot keeps times in float32.
    own = ours.astype(stacked.dtype)
    same = own.shape == stacked.shape and np.array_equal(
        own, stacked, equal_nan=own.dtype.kind == "f"
    )
    return same, f"{stacked.dtype} {stacked.shape}"


if __name__ == "__main__":
    sys.exit(main())
