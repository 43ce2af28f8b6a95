"""The measures of robot episodes as columns of a set."""

from __future__ import annotations

import itertools
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from curation.quality import robot_reading
from curation.quality.drops import find_drops, parse_rule
from curation.quality.measures import load_measure
from curation.quality.robot import MEASURES, RobotMeasures
from curation.quality.robot_scale import Scale
from curation.selection.passing import select_passing
from datalake.episodes import EPISODES, EpisodeSet, create_episodes, frames_schema, open_episodes
from datalake.errors import InputError
from datalake.lake import Lake, Lineage, open_lake
from datalake.pipelines.annotation import annotate
from datalake.pipelines.ingest import ingest
from datalake.recording import Feature
from tests.curation.quality.robot_twins import (
    longest,
    slow_frozen,
    slow_idle,
    slow_jerk,
    slow_jump,
    slow_lag,
    slow_offset,
    slow_saturated,
)
from tests.robots import write_robots

_numbers = itertools.count()
FPS = 10.0
JOINTS = ("shoulder", "elbow", "gripper")


@pytest.fixture
def lake() -> Lake:
    return open_lake(f"memory://robot{next(_numbers)}")


def motion(seed: int, length: int) -> np.ndarray:
    """Three joints that sway, the last a gripper that opens and closes."""
    rng = np.random.default_rng(seed)
    time = np.arange(length)[:, None]
    sway = np.sin(0.1 * time + rng.uniform(0, 6, 3)) + rng.normal(0, 0.002, (length, 3))
    sway[:, 2] = np.sin(0.5 * time[:, 0] + seed) > 0
    return sway


def write_arm(lake: Lake, moves: list[tuple[np.ndarray, np.ndarray]], **columns: Any) -> EpisodeSet:
    """A set `arm` of episodes with this state and action; columns of episodes by name."""
    features = [
        Feature("observation.state", "float64", (3,), JOINTS),
        Feature("action", "float64", (3,), JOINTS),
    ]
    frames, rows = [], []
    for number, (state, action) in enumerate(moves):
        length, episode_id = len(state), f"arm/{number:06d}"
        vectors = [
            pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 3) for x in (state, action)
        ]
        frames.append(pa.table({
            "episode_id": [episode_id] * length, "frame_index": range(length),
            "timestamp": np.arange(length) / FPS, "task_index": [0] * length,
            "observation/state": vectors[0], "action": vectors[1],
        }, schema=frames_schema(features)))  # fmt: skip
        rows.append({
            **dict.fromkeys(EPISODES.names), "episode_id": episode_id, "source": "arm",
            "episode_index": number, "embodiment": "arm", "task": "pick", "fps": FPS,
            "length": length, "duration_s": length / FPS, "stats": [], "videos": [],
            "tasks": [{"task_index": 0, "task": "pick"}],
            "features": [feature.as_row() for feature in features],
            **{name: values[number] for name, values in columns.items()},
        })  # fmt: skip
    made = create_episodes(lake, "arm", features, lineage=Lineage("test"))
    staged = made.episodes.stager().write(pa.Table.from_pylist(rows, EPISODES))
    return made.publish(
        staged, frames=made.frames.append(pa.concat_tables(frames)), lineage=Lineage("test")
    )


def measured(lake: Lake, table: str = "arm.episodes") -> list[dict[str, Any]]:
    measures = RobotMeasures(lake, table)
    made = measures.open()(lake[table].scan(list(measures.reads)).read_all())
    return made.to_pylist()


def followed(seed: int, length: int, lag: int) -> tuple[np.ndarray, np.ndarray]:
    """A state that does what the action said so many frames before."""
    long = motion(seed, length + lag)
    return long[:length].copy(), long[lag:].copy()


def test_each_fault_is_found_where_it_is(lake: Lake) -> None:
    moves = [followed(seed, 60, 2) for seed in range(8)]
    moves[1][0][20:40] = moves[1][0][20]  # A stream that hangs.
    moves[1][1][20:40] = moves[1][1][20]
    moves[3][1][5, 1] = np.nan
    moves[3][1][6, 0] = np.inf
    moves[4][0][:, 1] = 0.5  # A joint that hangs.
    moves[5][1][:, 0] = np.minimum(moves[5][1][:, 0], 0.4)  # Clipped, but not at the range's end.
    for move in moves:
        np.clip(move[0][:, 0], -2, 0.95, out=move[0][:, 0])  # At its end.
    moves[2][0][30:, 0] -= 0.9  # A leap.
    write_arm(lake, moves)
    found = measured(lake)
    good = found[0]
    assert good["error"] is None
    assert good["action_lag_s"] == pytest.approx(0.2)
    assert good["action_correlation"] > 0.8
    zeros = ("num_jumps", "num_frozen_dims", "num_constant_dims", "num_non_finite", "num_gaps",
             "num_backward", "idle_share", "num_leading_idle", "fps_drift")  # fmt: skip
    assert {name: good[name] for name in zeros} == dict.fromkeys(zeros, 0)
    assert found[1]["frozen_state_share"] == pytest.approx(20 / 60)
    assert found[1]["idle_share"] == pytest.approx(20 / 60)
    assert found[1]["action_offset"] is not None
    assert good["frozen_state_share"] == 0
    assert found[2]["num_jumps"] == 1
    assert found[3]["num_non_finite"] == 2
    assert (found[4]["num_frozen_dims"], found[4]["num_constant_dims"]) == (1, 1)
    assert 0.05 < good["saturation_share"] < 0.5
    # What drops by rules has its reason, for episodes as for utterances.
    annotate(lake, "arm.episodes", RobotMeasures(lake, "arm.episodes"), executor="local")
    drops = find_drops(lake["arm.episodes"], [parse_rule("num_jumps > 0")])
    # What hung leaps when it goes on.
    assert drops.rows["row_index"].to_pylist() == [1, 2]
    assert drops.rows.slice(1).to_pylist() == [
        {"row_index": 2, "utt_id": "arm/000002", "reason": "num_jumps_high", "column": "num_jumps",
         "value": 1.0, "threshold": 0.0}
    ]  # fmt: skip
    kept = select_passing(
        lake["arm.episodes"], drops.kept, table_name="arm.episodes", name="good", method="drop",
        parameters={},
    )  # fmt: skip
    assert len(kept) == 6


def test_outliers_are_those_of_their_robot_and_task(lake: Lake) -> None:
    moves = [followed(seed, 60, 1) for seed in range(44)]
    kinds = [(("fast", "slow")[n % 2], ("pick", "place")[n // 22]) for n in range(44)]
    for number, (robot, _) in enumerate(kinds):
        if robot == "slow":
            for values in moves[number]:
                values[:] = values[0] + (values - values[0]) / 50
    # Shaken, but less so than all of the fast robot are.
    moves[3][0][::7, :2] += 0.01
    robots, tasks = zip(*kinds, strict=True)
    write_arm(lake, moves, embodiment=robots, task=tasks)
    annotate(lake, "arm.episodes", RobotMeasures(lake, "arm.episodes"), executor="local")
    table = lake["arm.episodes"]
    ruled = find_drops(table, [parse_rule("jerk_p95 is an outlier by embodiment and task at 8")])
    assert ruled.rows["reason"].to_pylist() == ["jerk_p95_high_outlier"]
    assert ruled.rows["row_index"].to_pylist() == [3]


def test_a_whole_set_is_what_loops_find(lake: Lake) -> None:
    rng = np.random.default_rng(0)
    moves = [followed(seed, int(rng.integers(1, 60)), 1) for seed in range(12)]
    for state, action in moves[::3]:
        stop = len(state) // 2
        state[:stop], action[:stop] = state[0], action[0]
        state[rng.integers(len(state)), 0] = np.nan
    write_arm(lake, moves)
    measures = RobotMeasures(lake, "arm.episodes")
    scales = measures.scales["arm"]
    state_scale, action_scale = scales["observation.state"], scales["action"]
    parts = ("low", "high", "step", "noise")
    joined = [np.concatenate([getattr(s, p) for s in (state_scale, action_scale)]) for p in parts]
    both_scale = Scale(*joined)
    for found, (state, action) in zip(measured(lake), moves, strict=True):
        both, length = np.hstack([state, action]), len(state)
        filled = np.hstack([fill(state), fill(action)])
        idle = slow_idle(filled, both_scale, 5)
        lag, correlation = slow_lag(state, action, state_scale, action_scale, 5)
        jerk = slow_jerk(state, state_scale, FPS)
        runs = "".join(" x"[flag] for flag in idle)
        leading = len(runs) - len(runs.lstrip("x"))
        expected = {
            "jerk_median": jerk[0], "jerk_p95": jerk[1], "idle_share": np.mean(idle),
            "num_leading_idle": leading,
            "num_trailing_idle": 0 if leading == length else len(runs) - len(runs.rstrip("x")),
            "frozen_action_share": longest(slow_frozen(action, 2)) / length,
            "frozen_state_share": longest(slow_frozen(state, 2)) / length,
            "saturation_share": np.mean(slow_saturated(both, both_scale, 3)),
            "num_jumps": sum(slow_jump(filled, both_scale)),
            "num_non_finite": int((~np.isfinite(both)).sum()),
            "action_lag_s": lag / FPS, "action_correlation": correlation,
            "action_offset": slow_offset(state, action, idle, state_scale),
        }  # fmt: skip
        for name, value in expected.items():
            np.testing.assert_allclose(
                np.nan if found[name] is None else found[name], value, rtol=1e-5, err_msg=name
            )


def fill(values: np.ndarray) -> np.ndarray:
    from tests.curation.quality.episodes import slow_filled

    return slow_filled(values)


def test_an_episode_is_the_same_whatever_is_beside_it(lake: Lake) -> None:
    g1 = write_robots(lake, image=False, video=False, lengths=(60, 4, 33, 1, 50, 28), idle=(9, 5))
    measures = RobotMeasures(lake, "g1.episodes")
    rows = g1.episodes.scan(list(measures.reads)).read_all()
    copy = pickle.loads(pickle.dumps(measures))
    assert (copy.settings, copy.adds) == (measures.settings, MEASURES)
    work = copy.open()
    whole = work(rows)
    assert whole["error"].null_count == 6
    alone = pa.concat_tables([work(rows.slice(row, 1)) for row in range(6)])
    assert alone.equals(whole)
    order = [3, 5, 0, 2, 1, 4]
    assert work(rows.take(order)).equals(whole.take(order).combine_chunks())


def test_an_action_beside_the_main_one_has_no_state(lake: Lake) -> None:
    features = [
        Feature("observation.state", "float64", (2,)),
        Feature("action", "float64", (2,)),
        Feature("action.base", "float64", (1,)),
    ]
    state, action = (values[:, :2] for values in followed(0, 60, 3))
    columns = {
        "episode_id": ["a"] * 60, "frame_index": range(60), "timestamp": np.arange(60) / FPS,
        "task_index": [0] * 60, "action/base": np.zeros(60),
    }  # fmt: skip
    for name, values in (("observation/state", state), ("action", action)):
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 2)
    row = {
        **dict.fromkeys(EPISODES.names), "episode_id": "a", "source": "s", "episode_index": 0,
        "fps": FPS, "length": 60, "duration_s": 6.0, "videos": [], "stats": [],
    }  # fmt: skip
    made = create_episodes(lake, "arm", features, lineage=Lineage("test"))
    made.publish(
        made.episodes.stager().write(pa.Table.from_pylist([row], EPISODES)),
        frames=made.frames.append(pa.table(columns, schema=frames_schema(features))),
        lineage=Lineage("test"),
    )
    # A robot without a name, and features without names of their elements.
    [found] = measured(lake)
    assert found["error"] is None
    assert found["action_lag_s"] == pytest.approx(0.3)
    assert found["num_constant_dims"] == 1


def test_what_came_later_is_said(lake: Lake) -> None:
    write_robots(lake, image=False, video=False)
    work = RobotMeasures(lake, "g1.episodes").open()
    strange = pa.table({
        "episode_id": ["gone", "robots/000000"], "embodiment": ["arm", "other"],
        "fps": [10.0, 10.0], "length": [1, 12], "stamp": ["x", "y"],
    })  # fmt: skip
    assert work(strange)["error"].to_pylist() == [
        "the episode is not in the set any more",
        "the robot came in after scales were told: other",
    ]


def test_memory_does_not_grow_with_the_set(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robot_reading, "BATCH_NUMBERS", 6 * 60 * 10)
    monkeypatch.setattr("curation.quality.robot_scales._SAMPLED_NUMBERS", 6 * 60 * 10)
    peaks = []
    for num_episodes in (40, 160):
        there = open_lake(f"memory://many{next(_numbers)}")
        write_arm(there, [followed(seed, 60, 1) for seed in range(num_episodes)])
        rows = there["arm.episodes"].scan(["episode_id", "embodiment", "fps", "length", "stamp"])
        table = rows.read_all()
        tracemalloc.start()
        RobotMeasures(there, "arm.episodes").open()(table)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Some bytes an episode, of which each has 60 x 6 numbers.
    assert peaks[1] < peaks[0] + 120 * 2000


def test_what_has_no_movement_is_refused(lake: Lake) -> None:
    made = create_episodes(lake, "seen", [Feature("note", "string")], lineage=Lineage("test"))
    with pytest.raises(InputError, match="no movement to measure"):
        RobotMeasures(lake, "seen.episodes")
    assert made.version == lake["seen.episodes"].version
    with pytest.raises(InputError, match="needs lake"):
        load_measure("robot")
    write_robots(lake, image=False, video=False)
    assert load_measure("robot", lake, "g1.episodes").adds == MEASURES
    with pytest.raises(InputError, match="takes no column"):
        load_measure("robot", lake, "g1.episodes", column="front")


def test_real_robots_are_measured(shared_dir: Path, tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    ingest(
        lake, shared_dir / "data/robot/so101_v30_novideo", "so101", executor="local",
        without_video=True,
    )  # fmt: skip
    report = annotate(lake, "so101.episodes", RobotMeasures(lake, "so101.episodes"))
    assert report.num_annotated == 4
    found = open_episodes(lake, "so101").episodes.scan(MEASURES.names).read_all().to_pylist()
    for episode in found:
        # A leader arm's command is reached some frames later, within a few per cent.
        assert 0.03 < episode["action_lag_s"] < 0.3
        assert episode["action_correlation"] > 0.6
        assert 0 < episode["action_offset"] < 0.15
        assert 0 < episode["idle_share"] < 1
        assert episode["num_jumps"] == episode["num_gaps"] == episode["num_frozen_dims"] == 0
