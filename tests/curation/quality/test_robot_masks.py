"""Masks of robot episodes: the frames that slow loops flag, with numbers, and the command."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from curation.cli.app import app
from curation.quality import robot_reading
from curation.quality.robot_masks import REASONS, make_mask
from curation.quality.robot_scale import Scale
from curation.quality.robot_scales import scales_of
from datalake.cli import console
from datalake.cli.app import app as datalake_app
from datalake.episodes import EpisodeSet, create_episodes, open_episodes
from datalake.episodes.masks import Mask, open_mask
from datalake.episodes.windows import Windows
from datalake.errors import InputError, NotFoundError
from datalake.lake import Lake, Lineage, open_lake
from datalake.recording import Feature
from tests.curation.quality.robot_twins import slow_frozen, slow_idle, slow_jump, slow_saturated
from tests.curation.quality.test_robot import FPS, fill, followed, measured, write_arm
from tests.robots import write_robots

_numbers = itertools.count()


@pytest.fixture
def lake() -> Lake:
    return open_lake(f"memory://masked{next(_numbers)}")


def rough_moves(num_episodes: int = 12) -> list[tuple[np.ndarray, np.ndarray]]:
    """Episodes of 1 to 59 frames; some rest, at their ends and within, hang, or lack a number."""
    rng = np.random.default_rng(0)
    moves = [followed(seed, int(rng.integers(1, 60)), 1) for seed in range(num_episodes)]
    for number, (state, action) in enumerate(moves):
        length = len(state)
        for first, stop in ((0, length // 4), (length // 2, length // 2 + 9), (length - 6, length)):
            if rng.random() < 0.5 and first >= 0:
                state[first:stop], action[first:stop] = state[first], action[first]
        if number % 3 == 0:
            state[rng.integers(length), 0] = np.nan
            action[rng.integers(length), 1] += 5
    return moves


def frames_of(mask: Mask, lengths: list[int], reason: str) -> list[list[bool]]:
    """Which frames of each episode a mask has a reason for."""
    found = [[False] * length for length in lengths]
    for span in mask.only([reason]).spans.to_pylist():
        own = found[int(span["episode_id"].partition("/")[2])]
        own[span["from_frame"] : span["to_frame"]] = [True] * (
            span["to_frame"] - span["from_frame"]
        )
    return found


def test_masks_are_what_loops_flag(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    # Several batches: an episode does not hang on those beside it.
    monkeypatch.setattr(robot_reading, "BATCH_NUMBERS", 6 * 60)
    moves = rough_moves()
    arm = write_arm(lake, moves)
    mask = make_mask(arm, REASONS)
    assert mask.reasons == REASONS
    state_scale, action_scale = (
        scales_of(arm, arm.features)["arm"][name] for name in ("observation.state", "action")
    )
    parts = ("low", "high", "step", "noise")
    both_scale = Scale(
        *(np.concatenate([getattr(s, p) for s in (state_scale, action_scale)]) for p in parts)
    )
    expected: dict[str, list[list[bool]]] = {reason: [] for reason in REASONS}
    for state, action in moves:
        both, filled = np.hstack([state, action]), np.hstack([fill(state), fill(action)])
        length = len(state)
        for reason, flags in (
            ("idle", slow_idle(filled, both_scale, 5)),
            ("frozen", slow_frozen(state, 5)),
            ("saturated", slow_saturated(both, both_scale, 3)),
            ("jump", slow_jump(filled, both_scale)),
            ("gap", [False] * length),
            ("backward", [False] * length),
            ("non_finite", (~np.isfinite(both)).any(axis=1).tolist()),
        ):
            expected[reason].append([bool(flag) for flag in flags])
    lengths = [len(state) for state, _ in moves]
    for reason in REASONS:
        assert frames_of(mask, lengths, reason) == expected[reason], reason
    assert sum(map(sum, expected["idle"])) > 20
    assert sum(map(sum, expected["jump"])) > 0
    # Measures of episodes count the same frames.
    for row, flags, jumps in zip(measured(lake), expected["idle"], expected["jump"], strict=True):
        assert row["idle_share"] == pytest.approx(np.mean(flags))
        assert row["num_jumps"] == sum(jumps)


def test_spans_carry_their_numbers(lake: Lake) -> None:
    moves = [followed(seed, 60, 1) for seed in range(8)]
    for values in moves[2]:
        values[20:40] = values[20]
    moves[3][1][5, 1] = np.nan
    arm = write_arm(lake, moves)
    spans = make_mask(arm, ["idle", "non_finite", "jump"]).spans.to_pylist()
    idle = next(span for span in spans if span["reason"] == "idle")
    assert idle["episode_id"] == "arm/000002"
    assert (idle["from_frame"], idle["to_frame"]) == (20, 40)
    assert (idle["value"], idle["threshold"]) == (2.0, 0.5)
    bad = next(span for span in spans if span["reason"] == "non_finite")
    assert (bad["from_frame"], bad["to_frame"]) == (5, 6)
    assert bad["value"] is bad["threshold"] is None
    for span in spans:
        if span["reason"] == "jump":
            assert span["value"] > span["threshold"] == 0.1


def test_times_that_jump_are_masked(lake: Lake) -> None:
    """Of frames whose times are not their numbers, which a set made by hand may hold."""
    arm = write_arm(lake, [followed(0, 30, 1), followed(1, 30, 1)])
    frames = arm.frames.scan().read_all()
    times = np.tile(np.arange(30) / FPS, 2)
    times[40:] += 0.4
    times[50] = times[49]
    at = frames.schema.get_field_index("timestamp")
    frames = frames.set_column(at, frames.schema.field(at), [times])
    bent = EpisodeSet("arm", arm.episodes, arm.frames.overwrite(frames), arm.videos, arm.features)
    mask = make_mask(bent, ["gap", "backward"])
    found = [(s["reason"], s["from_frame"], s["to_frame"]) for s in mask.spans.to_pylist()]
    assert found == [("gap", 10, 11), ("backward", 20, 21), ("gap", 21, 22)]
    assert mask.spans["value"].to_pylist() == pytest.approx([0.5, 0.0, 0.2])
    assert mask.spans["threshold"].to_pylist() == pytest.approx([0.15, 0.0, 0.15])


def test_trimming_alone_leaves_pauses(lake: Lake) -> None:
    moves = [followed(seed, 60, 1) for seed in range(6)]
    for first, stop in ((0, 12), (30, 40), (52, 60)):
        for values in moves[1]:
            values[first:stop] = values[first]
    for values in moves[2]:
        values[:] = values[0]
    arm = write_arm(lake, moves)
    whole, ends = (make_mask(arm, ["idle"], trim_only=only) for only in (False, True))

    def spans(mask: Mask) -> list[tuple[str, int, int]]:
        rows = mask.spans.to_pylist()
        return [(row["episode_id"][-1], row["from_frame"], row["to_frame"]) for row in rows]

    assert spans(whole) == [("1", 0, 12), ("1", 30, 40), ("1", 52, 60), ("2", 0, 60)]
    assert spans(ends) == [("1", 0, 12), ("1", 52, 60), ("2", 0, 60)]
    # Those that lead and trail by the measures of the episode.
    row = measured(lake)[1]
    assert (row["num_leading_idle"], row["num_trailing_idle"]) == (12, 8)


def test_what_cannot_be_judged_is_said(lake: Lake) -> None:
    arm = write_arm(lake, [followed(0, 30, 1)])
    with pytest.raises(NotFoundError, match=r"'idel'.*idle"):
        make_mask(arm, ["idel"])
    with pytest.raises(InputError, match="needs a reason"):
        make_mask(arm, [])
    with pytest.raises(InputError, match="idle among the reasons"):
        make_mask(arm, ["jump"], trim_only=True)
    with pytest.raises(InputError, match="above 0"):
        make_mask(arm, ["idle"], spell_s=0.0)
    create_episodes(lake, "seen", [Feature("note", "string")], lineage=Lineage("test"))
    seen = open_episodes(lake, "seen")
    with pytest.raises(InputError, match="lacks what frames are judged by"):
        make_mask(seen, ["gap", "idle"])
    assert make_mask(seen, ["gap"]).num_frames == 0


def test_memory_does_not_grow_with_the_set(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robot_reading, "BATCH_NUMBERS", 6 * 60 * 10)
    monkeypatch.setattr("curation.quality.robot_scales._SAMPLED_NUMBERS", 6 * 60 * 10)
    peaks = []
    for num_episodes in (40, 160):
        there = open_lake(f"memory://long{next(_numbers)}")
        arm = write_arm(there, [followed(seed, 60, 1) for seed in range(num_episodes)])
        tracemalloc.start()
        make_mask(arm, ["idle", "jump", "gap"])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Some bytes an episode, of which each has 60 x 6 numbers.
    assert peaks[1] < peaks[0] + 120 * 2000


def run(app_: Any, arguments: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capfd.readouterr()
    with pytest.raises(SystemExit) as done:
        console.run(app_, "test", arguments)
    out, err = capfd.readouterr()
    return int(done.value.code or 0), out, err


def test_the_command_reports_saves_and_its_mask_is_one_of_the_lake(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    at = str(tmp_path / "lake")
    lake = open_lake(at)
    write_robots(lake, image=False, video=False, lengths=(60, 70, 8), idle=(9, 12))
    asked = ["mask", "g1", "--lake", at, "--reasons", "idle, jump", "--trim-only"]
    code, out, err = run(app, [*asked, "--json"], capfd)
    assert code == 0, err
    dry = json.loads(out)
    assert dry["mask"] is dry["mask_version"] is None
    assert "g1.masks" not in lake
    assert (dry["num_episodes"], dry["num_frames"], dry["num_not_judged"]) == (3, 138, 0)
    assert dry["num_frames_masked"] == dry["reasons"][0]["num_frames"] > 40
    assert dry["num_episodes_masked_whole"] == 1
    assert dry["num_runs_left"] == 2
    assert dry["reasons"][1] == {
        "reason": "jump", "num_spans": 0, "num_episodes": 0, "num_frames": 0
    }  # fmt: skip
    code, out, err = run(app, [*asked, "--as", "g1.masks"], capfd)
    assert code == 0, err
    assert "g1.masks, version 2" in out
    mask = open_mask(lake, "g1.masks")
    assert mask.digest == dry["digest"]
    assert mask.parameters["trim_only"] is True
    windows = Windows(open_episodes(lake, "g1"), masks=mask)
    assert len(windows.episode_rows()) == 138 - dry["num_frames_masked"]
    entry = lake.log("g1.masks")[-1]
    assert (entry.operation, dict(entry.inputs)) == ("mask", {"g1": 3})
    # The lake's own commands know it.
    for command, says in (
        ("ls", "g1.masks"), ("info", "num_frames_masked"), ("head", "reason=idle"),
        ("log", "g1=3"), ("compact", "nothing to compact"),
    ):  # fmt: skip
        named = [] if command == "ls" else ["g1.masks"]
        code, out, err = run(datalake_app, [command, *named, "--lake", at], capfd)
        assert code == 0, err
        assert says in out
    code, out, err = run(datalake_app, ["info", "g1.masks", "--lake", at, "--json"], capfd)
    assert json.loads(out)["kind"] == "mask"
    assert json.loads(out)["reasons"] == dry["reasons"]
    code, out, err = run(datalake_app, ["rm", "g1.masks", "--yes", "--lake", at], capfd)
    assert code == 0, err
    assert "g1.masks" not in lake


def test_the_command_says_what_is_wrong(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    at = str(tmp_path / "lake")
    write_robots(open_lake(at), image=False, video=False)
    for arguments, says in (
        (["mask", "g2"], "no episode set 'g2'"),
        (["mask", "g1", "--reasons", "idel"], "idel"),
        (["mask", "g1", "--reasons", "gap", "--trim-only"], "Trimming concerns idle frames"),
        (["mask", "g1", "--reasons", ","], "needs a reason"),
        (["mask", "g1", "--as", "g1.frames"], "taken"),
    ):
        code, _, err = run(app, [*arguments, "--lake", at], capfd)
        assert code == 2, err
        assert says in err
        assert "Traceback" not in err
