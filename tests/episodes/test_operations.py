"""Operations on whole episodes: what changes, and above all what does not."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.episodes import EpisodeSet, episode_sets, open_episodes
from datalake.episodes.operations import (
    Fractions,
    Ranges,
    Values,
    delete,
    drop_feature,
    merge,
    recompute_stats,
    rename_feature,
    restore,
    set_task,
    split,
    trim,
    validate,
)
from datalake.episodes.operations.copying import Copier
from datalake.episodes.operations.splitting import _largest_remainders
from datalake.episodes.statistics import FeatureStats, summarise
from datalake.errors import (
    ConflictError,
    ExistsError,
    InputError,
    NotFoundError,
    SchemaError,
)
from datalake.lake import Lake, Lineage, open_lake
from datalake.recording import column_of
from tests.robots import (
    CAMERA,
    FPS,
    LENGTHS,
    TASKS,
    WRIST,
    robot_features,
    robot_frames,
    write_robots,
)

_numbers = itertools.count()


@pytest.fixture(params=["lance", "delta", "memory"])
def lake_and_format(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Lake, str]:
    kept_as = request.param
    uri = f"memory://ops{next(_numbers)}" if kept_as == "memory" else str(tmp_path / "lake")
    return open_lake(uri), "lance" if kept_as == "memory" else kept_as


@pytest.fixture
def lake(lake_and_format: tuple[Lake, str]) -> Lake:
    lake, kept_as = lake_and_format
    write_robots(lake, format=kept_as)
    return lake


@pytest.fixture
def memory() -> Lake:
    """A lake of this process, for what does not depend on the format."""
    return open_lake(f"memory://ops{next(_numbers)}")


def episodes_of(of: EpisodeSet) -> dict[str, dict[str, Any]]:
    """The rows of the episodes table, by id."""
    return {row["episode_id"]: row for row in of.episodes.scan().read_all().to_pylist()}


def frames_of(of: EpisodeSet, episode_id: str) -> pa.Table:
    row = of.index.row_of(episode_id)
    return of.frames.take(range(of.index.starts[row], of.index.starts[row + 1]))


def bytes_of_videos(of: EpisodeSet) -> dict[str, bytes]:
    rows = of.videos.scan(["video_id", "video"]).read_all().to_pylist()
    return {row["video_id"]: row["video"] for row in rows}


def assert_frames(of: EpisodeSet, numbers: Sequence[int], **made: Any) -> None:
    """These episodes are in the set, in this order, with all of their frames."""
    assert [int(each[-6:]) for each in of.index.episode_ids.to_pylist()] == list(numbers)
    expected = [robot_frames(number, LENGTHS[number], **made) for number in numbers]
    found = of.frames.scan().read_all()
    assert found.combine_chunks().equals(pa.concat_tables(expected).combine_chunks())


# Deleting ---------------------------------------------------------------------------------------


def test_deletion_takes_frames_and_files_that_nothing_names(lake: Lake) -> None:
    before = open_episodes(lake, "g1")
    kept = bytes_of_videos(before)
    change = delete(lake, "g1", episode_ids=["robots/000003", "robots/000000"])
    after = open_episodes(lake, "g1")
    assert_frames(after, [1, 2, 4])
    # Episodes 0 and 1 are in one file, which stays; that of 3 goes.
    gone = f"robots/videos/{CAMERA}/chunk-000/file-002"
    assert (change.num_episodes, change.num_frames, change.num_videos) == (2, 21, 1)
    assert change.num_video_bytes == len(kept.pop(gone))
    assert bytes_of_videos(after) == kept
    assert change.version == after.version
    info = after.episodes.info()
    assert info.properties["datalake.operation"] == "episodes delete"
    assert f'"g1":{before.version}' in info.properties["datalake.inputs"]
    # The other one of the file takes it along.
    delete(lake, "g1", where="episode_index = 1")
    assert len(bytes_of_videos(open_episodes(lake, "g1"))) == 2
    assert_frames(open_episodes(lake, "g1"), [2, 4])
    assert_frames(open_episodes(lake, "g1", before.version), range(5))


def test_deletion_is_undone(lake: Lake) -> None:
    before = open_episodes(lake, "g1")
    delete(lake, "g1", where="TRUE")
    emptied = open_episodes(lake, "g1")
    assert emptied.index.starts.tolist() == [0]
    assert emptied.videos.count_rows() == 0
    change = restore(lake, "g1", before.version)
    assert_frames(open_episodes(lake, "g1"), range(5))
    assert bytes_of_videos(open_episodes(lake, "g1")) == bytes_of_videos(before)
    assert change.version > emptied.version


def test_a_dry_run_writes_nothing(lake: Lake) -> None:
    before = open_episodes(lake, "g1")
    acts: list[Callable[[], Any]] = [
        lambda: delete(lake, "g1", where="success", dry_run=True),
        lambda: drop_feature(lake, "g1", [WRIST, CAMERA], dry_run=True),
        lambda: trim(lake, "g1", head=2, dry_run=True),
        lambda: set_task(lake, "g1", {TASKS[0]: "x"}, dry_run=True),
        lambda: split(lake, "g1", Values("task"), dry_run=True)[0],
        lambda: merge(lake, ["g1"], "g2", dry_run=True),
    ]
    for act in acts:
        change = act()
        assert change.dry_run
        assert not change.is_made
        assert change.num_episodes
    for table in (before.episodes, before.frames, before.videos):
        assert table.at().version == table.version
    assert episode_sets(lake) == ["g1"]


def test_what_cannot_be_deleted_is_told(memory: Lake) -> None:
    write_robots(memory, image=False, video=False)
    with pytest.raises(InputError, match="datalake rm g1"):
        delete(memory, "g1")
    with pytest.raises(NotFoundError, match="robots/000001"):
        delete(memory, "g1", episode_ids=["robots/00001"])
    with pytest.raises(NotFoundError, match="g1"):
        delete(memory, "g11", where="TRUE")
    with pytest.raises(SchemaError, match="length"):
        delete(memory, "g1", where="lengt > 1")
    change = delete(memory, "g1", where="length > 1000")
    assert (change.num_episodes, change.is_made) == (0, False)


# Trimming ---------------------------------------------------------------------------------------


def test_idle_ends_are_trimmed(lake_and_format: tuple[Lake, str]) -> None:
    lake, kept_as = lake_and_format
    before = write_robots(lake, lengths=(40, 11, 30, 25), idle=(6, 4), format=kept_as)
    videos = before.videos.version
    change = trim(lake, "g1", idle=True, where="episode_index != 2")
    after = open_episodes(lake, "g1")
    assert change.num_episodes == 2
    assert change.details["num_without_motion"] == 1
    cut = {each["episode_id"]: each for each in change.details["episodes"]}
    assert {(each["head"], each["tail"]) for each in cut.values()} == {(5, 4)}
    # Those that lost frames come last, and the others are as they were.
    assert after.index.episode_ids.to_pylist() == [f"robots/{n:06d}" for n in (1, 2, 0, 3)]
    assert after.videos.version == videos
    old, new = episodes_of(before), episodes_of(after)
    for episode_id in ("robots/000001", "robots/000002"):
        assert new[episode_id] == old[episode_id]
        assert frames_of(after, episode_id).equals(frames_of(before, episode_id))
    for episode_id in cut:
        frames, whole = frames_of(after, episode_id), frames_of(before, episode_id)
        length = whole.num_rows - 9
        assert frames["frame_index"].to_pylist() == list(range(length))
        assert frames["timestamp"].to_numpy() == pytest.approx(np.arange(length) / FPS, abs=1e-6)
        rest = [name for name in frames.column_names if name not in ("frame_index", "timestamp")]
        assert frames.select(rest).equals(whole.slice(5, length).select(rest))
        span, was = new[episode_id]["videos"][0], old[episode_id]["videos"][0]
        assert span["video_id"] == was["video_id"]
        assert span["from_s"] == pytest.approx(was["from_s"] + 0.5)
        assert span["to_s"] == pytest.approx(was["to_s"] - 0.4)
        assert new[episode_id]["length"] == length
        assert new[episode_id]["duration_s"] == length / FPS
        assert (new[episode_id]["idle_head"], new[episode_id]["idle_tail"]) == (0, 0)
        stats = {each["feature"]: each for each in new[episode_id]["stats"]}
        (expected,) = summarise(frames, [before.feature("action")])
        assert FeatureStats.from_row(stats["action"]) == expected
    assert not trim(lake, "g1", idle=True, where="episode_index != 2").is_made


def test_frames_are_cut_by_number(lake: Lake) -> None:
    before = open_episodes(lake, "g1")
    trim(lake, "g1", head=2, tail=1, where="episode_index IN (1, 2)")
    trim(lake, "g1", ranges={"robots/000004": (0, 5), "robots/000000": (3, 12)})
    after = open_episodes(lake, "g1")
    # The third stands where it stood; then those that were cut, the last ones last.
    assert after.index.episode_ids.to_pylist() == [f"robots/{n:06d}" for n in (3, 1, 2, 0, 4)]
    cuts = {1: (2, 6), 2: (2, 19), 0: (3, 12), 4: (0, 5), 3: (0, 9)}
    for number, (start, stop) in cuts.items():
        episode_id = f"robots/{number:06d}"
        frames, whole = frames_of(after, episode_id), frames_of(before, episode_id)
        assert frames["note"].equals(whole["note"].slice(start, stop - start))
        assert frames["timestamp"][0].as_py() == 0
        span = episodes_of(after)[episode_id]["videos"][0]
        was = episodes_of(before)[episode_id]["videos"][0]["from_s"]
        times = whole["timestamp"].to_pylist()
        assert span["from_s"] == was + times[start]
        if stop < len(times):
            assert span["to_s"] == was + times[stop]
    assert list(validate(lake, "g1")) == []


def test_what_cannot_be_trimmed_is_told(memory: Lake) -> None:
    write_robots(memory, image=False, video=False)
    for wrong in ({}, {"idle": True, "head": 1}, {"head": -1}, {"keep": 1, "head": 2}):
        with pytest.raises(InputError):
            trim(memory, "g1", **wrong)
    with pytest.raises(InputError, match="robots/000001"):
        trim(memory, "g1", head=4, tail=3)
    for span in ((0, 13), (5, 5), (-1, 3)):
        with pytest.raises(InputError, match="robots/000000"):
            trim(memory, "g1", ranges={"robots/000000": span})
    with pytest.raises(InputError, match="ranges"):
        trim(memory, "g1", ranges={"robots/000000": (0, 3)}, where="TRUE")
    assert_frames(open_episodes(memory, "g1"), range(5), image=False)


# Tasks and features -----------------------------------------------------------------------------


def test_a_task_gets_another_text(lake: Lake) -> None:
    before = open_episodes(lake, "g1")
    change = set_task(lake, "g1", {TASKS[0]: "take the cube ✓"})
    after = open_episodes(lake, "g1")
    assert change.num_episodes == 3
    # Neither frames nor videos have another version.
    assert (after.frames.version, after.videos.version) == (
        before.frames.version,
        before.videos.version,
    )
    for row in episodes_of(after).values():
        changed = row["episode_index"] % 2 == 0
        text = "take the cube ✓" if changed else TASKS[1]
        assert row["task"] == row["tasks"][0]["task"] == text
        assert row["domain"] == f"robots/{row['embodiment']}/{text}"
    assert not set_task(lake, "g1", {TASKS[1]: TASKS[1]}).is_made
    change = set_task(lake, "g1", "wait", episode_ids=["robots/000003"])
    assert change.num_episodes == 1
    rows = episodes_of(open_episodes(lake, "g1"))
    assert [row["task"] for row in rows.values()].count("wait") == 1
    assert list(rows) == before.index.episode_ids.to_pylist()


def test_tasks_that_are_not_there_are_told(memory: Lake) -> None:
    write_robots(memory, image=False, video=False)
    with pytest.raises(NotFoundError, match=TASKS[0]):
        set_task(memory, "g1", {"pick a cube": "x"})
    for empty in ({TASKS[0]: " "}, {}):
        with pytest.raises(InputError):
            set_task(memory, "g1", empty)
    with pytest.raises(InputError, match="TRUE"):
        set_task(memory, "g1", "the same for all")
    assert set_task(memory, "g1", "the same for all", where="TRUE").num_episodes == 5


@pytest.mark.parametrize("old", ["observation.state", WRIST, CAMERA])
def test_a_feature_gets_another_name(lake: Lake, old: str) -> None:
    before = recomputed(lake)
    new = "observation.images.hand" if old == WRIST else "renamed.ünï"
    rename_feature(lake, "g1", old, new)
    after = open_episodes(lake, "g1")
    names = [new if feature.name == old else feature.name for feature in before.features]
    assert [feature.name for feature in after.features] == names
    assert after.videos.version == before.videos.version
    if old == CAMERA:
        assert after.frames.version == before.frames.version
    else:
        assert (
            after.frames.scan([column_of(new)])
            .read_all()[0]
            .equals(before.frames.scan([column_of(old)]).read_all()[0])
        )
    for row in episodes_of(after).values():
        assert [feature["name"] for feature in row["features"]] == names
        assert old not in [each["feature"] for each in [*row["stats"], *row["videos"]]]
    assert list(validate(lake, "g1")) == []


def recomputed(lake: Lake) -> EpisodeSet:
    recompute_stats(lake, "g1", pictures=True)
    return open_episodes(lake, "g1")


def test_names_that_cannot_be_given_are_told(memory: Lake) -> None:
    write_robots(memory, image=False, video=False)
    with pytest.raises(NotFoundError, match=r"observation\.state"):
        rename_feature(memory, "g1", "observation.stat", "x")
    for taken in ("action", "note", "timestamp", "episode_index"):
        with pytest.raises(ExistsError):
            rename_feature(memory, "g1", "action", taken)
    for bad in ("", "a/b", "a`b", ".a"):
        with pytest.raises(InputError):
            rename_feature(memory, "g1", "action", bad)
    with pytest.raises(NotFoundError):
        drop_feature(memory, "g1", ["action", "actio"])
    assert open_episodes(memory, "g1").features == robot_features(image=False, video=False)


def test_features_are_dropped(lake: Lake) -> None:
    before = recomputed(lake)
    change = drop_feature(lake, "g1", CAMERA)
    after = open_episodes(lake, "g1")
    assert after.frames.version == before.frames.version
    assert (change.num_videos, after.videos.count_rows()) == (4, 0)
    assert all(row["videos"] == [] for row in episodes_of(after).values())
    drop_feature(lake, "g1", [WRIST, "note"])
    after = open_episodes(lake, "g1")
    names = [feature.name for feature in robot_features(image=False, video=False)]
    names.remove("note")
    assert [feature.name for feature in after.features] == names
    kept = ["episode_id", "frame_index", "timestamp", "task_index", *map(column_of, names)]
    assert after.frames.scan().read_all().equals(before.frames.scan(kept).read_all())
    for row in episodes_of(after).values():
        assert [feature["name"] for feature in row["features"]] == names
        assert {each["feature"] for each in row["stats"]} == set(names)
    restore(lake, "g1", before.version)
    assert bytes_of_videos(open_episodes(lake, "g1")) == bytes_of_videos(before)
    assert_frames(open_episodes(lake, "g1"), range(5))


# Statistics and validation ----------------------------------------------------------------------


def test_statistics_are_measured_again(lake: Lake) -> None:
    before = open_episodes(lake, "g1")
    change = recompute_stats(lake, "g1", where="episode_index >= 3")
    after = open_episodes(lake, "g1")
    assert (change.num_episodes, change.num_frames) == (2, 24)
    assert (after.frames.version, after.videos.version) == (
        before.frames.version,
        before.videos.version,
    )
    for row in episodes_of(after).values():
        if row["episode_index"] < 3:
            assert row == episodes_of(before)[row["episode_id"]]
            continue
        frames = frames_of(after, row["episode_id"])
        state = np.array(frames["observation/state"].to_pylist())
        stats = {each["feature"]: FeatureStats.from_row(each) for each in row["stats"]}
        assert list(stats) == ["observation.state", "action", "next.reward", "next.done"]
        assert stats["observation.state"].mean == pytest.approx(state.mean(axis=0))
        assert stats["observation.state"].q99 == pytest.approx(np.quantile(state, 0.99, axis=0))
        assert stats["next.done"].max.tolist() == [1]
        assert row["total_reward"] == pytest.approx(sum(frames["next/reward"].to_pylist()))
        assert row["max_timestamp_error_s"] < 1e-6
    recompute_stats(lake, "g1", pictures=True)
    row = episodes_of(open_episodes(lake, "g1"))["robots/000001"]
    stats = {each["feature"]: FeatureStats.from_row(each) for each in row["stats"]}
    assert stats[WRIST].mean == pytest.approx([16 / 255, 15 / 255, 128 / 255])


def test_rewards_that_are_no_numbers_are_measured_too(memory: Lake) -> None:
    held = write_robots(memory, lengths=(4,), image=False, video=False)
    frames = held.frames.scan().read_all()
    rewards = pa.array([np.inf, -np.inf, 1, 2], pa.float32())
    at = frames.schema.get_field_index("next/reward")
    frames = frames.set_column(at, frames.schema.field(at), rewards)
    held.publish([], frames=held.frames.overwrite(frames), lineage=Lineage("test"))
    recompute_stats(memory, "g1")
    assert np.isnan(episodes_of(open_episodes(memory, "g1"))["robots/000000"]["total_reward"])


def test_a_sound_set_has_no_findings(lake: Lake) -> None:
    recomputed(lake)
    assert list(validate(lake, "g1")) == []


def test_faults_are_found_in_the_set(memory: Lake) -> None:
    write_robots(memory)
    set_task(memory, "g1", "x", episode_ids=["robots/000002"])
    g1 = open_episodes(memory, "g1")
    rows = g1.episodes.scan().read_all().to_pylist()
    rows[2]["tasks"][0]["task"] = ""
    rows[3]["videos"][0]["video_id"] = "robots/gone"
    rows[4]["videos"][0]["to_s"] = 9.0
    from datalake.lake import Lineage

    g1.rewrite(pa.Table.from_pylist(rows, g1.episodes.schema), lineage=Lineage("test"))
    found = {(each.episode_id[-1], str(each.reason)) for each in validate(memory, "g1")}
    assert ("2", "no_task") in found
    assert ("3", "video_missing") in found
    assert {number for number, _ in found} <= {"2", "3", "4"}
    assert list(validate(memory, "g1", where="episode_index < 2")) == []


# Merging ----------------------------------------------------------------------------------------


def test_sets_are_merged(lake_and_format: tuple[Lake, str]) -> None:
    lake, kept_as = lake_and_format
    g1 = write_robots(lake, format=kept_as)
    g2 = write_robots(lake, "g2", source="others", lengths=(3, 4), format=kept_as)
    change = merge(lake, ["g2", "g1"], "all")
    both = open_episodes(lake, "all")
    assert both.episodes.format == g1.episodes.format
    assert both.features == g1.features
    assert both.index.episode_ids.to_pylist() == [
        *g2.index.episode_ids.to_pylist(),
        *g1.index.episode_ids.to_pylist(),
    ]
    frames = [g2.frames.scan().read_all(), g1.frames.scan().read_all()]
    assert both.frames.scan().read_all().equals(pa.concat_tables(frames))
    assert bytes_of_videos(both) == bytes_of_videos(g1) | bytes_of_videos(g2)
    assert episodes_of(both) == episodes_of(g2) | episodes_of(g1)
    assert (change.num_episodes, change.num_frames, change.num_videos) == (7, 70, 5)
    assert change.version_before is None
    assert list(validate(lake, "all")) == []
    # Into a set that is there, and a third time with its name before the ids.
    with pytest.raises(ExistsError, match=r"robots/000000 in all and g1.*2 more"):
        merge(lake, ["g1"], "all")
    merge(lake, ["g1"], "all", prefix=True)
    grown = open_episodes(lake, "all")
    assert grown.index.episode_ids.to_pylist()[7] == "g1/robots/000000"
    assert frames_of(grown, "g1/robots/000004")["episode_id"][0].as_py() == "g1/robots/000004"
    assert len(bytes_of_videos(grown)) == 9
    assert list(validate(lake, "all")) == []


def test_parts_of_one_source_share_its_files(memory: Lake) -> None:
    before = write_robots(memory)
    parts = Ranges({"a": [(0, 1), (3, 5)], "b": [(1, 3)]})
    split(memory, "g1", parts, into={"a": "a", "b": "b"})
    # Episodes 0 and 1 are in one file, so each part has it.
    assert [open_episodes(memory, name).videos.count_rows() for name in "ab"] == [3, 2]
    merge(memory, ["a", "b"], "again")
    again = open_episodes(memory, "again")
    assert bytes_of_videos(again) == bytes_of_videos(before)
    assert_frames(again, [0, 3, 4, 1, 2])


def test_other_features_are_merged_on_request_alone(lake_and_format: tuple[Lake, str]) -> None:
    lake, kept_as = lake_and_format
    g1 = write_robots(lake, format=kept_as, image=False)
    write_robots(lake, "g2", source="b", format=kept_as, video=False, lengths=(3, 4))
    with pytest.raises(SchemaError, match=rf"{CAMERA} \(not in g2\).*{WRIST} \(only in g2\)"):
        merge(lake, ["g1", "g2"], "all")
    assert episode_sets(lake) == ["g1", "g2"]
    # Into one that is there, whose frames get a column.
    merge(lake, ["g2"], "g1", union=True)
    wide = open_episodes(lake, "g1")
    assert {feature.name for feature in wide.features} == {f.name for f in robot_features()}
    assert wide.frames.schema.names[-1] == column_of(WRIST)
    assert frames_of(wide, "robots/000000")[column_of(WRIST)].null_count == LENGTHS[0]
    assert (
        frames_of(wide, "b/000001")
        .select(g1.frames.schema.names)
        .equals(robot_frames(1, 4, source="b", image=False))
    )
    assert frames_of(wide, "b/000001")[column_of(WRIST)].null_count == 0
    for row in episodes_of(wide).values():
        own = {feature["name"] for feature in row["features"]}
        assert (CAMERA in own) == (row["source"] == "robots")
        assert (WRIST in own) == (row["source"] == "b")
    recompute_stats(lake, "g1")
    assert list(validate(lake, "g1")) == []


def test_one_column_holds_one_kind(memory: Lake) -> None:
    write_robots(memory, video=False)
    write_robots(memory, "g2", source="b", dim=4, video=False)
    write_robots(memory, "g3", source="c", fps=20.0, video=False)
    with pytest.raises(SchemaError, match=r"action \(shape \(3,\) in g1, \(4,\) in g2"):
        merge(memory, ["g1", "g2"], "all", union=True)
    with pytest.raises(SchemaError, match="10 in g1, 20 in g3"):
        merge(memory, ["g1", "g3"], "all")
    assert episode_sets(memory) == ["g1", "g2", "g3"]
    merge(memory, ["g1", "g3"], "all", union=True)
    for wrong in ([], ["g1", "g1"], ["all"]):
        with pytest.raises(InputError):
            merge(memory, wrong, "all")
    with pytest.raises(NotFoundError):
        merge(memory, ["g1", "g4"], "more")


def test_two_files_of_one_id_are_told(memory: Lake) -> None:
    write_robots(memory)
    write_robots(memory, "g2", lengths=(5, 6, 7))
    delete(memory, "g1", where="episode_index < 3")
    delete(memory, "g2", where="episode_index > 1")
    split(memory, "g1", Ranges({"x": [(0, 1)]}), into={"x": "x"})
    # Episode 3 of g1 is in file 2; no other set has an episode 3, and g2 has file 0.
    merge(memory, ["x", "g2"], "fine")
    write_robots(memory, "g3", lengths=(5, 6, 7, 8, 9, 10))
    delete(memory, "g3", where="episode_index < 5")
    split(memory, "g1", Ranges({"y": [(1, 2)]}), into={"y": "y"})
    g3 = open_episodes(memory, "g3")
    row = g3.videos.scan().read_all().to_pylist()[0]
    row["video_id"] = f"robots/videos/{CAMERA}/chunk-000/file-003"
    from datalake.lake import Lineage

    rows = g3.episodes.scan().read_all().to_pylist()
    rows[0]["videos"][0]["video_id"] = row["video_id"]
    videos = g3.videos.overwrite(pa.Table.from_pylist([row], g3.videos.schema))
    g3.rewrite(
        pa.Table.from_pylist(rows, g3.episodes.schema), videos=videos, lineage=Lineage("test")
    )
    with pytest.raises(InputError, match="file-003"):
        merge(memory, ["y", "g3"], "odd")
    assert "odd" not in episode_sets(memory)
    assert merge(memory, ["y", "g3"], "odd", prefix=True).num_videos == 2


def test_a_merge_that_fails_leaves_no_set(memory: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    write_robots(memory)
    tables = memory.tables()

    def fails(*_: object, **__: object) -> None:
        raise ConflictError("somebody else was first")

    monkeypatch.setattr(EpisodeSet, "to_write", fails)
    with pytest.raises(ConflictError):
        merge(memory, ["g1"], "all")
    assert memory.tables() == tables


@pytest.mark.parametrize("act", ["merge", "split"])
def test_a_set_that_another_writer_fills_meanwhile_stays(
    memory: Lake, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    acts: dict[str, Callable[[], Any]] = {
        "merge": lambda: merge(memory, ["g1"], "all"),
        "split": lambda: split(memory, "g1", Ranges({"x": [(0, 2)]}), into={"x": "all"}),
    }
    write_robots(memory)
    write_robots(memory, "other", source="other", lengths=[3])
    publish = Copier.publish

    def overtaken(copier: Copier, lineage: Lineage) -> EpisodeSet:
        monkeypatch.undo()
        merge(memory, ["other"], "all", union=True)
        return publish(copier, lineage)

    monkeypatch.setattr(Copier, "publish", overtaken)
    with pytest.raises(ConflictError):
        acts[act]()
    assert open_episodes(memory, "all").index.episode_ids.to_pylist() == ["other/000000"]


# Splitting --------------------------------------------------------------------------------------


def splits_of(of: EpisodeSet) -> list[str | None]:
    return of.episodes.scan(["split"]).read_all()["split"].to_pylist()


def test_the_column_is_written(lake: Lake) -> None:
    before = open_episodes(lake, "g1")
    changes = split(lake, "g1", Fractions({"train": 0.6, "val": 0.2, "test": 0.2}, seed=3))
    after = open_episodes(lake, "g1")
    assert {change.details["split"]: change.num_episodes for change in changes} == {
        "train": 3,
        "val": 1,
        "test": 1,
    }
    assert (after.frames.version, after.videos.version) == (
        before.frames.version,
        before.videos.version,
    )
    # By the rule as it is written down.
    ids = before.index.episode_ids.to_pylist()
    order = sorted(ids, key=lambda each: hashlib.md5(f"3/{each}".encode()).digest()[:8])
    expected = dict(zip(order, ["train"] * 3 + ["val"] + ["test"], strict=True))
    assert dict(zip(ids, splits_of(after), strict=True)) == expected
    split(lake, "g1", Ranges({"a": [(0, 2), (4, 5)]}))
    assert splits_of(open_episodes(lake, "g1")) == ["a", "a", None, None, "a"]
    split(lake, "g1", Values("embodiment"))
    assert splits_of(open_episodes(lake, "g1"))[:2] == ["arm", "humanoid"]


def test_sets_of_their_own_are_written(lake: Lake) -> None:
    before = open_episodes(lake, "g1")
    changes = split(lake, "g1", Values("task"), into={TASKS[0]: "pick", TASKS[1]: "open"})
    assert episode_sets(lake) == ["g1", "open", "pick"]
    assert before.episodes.at().version == before.version
    assert_frames(open_episodes(lake, "pick"), [0, 2, 4])
    assert_frames(open_episodes(lake, "open"), [1, 3])
    assert {change.name: change.num_frames for change in changes} == {"pick": 47, "open": 16}
    for name in ("pick", "open"):
        assert list(validate(lake, name)) == []
    with pytest.raises(ExistsError):
        split(lake, "g1", Ranges({"a": [(0, 1)]}), into={"a": "pick"})


def test_the_split_does_not_depend_on_the_order(memory: Lake) -> None:
    write_robots(memory, lengths=[2] * 40, image=False, video=False)
    rule = Fractions({"train": 0.8, "val": 0.2}, seed=11)
    split(memory, "g1", rule)
    first = episodes_of(open_episodes(memory, "g1"))
    trim(memory, "g1", head=1, where="episode_index < 7")
    split(memory, "g1", rule)
    again = episodes_of(open_episodes(memory, "g1"))
    assert {each: row["split"] for each, row in again.items()} == {
        each: row["split"] for each, row in first.items()
    }


def test_groups_stay_together(memory: Lake) -> None:
    write_robots(memory, lengths=[2] * 20, embodiments="abcdefg", image=False, video=False)
    split(memory, "g1", Fractions({"train": 0.7, "val": 0.3}, together="embodiment"))
    rows = episodes_of(open_episodes(memory, "g1")).values()
    pairs = {(row["embodiment"], row["split"]) for row in rows}
    assert len(pairs) == 7
    assert sum(row["split"] == "train" for row in rows) in range(11, 18)


def test_rules_that_cannot_be_followed_are_told(memory: Lake) -> None:
    write_robots(memory, image=False, video=False)
    for parts in ({}, {"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": 0.6, "b": 0.6}):
        with pytest.raises(InputError):
            split(memory, "g1", Fractions(parts))
    for ranges in ({"a": [(0, 6)]}, {"a": [(0, 2)], "b": [(1, 3)]}, {"a": [(3, 2)]}):
        with pytest.raises(InputError):
            split(memory, "g1", Ranges(ranges))
    for rule in (Values("tsk"), Values("stats"), Fractions({"a": 1}, together="tsk")):
        with pytest.raises(SchemaError):
            split(memory, "g1", rule)
    for into in ({}, {TASKS[0]: "x"}, {TASKS[0]: "x", TASKS[1]: "x"}, {"a": "x", "b": "y"}):
        with pytest.raises(InputError):
            split(memory, "g1", Values("task"), into=into)
    with pytest.raises(ExistsError):
        split(memory, "g1", Values("task"), into={TASKS[0]: "x", TASKS[1]: "g1"})
    assert episode_sets(memory) == ["g1"]
    assert splits_of(open_episodes(memory, "g1")) == [None] * 5


@settings(max_examples=200, deadline=None)
@given(
    number=st.integers(0, 2000),
    weights=st.lists(st.integers(1, 1000), min_size=1, max_size=6),
)
def test_counts_are_as_near_as_can_be(number: int, weights: list[int]) -> None:
    fractions = [weight / sum(weights) for weight in weights]
    counts = _largest_remainders(number, fractions)
    assert sum(counts) == number
    shares = [number * weight / sum(weights) for weight in weights]
    assert all(abs(count - share) < 1 for count, share in zip(counts, shares, strict=True))


def test_exact_fractions_get_exact_counts() -> None:
    assert _largest_remainders(100, [0.29, 0.57, 0.14]) == [29, 57, 14]
    assert _largest_remainders(10, [1 / 3, 1 / 3, 1 / 3]) == [4, 3, 3]
    assert _largest_remainders(1, [0.5, 0.5]) == [1, 0]


# Writers that meet ------------------------------------------------------------------------------


def test_of_two_operations_the_later_one_is_refused(
    memory: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_robots(memory, image=False, video=False)
    to_write = EpisodeSet.to_write

    def overtaken(self: EpisodeSet) -> EpisodeSet:
        monkeypatch.setattr(EpisodeSet, "to_write", to_write)
        set_task(memory, "g1", {TASKS[0]: "x"})
        return to_write(self)

    for act in (
        lambda: delete(memory, "g1", where="length > 9"),
        lambda: trim(memory, "g1", head=1),
        lambda: drop_feature(memory, "g1", "action"),
        lambda: rename_feature(memory, "g1", "action", "a"),
        lambda: recompute_stats(memory, "g1"),
        lambda: split(memory, "g1", Values("task")),
    ):
        before = open_episodes(memory, "g1")
        set_task(memory, "g1", TASKS[0], where="TRUE")
        monkeypatch.setattr(EpisodeSet, "to_write", overtaken)
        with pytest.raises(ConflictError):
            act()
        assert open_episodes(memory, "g1").features == before.features
        assert_frames(open_episodes(memory, "g1"), range(5), image=False)


# Annotations ------------------------------------------------------------------------------------


def annotated(lake: Lake, name: str, scale: float = 1.0) -> pa.Field:
    """Give a set's episodes the column `vector`: number and scale; metadata name the scale."""
    episodes = lake[f"{name}.episodes"]
    numbers = episodes.scan(["episode_index"]).read_all()["episode_index"].to_pylist()
    field = pa.field("vector", pa.list_(pa.float32(), 2), metadata={"by": f"scale {scale}"})
    values = pa.array([[number, scale] for number in numbers], field.type)
    batch = pa.record_batch([values], schema=pa.schema([field]))
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    episodes.add_columns(reader, properties=dict(episodes.info().properties))
    return field


def vectors_of(lake: Lake, name: str) -> dict[str, list[float] | None]:
    rows = lake[f"{name}.episodes"].scan(["episode_id", "vector"]).read_all()
    return dict(zip(*(rows[key].to_pylist() for key in ("episode_id", "vector")), strict=True))


def test_annotations_stay_with_their_episodes(lake: Lake) -> None:
    annotated(lake, "g1")
    delete(lake, "g1", where="episode_index = 1")
    set_task(lake, "g1", "sweep", where="TRUE")
    trim(lake, "g1", ranges={"robots/000002": (3, 9)})
    # Trimming moves an episode to the end; what it was annotated by is not there any more.
    assert vectors_of(lake, "g1") == {
        "robots/000000": [0, 1], "robots/000003": [3, 1], "robots/000004": [4, 1],
        "robots/000002": None,
    }  # fmt: skip
    split(lake, "g1", Ranges({"a": [(0, 2)], "b": [(2, 4)]}), into={"a": "g1a", "b": "g1b"})
    assert vectors_of(lake, "g1a") == {"robots/000000": [0, 1], "robots/000003": [3, 1]}
    assert lake["g1a.episodes"].schema.field("vector").metadata == {b"by": b"scale 1.0"}
    change = merge(lake, ["g1a", "g1b"], "again", prefix=True)
    assert vectors_of(lake, "again")["g1b/robots/000004"] == [4, 1]
    assert len(vectors_of(lake, "again")) == 4
    assert change.details["annotations_left"] == []
    assert open_episodes(lake, "again").index.lengths.sum() == 12 + 9 + 15 + 6


def test_a_merge_never_mixes_annotations_of_two_kinds(lake: Lake) -> None:
    write_robots(lake, "g2", source="b", format=lake["g1.episodes"].format)
    write_robots(lake, "g3", source="c", format=lake["g1.episodes"].format)
    annotated(lake, "g1")
    annotated(lake, "g2", scale=2.0)
    change = merge(lake, ["g1", "g2", "g3"], "all")
    found = vectors_of(lake, "all")
    assert [found[f"{source}/000003"] for source in ("robots", "b", "c")] == [[3, 1], None, None]
    assert change.details["annotations_left"] == ["vector"]
    # A set that is there has the columns that it has.
    assert merge(lake, ["g2"], "g3").details["annotations_left"] == ["vector"]
    assert "vector" not in lake["g3.episodes"].schema.names
