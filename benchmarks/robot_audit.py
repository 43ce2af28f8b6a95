"""The audit of a robot dataset: lerobot-doctor's checks by itself, and by ours in its terms.

    python benchmarks/robot_audit.py --doctor-python PYTHON [--episodes 500 2000 5000] [--rounds 3]

PYTHON is of an environment that has `lerobot-doctor==0.2.0`. A synthetic LeRobot 3.0 dataset of
some 300 frames an episode has faults planted: gaps, times that stand still, frozen actions, leaps,
NaN, a clipped, a stuck and a constant dimension, a drift, copied episodes. Both sides read its
Parquet files and judge them in a process of their own, by turns; imports are not timed. First the
findings are compared, word for word: for the check `per_episode` those of all episodes, not only
the 20 that the peer prints.

Timed are the checks whose cost grows with the frames, and these with `anomalies`, which in the peer
compares all pairs of episodes. A run of the peer that takes longer than `--limit` seconds is given
up, and the ratio is then a lower bound.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curation.quality import robot_frames as flags
from curation.quality.segments import differences, lengths_of_runs, reduced
from datalake.episodes.statistics.columns import numbers_of

FPS = 30
SIZES = {"observation.state": 7, "action": 7, "action.base": 2}
TASKS = ["pick", "place", "push"]
LINEAR = ["temporal", "actions", "per_episode"]
CHECKS = (LINEAR, [*LINEAR, "anomalies"])

PEER = """
import builtins, json, resource, sys, time
from pathlib import Path
import lerobot_doctor.checks.per_episode as per_episode
from lerobot_doctor.dataset_loader import load_local
from lerobot_doctor.runner import run_checks
class Everything(list):
    # Its report is of the first 20; what is compared is all.
    def __getitem__(self, key):
        return list(self) if isinstance(key, slice) else super().__getitem__(key)
if sys.argv[3] == "whole":
    per_episode.sorted = lambda values: Everything(builtins.sorted(values))
run_checks  # Imports of checks are made before the clock runs.
from lerobot_doctor.runner import _get_all_checks
_get_all_checks()
began, cpu = time.perf_counter(), time.process_time()
report = run_checks(load_local(Path(sys.argv[1])), sys.argv[2].split(","))
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
found = {result.name: [message.message for message in result.messages] for result in report.results}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps(dict(seconds=seconds, cpu_s=cpu, peak_mb=peak / 1024, found=found)))
"""


def write_dataset(root: Path, num_episodes: int) -> int:
    """A LeRobot 3.0 dataset with faults; the number of frames."""
    rng = np.random.default_rng(num_episodes)
    lengths = rng.integers(200, 401, num_episodes)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    total = int(starts[-1])
    owner = np.repeat(np.arange(num_episodes), lengths)
    within = np.arange(total) - starts[owner]
    phase = rng.uniform(0, 6, (num_episodes, 7))
    state = np.sin(0.03 * within[:, None] + phase[owner])
    state += rng.normal(0, 0.002, state.shape)
    action = np.roll(state, -2, axis=0) + 0.01
    base = rng.normal(0, 0.1, (total, 2))
    times = within / FPS
    numbers = within.copy()
    state[:, 6] = np.round(state[:, 6] * 4) / 4  # Static most of the time.
    state[:, 5] = 0.5
    state[owner >= num_episodes * 3 // 4, 4] += 10
    action[:, 3] = np.minimum(action[:, 3], -0.25)
    some = max(2, num_episodes // 40)
    for episode in rng.choice(num_episodes, some, replace=False):
        times[starts[episode] + 50 : starts[episode + 1]] += 0.2
    for episode in rng.choice(num_episodes, some, replace=False):
        times[starts[episode] + 70] = times[starts[episode] + 69]
    for episode in rng.choice(num_episodes, some, replace=False):
        times[starts[episode] : starts[episode + 1]] *= 1.2
    for episode in rng.choice(num_episodes, some, replace=False):
        action[starts[episode] + 20 : starts[episode] + 60] = action[starts[episode] + 20]
    for episode in rng.choice(num_episodes, some, replace=False):
        action[starts[episode] + 100 : starts[episode] + 102] += 3
    for episode in rng.choice(num_episodes, some, replace=False):
        base[starts[episode] + 10, 1] = np.nan if episode % 2 else np.inf
    for episode in rng.choice(num_episodes, some, replace=False):
        numbers[starts[episode] + 30 : starts[episode + 1]] += 1
    for episode in rng.choice(num_episodes - 1, some, replace=False):
        same = np.flatnonzero(lengths == lengths[episode])
        other = same[same != episode][:1]
        for each in other:
            copied = action[starts[episode] : starts[episode + 1]]
            action[starts[each] : starts[each + 1]] = copied
    columns: dict[str, Any] = {"timestamp": times.astype(np.float32), "frame_index": numbers}
    columns |= {"episode_index": owner, "index": np.arange(total), "task_index": owner % 3}
    for name, values in (("observation.state", state), ("action", action), ("action.base", base)):
        flat = pa.array(values.astype(np.float32).ravel())
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    table = pa.table(columns)
    (root / "data/chunk-000").mkdir(parents=True)
    (root / "meta/episodes/chunk-000").mkdir(parents=True)
    for number, first in enumerate(range(0, num_episodes, 500)):
        last = min(first + 500, num_episodes)
        part = table.slice(starts[first], starts[last] - starts[first])
        pq.write_table(part, root / f"data/chunk-000/file-{number:03d}.parquet")
    numbered = np.arange(num_episodes)
    episodes = pa.table(
        {
            "episode_index": numbered,
            "length": lengths,
            "tasks": [TASKS] * num_episodes,
            "data/chunk_index": np.zeros(num_episodes, np.int64),
            "data/file_index": numbered // 500,
            "dataset_from_index": starts[:-1],
            "dataset_to_index": starts[1:],
        }
    )
    tasks = pa.table({"task_index": range(3), "task": TASKS})
    pq.write_table(tasks, root / "meta/tasks.parquet")
    pq.write_table(episodes, root / "meta/episodes/chunk-000/file-000.parquet")
    features = {
        name: {"dtype": "float32", "shape": [size], "names": None} for name, size in SIZES.items()
    }
    info = {
        "codebase_version": "v3.0", "fps": FPS, "robot_type": "arm", "features": features,
        "total_episodes": num_episodes, "total_frames": total, "total_tasks": 3,
        "chunks_size": 1000,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
    }  # fmt: skip
    (root / "meta/info.json").write_text(json.dumps(info))
    return total


# Ours, in the peer's terms -----------------------------------------------------------------------


class Dataset:
    """The columns of all episodes, one after another."""

    def __init__(self, root: Path) -> None:
        columns = ["timestamp", "frame_index", "episode_index", "index", *SIZES]
        table = pq.read_table(sorted((root / "data").rglob("*.parquet")), columns=columns)
        self.episodes, first = np.unique(table["episode_index"].to_numpy(), return_index=True)
        self.starts = np.append(first, table.num_rows)
        self.lengths = np.diff(self.starts)
        self.times = table["timestamp"].to_numpy().astype(np.float64)
        self.columns = {
            name: numbers_of(table[name]).astype(np.float64)
            for name in table.column_names
            if name in SIZES
        }
        self.actions = {name: v for name, v in self.columns.items() if name.startswith("action")}
        self.frame_index = table["frame_index"].to_numpy()
        self.index = table["index"].to_numpy()
        inside = np.ones(table.num_rows, np.bool_)
        inside[self.starts[:-1]] = False
        self.inside = inside
        """Frames that have one before them."""

    @cached_property
    def frozen(self) -> dict[str, Any]:
        """By action."""
        return {name: self._frozen(values) for name, values in self.actions.items()}

    @cached_property
    def jumps(self) -> dict[str, Any]:
        """By action."""
        return {name: self._jumps(values) for name, values in self.actions.items()}

    @cached_property
    def bad(self) -> dict[str, tuple[Any, Any]]:
        """Frames with NaN and with infinities, by action."""
        none = np.zeros(len(self.episodes), np.int64)
        return {
            name: (none, none)
            if np.isfinite(values).all()
            else tuple(self.count(each(values).any(axis=1)) for each in (np.isnan, np.isinf))
            for name, values in self.actions.items()
        }

    def count(self, flags: Any) -> Any:
        return reduced(np.add, flags, self.starts, 0)

    def _frozen(self, values: Any) -> Any:
        """The longest run of repeats, a percentage of the episode."""
        repeats = np.zeros(len(values), np.bool_)
        repeats[1:] = (values[1:] == values[:-1]).all(axis=1)
        runs = lengths_of_runs(repeats & self.inside, self.starts)
        return reduced(np.maximum, runs, self.starts, 0) / self.lengths * 100

    def _jumps(self, values: Any) -> Any:
        """How many steps are over 8 of the deviations of all steps, in the mean over dimensions."""
        steps = np.diff(values, axis=0)[self.inside[1:]]
        deviation = np.std(steps, axis=0)
        deviation[deviation == 0] = 1.0
        large = np.zeros(len(values), np.bool_)
        large[self.inside] = np.mean(np.abs(steps / deviation), axis=-1) > 8
        return self.count(large)


def temporal(data: Dataset) -> list[str]:
    starts, times, interval = data.starts, data.times, 1 / FPS
    backward, gaps = flags.backward(times, starts), flags.gap(times, starts, FPS)
    steps = differences(times, starts)
    ahead = steps > 0
    intervals = reduced(np.add, np.where(ahead, steps, 0.0), starts, 0.0)
    mean = intervals / np.maximum(data.count(ahead), 1)
    off = (np.abs(mean - interval) > interval * 0.1) & (data.count(ahead) > 0)
    expected = np.arange(len(times)) - np.repeat(starts[:-1], data.lengths)
    wrong = data.frame_index != expected
    counts = [data.count(each) for each in (backward, gaps, wrong)]
    bad = np.flatnonzero((counts[0] > 0) | (counts[1] > 0) | off | (counts[2] > 0))
    said = []
    if gone := set(range(data.episodes[0], data.episodes[-1] + 1)) - set(data.episodes.tolist()):
        said.append(f"Missing episode indices: {sorted(gone)[:10]}{'...' * (len(gone) > 10)}")
    if not np.array_equal(data.index, np.arange(len(data.index))):
        said.append("Global index column is not sequential (0, 1, 2, ...)")
    for episode in bad[:10]:
        begin, end = starts[episode : episode + 2]
        name = f"Episode {data.episodes[episode]}"
        for found, what in (
            (backward, "non-monotonic timestamp(s)"),
            (gaps, "dropped frame gap(s)"),
        ):
            # The peer counts steps, from the first.
            at = (np.flatnonzero(found[begin:end]) - 1).tolist()
            if at:
                more = "..." if len(at) > 5 else ""
                said.append(f"{name}: {len(at)} {what} at frame indices {at[:5]}{more}")
        if off[episode]:
            said.append(
                f"{name}: Mean interval {mean[episode]:.4f}s differs from expected "
                f"{interval:.4f}s (fps={FPS})"
            )
        if counts[2][episode]:
            at = int(np.flatnonzero(wrong[begin:end])[0])
            said.append(
                f"{name}: frame_index not sequential: {counts[2][episode]} mismatches, first at "
                f"position {at} (got {data.frame_index[begin + at]}, expected {at})"
            )
    if len(bad) > 10:
        said.append(f"...and {len(bad) - 10} more episodes with issues")
    if total := int(counts[1].sum()):
        said.append(f"Total dropped frame gaps across all episodes: {total}")
    if total := int(counts[0].sum()):
        said.append(f"Total non-monotonic timestamps across all episodes: {total}")
    if not said or (len(bad) == 0 and not counts[0].any() and not counts[1].any()):
        said.append(
            f"All {len(data.episodes)} episodes have consistent timestamps and frame indices"
        )
    return said


def actions(data: Dataset) -> list[str]:
    said = [f"Found action columns: {list(data.actions)}"]
    for name, values in data.actions.items():
        known = values
        some = any(count.any() for count in data.bad[name])
        nan = int(np.isnan(values).sum()) if some else 0
        inf = int(np.isinf(values).sum()) if some else 0
        if nan:
            said.append(f"{name}: {nan} NaN values detected")
        if inf:
            said.append(f"{name}: {inf} Inf values detected")
        if nan or inf:
            # The peer throws dimensions together then.
            known = values[np.isfinite(values)][:, None]
        for dim in range(known.shape[1]):
            own = known[:, dim]
            label = f"{name}[{dim}]" if known.shape[1] > 1 else name
            low, high = own.min(), own.max()
            if low == high:
                continue
            for end, word in ((low, "minimum"), (high, "maximum")):
                share = (own == end).sum() / len(own)
                if share > 0.5:
                    tail = " -- clipping detected" if share > 0.99 else ""
                    said.append(f"{label}: {share:.1%} of values at {word} ({end:.4f}){tail}")
        for flagged, say, more in (
            (
                np.flatnonzero(data.frozen[name] >= 5),
                lambda at, name=name: (
                    f"{name}: {data.frozen[name][at]:.0f}% of episode "
                    f"{data.episodes[at]} is consecutive identical actions (frozen)"
                ),
                "with frozen actions",
            ),
            (
                np.flatnonzero(data.jumps[name] > 0),
                lambda at, name=name: (
                    f"{name}: Episode {data.episodes[at]} has "
                    f"{data.jumps[name][at]} sudden large action jumps (>8 std mean across dims)"
                ),
                "with large action jumps",
            ),
        ):
            said += [say(at) for at in flagged[:5]]
            if len(flagged) > 5:
                said.append(f"{name}: ...and {len(flagged) - 5} more episodes {more}")
    return said


def per_episode(data: Dataset, most: int | None) -> list[str]:
    starts = data.starts
    backward = data.count(flags.backward(data.times, starts))
    lost = data.count(flags.gap(data.times, starts, FPS, intervals=2.5))
    bad = data.bad
    short = data.lengths < max(5, FPS)
    flagged = short | (backward > 0) | (lost > 0)
    for name in data.actions:
        flagged |= (bad[name][0] > 0) | (bad[name][1] > 0) | (data.frozen[name] >= 5)
        flagged |= data.jumps[name] > 0
    places = np.flatnonzero(flagged)
    if not len(places):
        return [f"All {len(data.episodes)} episodes look clean"]
    said = [f"{len(places)}/{len(data.episodes)} episode(s) flagged"]
    for at in places[:most]:
        why = []
        if short[at]:
            why.append(f"too short ({data.lengths[at]} frames, <{max(5, FPS) / FPS:.1f}s)")
        if backward[at]:
            why.append("non-monotonic timestamps")
        if lost[at]:
            why.append(f"{lost[at]} dropped frame(s)")
        for name in data.actions:
            why += [
                f"{word} in {name}"
                for word, count in zip(("NaN", "Inf"), bad[name], strict=True)
                if count[at]
            ]
            if data.frozen[name][at] >= 5:
                share = data.frozen[name][at]
                why.append(f"{share:.0f}% of {name} frozen (consecutive identical)")
            if data.jumps[name][at]:
                why.append(f"{data.jumps[name][at]} action jump(s) in {name}")
        said.append(f"Episode {data.episodes[at]}: {'; '.join(why)}")
    if len(places) > 20:
        said.append(f"...and {len(places) - 20} more flagged episodes")
    return said


def anomalies(data: Dataset) -> list[str]:
    return [*stuck(data), *copies(data), *shifts(data), *constants(data)]


def stuck(data: Dataset) -> list[str]:
    found = []
    for place, (name, values) in enumerate(data.columns.items()):
        moves = reduced(np.maximum, values, data.starts, 0.0) != reduced(
            np.minimum, values, data.starts, 0.0
        )
        still = np.zeros(values.shape, np.bool_)
        still[1:] = np.diff(values, axis=0) == 0
        still[~data.inside] = False
        share = data.count(still.astype(np.int64)) / (data.lengths - 1)[:, None]
        hung = moves & (share > 0.8) & (data.lengths[:, None] > 11)
        for dim in np.flatnonzero(hung.any(axis=0)):
            first = int(np.argmax(hung[:, dim]))
            found.append((first, place, int(dim), name, int(hung[:, dim].sum())))
    num = len(data.episodes)
    return [
        f"{name}[{dim}]: stuck/static in {count}/{num} episodes (>80% unchanged each) -- possible "
        "stuck actuator or unused DOF"
        for _, _, dim, name, count in sorted(found)[:5]
        if count > num * 0.8
    ]


def copies(data: Dataset) -> list[str]:
    """Pairs of equal length whose first and last values are close, by neighbours on a line."""
    values = next(iter(data.actions.values()))
    ends = np.arange(10)
    width = min(20, 10 * values.shape[1])
    head = values[data.starts[:-1, None] + ends].reshape(len(data.episodes), -1)[:, :width]
    tail = values[data.starts[1:, None] - 10 + ends].reshape(len(data.episodes), -1)[:, :width]
    prints = np.hstack([head, tail])
    weights = np.random.default_rng(0).normal(size=prints.shape[1])
    line = prints @ weights
    # No two that are close are further apart on the line.
    reach = np.abs(weights).sum() * (1e-6 + 1e-5 * np.nanmax(np.abs(prints)))
    order = np.lexsort((line, data.lengths))
    line, lengths = line[order], data.lengths[order]
    pairs, step = [], 1
    while step < len(order):
        near = (lengths[step:] == lengths[:-step]) & (line[step:] - line[:-step] <= reach)
        if not near.any():
            break
        one, two = order[:-step][near], order[step:][near]
        low, high = np.minimum(one, two), np.maximum(one, two)
        apart = np.abs(prints[low] - prints[high])
        close = (apart <= 1e-6 + 1e-5 * np.abs(prints[high])).all(axis=1)
        pairs += list(zip(low[close].tolist(), high[close].tolist(), strict=True))
        step += 1
    if not pairs:
        return []
    named = [(int(data.episodes[a]), int(data.episodes[b])) for a, b in sorted(pairs)]
    more = "..." if len(named) > 5 else ""
    return [f"{len(named)} near-duplicate episode pair(s) detected: {named[:5]}{more}"]


def shifts(data: Dataset) -> list[str]:
    quarter, said = len(data.episodes) // 4, []
    for name, values in data.columns.items():
        first, last = values[: data.starts[quarter]], values[data.starts[-1 - quarter] :]
        deviation = np.std(first, axis=0)
        apart = np.abs(np.mean(last, axis=0) - np.mean(first, axis=0))
        shift = apart / np.where(deviation > 0, deviation, 1.0)
        if np.max(shift) > 3:
            said.append(
                f"{name}: distribution shift detected between first and last quarter of episodes "
                f"(dim {int(np.argmax(shift))}: {np.max(shift):.1f} std shift). Could indicate "
                "environment changes or operator drift."
            )
    return said


def constants(data: Dataset) -> list[str]:
    said = []
    for name, values in data.columns.items():
        if name.startswith("action"):
            continue
        same = np.flatnonzero(np.nanmin(values, axis=0) == np.nanmax(values, axis=0))
        if len(same) == values.shape[1]:
            said.append(
                f"{name}: ALL {len(same)} dimensions constant across ALL episodes -- possible "
                "broken sensor or unused feature"
            )
        elif len(same):
            listed = ", ".join(f"dim {dim} (={values[0, dim]:.4f})" for dim in same[:5])
            said.append(
                f"{name}: {len(same)} constant dimension(s) across ALL episodes: {listed} -- "
                "possible stuck sensor"
            )
    return said


def ours(root: Path, checks: list[str], most: int | None) -> dict[str, Any]:
    """The findings, and what they cost."""
    names = {
        "temporal": ("Temporal Consistency", temporal),
        "actions": ("Action Quality", actions),
        "per_episode": ("Per-Episode Summary", lambda data: per_episode(data, most)),
        "anomalies": ("Anomaly Detection", anomalies),
    }
    began, cpu = time.perf_counter(), time.process_time()
    data = Dataset(root)
    found = {names[check][0]: names[check][1](data) for check in checks}
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu_s": cpu, "peak_mb": peak, "found": found}


def measured(root: Path, lake_root: Path) -> float:
    """Seconds of all of our measures over the same episodes in a lake; the ingest is not timed."""
    import datalake
    from curation.quality.robot import RobotMeasures
    from datalake.pipelines.annotation import annotate
    from datalake.pipelines.ingest import ingest

    lake = datalake.open_lake(lake_root)
    # What the peer would report, the ingest would refuse.
    ingest(lake, root, "arm", executor="local", on_error="quarantine")
    began = time.perf_counter()
    report = annotate(lake, "arm.episodes", RobotMeasures(lake, "arm.episodes"), executor="local")
    seconds = time.perf_counter() - began
    print(f"curate measure --with robot: {report.num_annotated:,} episodes in {seconds:.1f} s")
    return seconds


# Side by side ------------------------------------------------------------------------------------


def run(
    side: str, python: str, root: Path, checks: list[str], whole: str, limit_s: float
) -> dict[str, Any] | None:
    """A side's findings and costs; None where it took too long."""
    arguments = [str(root), ",".join(checks), whole]
    command = [python, "-c", PEER] if side == "doctor" else [python, __file__, "--side"]
    try:
        done = subprocess.run(
            [*command, *arguments], check=True, stdout=subprocess.PIPE, text=True, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compared(mine: dict[str, list[str]], theirs: dict[str, list[str]]) -> int:
    """How many findings are the same, word for word.

    Raises:
        SystemExit: they are not.
    """
    for check, said in theirs.items():
        if mine[check] != said:
            both = zip([*mine[check], "nothing"], [*said, "nothing"], strict=False)
            one, two = next((one, two) for one, two in both if one != two)
            raise SystemExit(f"{check}: findings differ\n  ours   {one}\n  doctor {two}")
    return sum(len(said) for said in theirs.values())


def main() -> None:
    if sys.argv[1:2] == ["--side"]:
        root, checks, whole = sys.argv[2:]
        most = None if whole == "whole" else 20
        print(json.dumps(ours(Path(root), checks.split(","), most)))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--doctor-python", required=True, help="of an environment with the peer")
    parser.add_argument("--episodes", type=int, nargs="+", default=[500, 2000, 5000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300, help="seconds for a run of the peer")
    parser.add_argument("--measure", action="store_true", help="also time all of our measures")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    for num_episodes in options.episodes:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name) / "arm"
            total = write_dataset(root, num_episodes)
            print(f"{num_episodes:,} episodes, {total:,} frames", flush=True)
            for checks in CHECKS:
                results.append({"episodes": num_episodes, "frames": total, "checks": checks})
                results[-1] |= side_by_side(root, checks, options)
            if options.measure:
                results[-1]["measure_s"] = measured(root, Path(name) / "lake")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


def side_by_side(root: Path, checks: list[str], options: argparse.Namespace) -> dict[str, Any]:
    title, limit = f"  {', '.join(checks)}:", options.limit
    theirs = run("doctor", options.doctor_python, root, checks, "whole", limit)
    mine = run("ours", sys.executable, root, checks, "whole", limit)
    assert mine is not None
    if theirs is None:
        least = limit / mine["seconds"]
        print(
            f"{title} doctor over {limit:.0f} s, ours {mine['seconds']:.2f} s: more than "
            f"{least:.0f} times as fast; findings not compared at this size", flush=True,
        )  # fmt: skip
        return {"doctor": None, "ours": [mine["seconds"]], "ratio_at_least": least}
    count = compared(mine["found"], theirs["found"])
    costs: dict[str, list[dict[str, Any]]] = {"doctor": [], "ours": []}
    for _ in range(options.rounds):
        for side, python in (("doctor", options.doctor_python), ("ours", sys.executable)):
            each = run(side, python, root, checks, "printed", limit)
            if each is not None:
                costs[side].append({key: each[key] for key in ("seconds", "cpu_s")})
    doctor_s, ours_s = (
        statistics.median(each["seconds"] for each in costs[side]) for side in costs
    )
    doctor_cpu_s, ours_cpu_s = (
        statistics.median(each["cpu_s"] for each in costs[side]) for side in costs
    )
    print(
        f"{title} {count} findings equal; doctor {doctor_s:.1f} s, ours {ours_s:.2f} s: "
        f"{doctor_s / ours_s:.0f} times as fast; in processor time {doctor_cpu_s:.1f} s and "
        f"{ours_cpu_s:.2f} s, {doctor_cpu_s / ours_cpu_s:.0f} times; peak "
        f"{theirs['peak_mb']:,.0f} and "
        f"{mine['peak_mb']:,.0f} MB", flush=True,
    )  # fmt: skip
    return {"doctor": costs["doctor"], "ours": costs["ours"], "findings": count}


if __name__ == "__main__":
    main()
