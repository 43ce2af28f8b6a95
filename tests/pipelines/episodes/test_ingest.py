"""What an ingest does to an episode set: once, again, and after the dataset has changed."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from datalake.episodes import EpisodeSet, open_episodes
from datalake.episodes.statistics import summarise
from datalake.errors import ExistsError, InputError, SchemaError, StoppedError, StoreError
from datalake.lake import Lake, Lineage, open_lake
from datalake.pipelines import ingest
from datalake.pipelines.episodes import EpisodeReport
from datalake.recording import Feature
from tests.pipelines.episodes.corpora import (
    CAMERA,
    FEATURES,
    OpenedToy,
    ToyCorpus,
    contents,
    frames_of,
    refused_episodes,
    toy,
    video,
)

DEPTH = Feature("observation.depth", "float64", (2,), ("near", "far"))


def run(lake: Lake, corpus: ToyCorpus, name: str = "g1", **options: Any) -> EpisodeReport:
    options = {"connector": "toy", "executor": "local", **options}
    report = ingest(lake, corpus.root, name, **options)
    assert isinstance(report, EpisodeReport)
    return report


def ids(episode_set: EpisodeSet) -> list[str]:
    return [str(id_) for id_ in episode_set.index.episode_ids.to_pylist()]


@pytest.fixture(params=["memory", "lance", "delta"])
def any_lake(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Lake, str]:
    if request.param == "memory":
        return open_lake(f"memory://{tmp_path.name}"), "lance"
    return open_lake(tmp_path / "lake"), request.param


def test_every_number_and_byte_arrives(any_lake: tuple[Lake, str], tmp_path: Path) -> None:
    lake, kept_as = any_lake
    corpus = toy(tmp_path / "toys")

    report = run(lake, corpus, format=kept_as)

    assert (report.num_added, report.num_frames, report.num_videos_added) == (4, 4 + 5 + 6 + 4, 4)
    assert report.exit_code == 0
    g1 = open_episodes(lake, "g1")
    assert ids(g1) == [f"toys/{number:06d}" for number in range(4)]
    frames = g1.frames.scan().read_all()
    for number, start in enumerate(g1.index.starts[:-1]):
        length = g1.index.lengths[number]
        mine = frames.slice(start, length)
        said = frames_of(number, length, number, FEATURES)
        assert mine["episode_id"].unique().to_pylist() == [f"toys/{number:06d}"]
        assert mine["frame_index"].to_pylist() == list(range(length))
        assert mine["task_index"].to_pylist() == said["task_index"].to_pylist()
        # Wider, and the same numbers.
        assert mine["timestamp"].to_pylist() == said["timestamp"].to_pylist()
        for feature in FEATURES[:3]:
            assert mine[feature.column].to_pylist() == said[feature.name].to_pylist()
    videos = {row["video_id"]: row for row in g1.videos.scan().read_all().to_pylist()}
    for number, length in enumerate(g1.index.lengths):
        row = videos[f"toys/videos/{number:06d}"]
        assert row["video"] == video(length, number)
        assert (row["num_frames"], row["num_bytes"]) == (length, len(row["video"]))
        assert (row["codec"], row["feature"]) == ("h264", CAMERA)


def test_the_episode_row_says_what_is_known(lake: Lake, tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 2)
    run(lake, corpus)
    row = open_episodes(lake, "g1").episodes.scan().read_all().to_pylist()[1]

    frames = frames_of(1, 5, 1, FEATURES)
    assert row["task"] == "task 1"
    assert row["tasks"] == [{"task_index": 1, "task": "task 1"}]
    assert (row["embodiment"], row["domain"]) == ("toy arm", "toys/toy arm/task 1")
    assert (row["length"], row["fps"], row["duration_s"]) == (5, 10.0, 0.5)
    assert row["videos"] == [
        {"feature": CAMERA, "video_id": "toys/videos/000001", "from_s": 0.0, "to_s": 0.5}
    ]
    assert [feature["name"] for feature in row["features"]] == [f.name for f in FEATURES]
    assert row["total_reward"] == pytest.approx(
        np.sum(frames["next.reward"].to_numpy(), dtype=float)
    )
    assert row["success"] is None
    assert row["max_timestamp_error_s"] < 1e-7
    assert row["idle_head"] + row["idle_tail"] <= 5
    assert (json.loads(row["metadata"]), row["origin"]) == ({"by": "ada"}, "toy.json:1")
    stats = {stats["feature"]: stats for stats in row["stats"]}
    [expected] = summarise(frames, FEATURES[:1])
    assert stats["observation.state"] == expected.as_row()
    # Of pictures what the source says, flat; what it does not say is null.
    assert stats[CAMERA]["mean"] == [0.5] * 3
    assert (stats[CAMERA]["count"], stats[CAMERA]["q01"]) == (5, None)


def test_again_nothing_happens(any_lake: tuple[Lake, str], tmp_path: Path) -> None:
    lake, kept_as = any_lake
    corpus = toy(tmp_path / "toys", 2)
    run(lake, corpus, format=kept_as)
    before = open_episodes(lake, "g1")

    report = run(lake, corpus)

    assert (report.num_unchanged, report.num_out, report.num_bytes) == (2, 0, 0)
    assert open_episodes(lake, "g1").version == before.version == report.version_after


def test_what_is_new_comes_last_and_what_changed_is_replaced(
    any_lake: tuple[Lake, str], tmp_path: Path
) -> None:
    lake, kept_as = any_lake
    corpus = toy(tmp_path / "toys")
    run(lake, corpus, format=kept_as)
    before = open_episodes(lake, "g1")
    old = contents(before)
    corpus.episodes[1] |= {"length": 7, "seed": 99}
    corpus.put("videos/000001.mp4", video(7, 99))
    corpus.episodes[2] |= {"task": "another task"}
    del corpus.episodes[3]
    corpus.episodes.append({**corpus.episodes[0], "number": 4})
    corpus.write()

    report = run(lake, corpus)

    assert (report.num_added, report.num_replaced) == (1, 2)
    assert (report.num_unchanged, report.num_vanished) == (1, 1)
    assert (report.num_videos_added, report.num_videos_held, report.num_videos_dropped) == (1, 2, 1)
    g1 = open_episodes(lake, "g1")
    assert ids(g1) == [f"toys/{number:06d}" for number in (0, 3, 1, 2, 4)]
    assert g1.index.lengths.tolist() == [4, 4, 7, 6, 4]
    frames = g1.frames.scan().read_all()
    mine = frames.slice(8, 7)
    assert mine["action"].to_pylist() == frames_of(1, 7, 99, FEATURES)["action"].to_pylist()
    episodes = g1.episodes.scan().read_all().to_pylist()
    assert episodes[3]["task"] == "another task"
    # A changed file is another row: whoever reads an older version sees the older file.
    [span] = episodes[2]["videos"]
    stored = {row["video_id"]: row["video"] for row in g1.videos.scan().read_all().to_pylist()}
    assert span["video_id"].startswith("toys/videos/000001@")
    assert stored[span["video_id"]] == video(7, 99)
    assert "toys/videos/000001" not in stored
    # What is gone from the dataset keeps its video.
    assert stored["toys/videos/000003"] == video(4, 3)
    assert contents(before.at(before.version)) == old


def test_bad_episodes_are_quarantined_whole_and_come_in_when_mended(
    any_lake: tuple[Lake, str], tmp_path: Path
) -> None:
    lake, kept_as = any_lake
    corpus = toy(tmp_path / "toys", 2)
    corpus.add(5, fault="nan")
    corpus.add(5, fault="unreadable")
    corpus.add(5, fault="refused")
    corpus.add(5, fault="type")
    corpus.add(5, video="videos/gone.mp4")
    corpus.add(5, video="videos/cut.mp4")
    corpus.put("videos/cut.mp4", video(5, 9)[:-200])
    corpus.add(5, video=None)
    corpus.episodes.append(dict(corpus.episodes[0]))
    corpus.write()

    report = run(lake, corpus, format=kept_as)

    assert report.num_added == 2
    assert report.num_refused == report.num_in_quarantine == 8
    assert report.exit_code == 3
    assert ids(open_episodes(lake, "g1")) == ["toys/000000", "toys/000001"]
    assert refused_episodes(lake) == [
        ("toys/000000", "duplicate_id", None, "toy.json:0"),
        ("toys/000002", "non_finite", 0, "toy.json:2"),
        ("toys/000003", "corrupt", 2, "toy.json:3"),
        ("toys/000004", "empty_metadata", None, "toy.json:4"),
        ("toys/000005", "shape_changed", None, "toy.json:5"),
        ("toys/000006", "video_missing", None, "videos/gone.mp4"),
        ("toys/000007", "video_truncated", None, "videos/cut"),
        ("toys/000008", "video_missing", None, "toy.json:8"),
    ]

    del corpus.episodes[-2:]
    for episode in corpus.episodes:
        episode["fault"] = None
    corpus.put("videos/cut.mp4", video(5, 9))
    corpus.write()
    report = run(lake, corpus)

    assert (report.num_added, report.num_in_quarantine, report.exit_code) == (5, 1, 3)
    assert [row[:2] for row in refused_episodes(lake)] == [("toys/000006", "video_missing")]
    assert ids(open_episodes(lake, "g1")) == [f"toys/{n:06d}" for n in (0, 1, 2, 3, 4, 5, 7)]


def test_a_good_episode_is_not_replaced_by_a_bad_one(lake: Lake, tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 2)
    run(lake, corpus)
    before = contents(open_episodes(lake, "g1"))
    corpus.episodes[1]["fault"] = "nan"
    corpus.write()
    report = run(lake, corpus)
    assert (report.num_replaced, report.refused) == (0, {"non_finite": 1})
    assert contents(open_episodes(lake, "g1")) == before


def test_an_error_that_nobody_foresaw_names_the_episode(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = toy(tmp_path / "toys", 2)

    def breaking(self: object, refs: object) -> object:
        raise OSError("the library does not know why")
        yield

    monkeypatch.setattr(OpenedToy, "read", breaking)
    with pytest.raises(StoreError, match=r"toy\.json:0.*does not know why"):
        run(lake, corpus)


def test_numbers_that_are_none_and_tasks_without_text_are_warned_of(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = ToyCorpus(tmp_path / "it's ünïcode ☃", features=FEATURES[:3])
    corpus.add(3, video=None, task="")
    corpus.write()

    def infinite(*args: Any) -> pa.Table:
        frames = frames_of(*args)
        rewards = pa.array(np.array([np.inf, -np.inf, np.nan], np.float32))
        at = frames.column_names.index("next.reward")
        return frames.set_column(at, "next.reward", rewards)

    monkeypatch.setattr("tests.pipelines.episodes.corpora.frames_of", infinite)
    report = run(lake, corpus)
    assert report.num_added == 1
    assert {"non_finite", "no_task"} <= report.warnings.keys()
    [row] = open_episodes(lake, "g1").episodes.scan().read_all().to_pylist()
    assert np.isnan(row["total_reward"])
    assert row["domain"] == "it's ünïcode ☃/toy arm"


def test_what_becomes_of_bad_episodes_is_a_choice(lake: Lake, tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 2)
    corpus.add(5, fault="nan")
    corpus.add(5, fault="refused")
    corpus.write()

    with pytest.raises(InputError, match="nothing is said of it") as caught:
        run(lake, corpus, on_error="raise")
    assert "empty_metadata" in str(caught.value)
    with pytest.raises(StoppedError, match=r"1 bad of 1 seen and 4 in all.*nothing was written"):
        run(lake, corpus, max_bad_fraction=0.1)
    assert lake.tables() == []
    with pytest.raises(StoppedError, match=r"2 bad of 4 seen.*what was published stays"):
        run(lake, corpus, max_bad_fraction=0.3)
    assert run(lake, corpus, name="g2", on_error="skip").num_refused == 2
    assert "g2.quarantine" not in lake
    corpus.episodes.pop()
    corpus.write()
    with pytest.raises(InputError, match="non_finite"):
        run(lake, corpus, name="g3", on_error="raise")


def test_a_dry_run_writes_nothing_and_says_what_would_be_done(lake: Lake, tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 3)
    corpus.add(5, video="videos/gone.mp4")
    corpus.write()

    report = run(lake, corpus, dry_run=True)

    assert lake.tables() == []
    assert (report.num_to_read, report.num_videos, report.refused["video_missing"]) == (3, 3, 1)
    assert "3 to read" in str(report)
    assert json.loads(json.dumps(report.as_dict()))["refused"] == {"video_missing": 1}


def test_without_video_state_and_action_are_usable(lake: Lake, tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 3)
    shutil.rmtree(corpus.root / "videos")
    report = run(lake, corpus)
    assert report.refused == {"video_missing": 3}
    assert "--without-video" in str(report)

    # Nothing was taken so far, so the set may become one without videos.
    report = run(lake, corpus, without_video=True)

    assert (report.num_added, report.num_in_quarantine) == (3, 0)
    g1 = open_episodes(lake, "g1")
    assert [feature.name for feature in g1.features] == [f.name for f in FEATURES[:3]]
    assert g1.videos.count_rows() == 0
    assert g1.episodes.scan(["videos"]).read_all().to_pylist() == [{"videos": []}] * 3


def test_videos_that_come_later_need_a_word(lake: Lake, tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 2)
    run(lake, corpus, without_video=True)
    with pytest.raises(SchemaError, match=f"{CAMERA} .only in the corpus.*--union"):
        run(lake, corpus)
    report = run(lake, corpus, union=True)
    assert (report.num_replaced, report.added_features) == (2, (CAMERA,))
    assert open_episodes(lake, "g1").videos.count_rows() == 2


def test_two_sources_share_a_set_where_their_features_agree(lake: Lake, tmp_path: Path) -> None:
    first, second = toy(tmp_path / "a", 2), toy(tmp_path / "b", 2)
    run(lake, first)
    report = run(lake, second)
    assert (report.num_added, report.num_replaced) == (2, 0)
    g1 = open_episodes(lake, "g1")
    assert ids(g1) == ["a/000000", "a/000001", "b/000000", "b/000001"]
    assert g1.videos.count_rows() == 4


def test_a_union_of_features_is_asked_for(any_lake: tuple[Lake, str], tmp_path: Path) -> None:
    lake, kept_as = any_lake
    first = toy(tmp_path / "a", 2)
    second = toy(tmp_path / "b", 2, features=(*FEATURES[:2], DEPTH))
    run(lake, first, format=kept_as)

    with pytest.raises(SchemaError) as caught:
        run(lake, second)
    for name in (DEPTH.name, "next.reward", CAMERA):
        assert name in str(caught.value)
    report = run(lake, second, union=True)

    assert report.added_features == (DEPTH.name,)
    assert report.unfilled_features == ("next.reward", CAMERA)
    g1 = open_episodes(lake, "g1")
    assert [feature.name for feature in g1.features] == [*(f.name for f in FEATURES), DEPTH.name]
    frames = g1.frames.scan().read_all()
    theirs = frames.slice(g1.index.starts[2], g1.index.lengths[2])
    assert theirs["next/reward"].null_count == len(theirs)
    assert frames.slice(0, 4)["observation/depth"].null_count == 4
    expected = frames_of(0, 4, 0, second.features)
    assert theirs["observation/depth"].to_pylist() == expected[DEPTH.name].to_pylist()
    # Neither needs the word again.
    assert run(lake, first).num_unchanged == run(lake, second).num_unchanged == 2


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (Feature("action", "float32", (7,)), r"its shape is \(3,\) in the set and \(7,\)"),
        (Feature("action", "float64", (3,), ("a", "b", "c")), "its type is float32 in the set"),
        (Feature("action", "float32", (1, 3)), "its shape"),
    ],
)
def test_one_column_cannot_hold_two_kinds(
    lake: Lake, tmp_path: Path, changed: Feature, says: str
) -> None:
    run(lake, toy(tmp_path / "a", 1))
    features = (FEATURES[0], changed, *FEATURES[2:])
    other = toy(tmp_path / "b", 1, features=features)
    with pytest.raises(SchemaError, match=says) as caught:
        run(lake, other, union=True)
    assert "rename" in str(caught.value)
    assert ids(open_episodes(lake, "g1")) == ["a/000000"]


def test_other_names_of_joints_are_a_difference(lake: Lake, tmp_path: Path) -> None:
    run(lake, toy(tmp_path / "a", 1))
    renamed = dataclasses.replace(FEATURES[1], names=("x", "y", "z"))
    other = toy(tmp_path / "b", 1, features=(FEATURES[0], renamed, *FEATURES[2:]))
    with pytest.raises(SchemaError, match="its names is a, b, c in the set and x, y, z"):
        run(lake, other)
    run(lake, other, union=True)
    rows = open_episodes(lake, "g1").episodes.scan(["features"]).read_all().column(0).to_pylist()
    assert [row[1]["names"] for row in rows] == [["a", "b", "c"], ["x", "y", "z"]]


def test_an_id_of_another_source_is_not_written_over(lake: Lake, tmp_path: Path) -> None:
    run(lake, toy(tmp_path / "a", 1))
    g1 = open_episodes(lake, "g1")
    rows = g1.episodes.scan().read_all()
    taken = rows.set_column(1, rows.schema.field(1), [["somebody else"]])
    g1.rewrite(taken, lineage=Lineage("test"))
    report = run(lake, toy(tmp_path / "a", 1))
    assert report.refused == {"duplicate_id": 1}


def test_videos_are_transcoded_on_request_alone(lake: Lake, tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 1)
    run(lake, corpus)
    report = run(lake, corpus, transcode="hevc")
    assert (report.num_replaced, report.num_videos_dropped) == (1, 1)
    [row] = open_episodes(lake, "g1").videos.scan().read_all().to_pylist()
    assert (row["codec"], row["num_frames"]) == ("hevc", 4)


def test_options_of_the_other_kind_of_corpus_are_refused(lake: Lake, tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 1)
    with pytest.raises(InputError, match=r"does not apply to robot episodes.*--min-duration"):
        run(lake, corpus, min_duration_s=1.0)
    with pytest.raises(InputError, match="h264"):
        run(lake, corpus, transcode="flac16k")


def test_names_that_are_taken(lake: Lake, tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 1)
    with pytest.raises(InputError, match="kept for refused"):
        run(lake, corpus, name="g1.quarantine")
    run(lake, corpus)
    wavs = tmp_path / "speech" / "real"
    wavs.mkdir(parents=True)
    (wavs / "a.wav").write_bytes(b"")
    with pytest.raises(ExistsError, match="an episode set of that name"):
        ingest(lake, wavs.parent, "g1", connector="audio_folder", executor="local")


def test_faults_of_the_dataset_as_a_whole_stop_it_and_warnings_do_not(
    lake: Lake, tmp_path: Path
) -> None:
    warning = {"reason": "index_gap", "severity": "warning", "detail": "no episode 7"}
    corpus = toy(tmp_path / "toys", 1, findings=[warning])
    report = run(lake, corpus)
    assert report.warnings == {"index_gap": 1}
    assert "no episode 7" in str(report)

    fault = {"reason": "empty_metadata", "severity": "error", "detail": "info.json is empty"}
    corpus = toy(tmp_path / "bad", 1, findings=[warning, fault])
    with pytest.raises(InputError, match=r"info\.json is empty.*datalake check"):
        run(lake, corpus, name="g2")
    with pytest.raises(InputError, match="empty"):
        run(lake, toy(tmp_path / "none", 0), name="g2")


def test_more_episodes_come_into_an_annotated_set(
    any_lake: tuple[Lake, str], tmp_path: Path
) -> None:
    lake, kept_as = any_lake
    corpus = toy(tmp_path / "toys")
    run(lake, corpus, format=kept_as)
    episodes = lake["g1.episodes"]
    field = pa.field("vector", pa.list_(pa.float32(), 2), metadata={"by": "hand"})
    batch = pa.record_batch(
        [pa.array([[number, 1] for number in range(4)], field.type)], schema=pa.schema([field])
    )
    episodes.add_columns(
        pa.RecordBatchReader.from_batches(batch.schema, [batch]),
        properties=dict(episodes.info().properties),
    )
    corpus.add(6)
    corpus.write()

    assert run(lake, corpus).num_added == 1

    rows = open_episodes(lake, "g1").episodes.scan(["vector"]).read_all()["vector"].to_pylist()
    assert rows == [[0, 1], [1, 1], [2, 1], [3, 1], None]
