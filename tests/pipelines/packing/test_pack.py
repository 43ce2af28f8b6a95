"""Packed tables: frames come out as they went in, one version a run."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.episodes import EpisodeSet
from datalake.episodes.masks import Mask, save_mask
from datalake.episodes.operations import trim
from datalake.errors import ConflictError, ExistsError, InputError, LakeError, NotFoundError
from datalake.lake import Lake, Lineage, open_lake
from datalake.packing import METHODS, Modality, TokenCosts, unpack
from datalake.pipelines.executors import LocalExecutor
from datalake.pipelines.packing import PackReport, PackSettings, pack
from datalake.recording import column_of
from datalake.schema import UTTERANCES, media_field
from tests.robots import LENGTHS, WRIST, write_robots

FEATURES = ("observation.state", "action", "next.done", "note", WRIST)
CHEAP = TokenCosts(image=3)  # a frame of the test's sets costs 2 * 3 + 1 + 1


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


def packed(lake: Lake, *sources: str, into: str = "packed", **options: Any) -> PackReport:
    settings = PackSettings(**{"budget": 30, "unit": "frames", **options})
    return pack(lake, sources, settings, into=into, executor="local")


def rows_of(lake: Lake, name: str = "packed") -> pa.Table:
    return lake[name].scan().read_all()


def assert_unpacks_to(sequences: pa.Table, *sets: EpisodeSet, features: Sequence[str]) -> None:
    """Each frame of the sets lies in the sequences once, with its values to the bit."""
    found = unpack(sequences).sort_by(
        [("source", "ascending"), ("item_id", "ascending"), ("frame_index", "ascending")]
    )
    columns = ["episode_id", "frame_index", *map(column_of, features)]
    wanted = pa.concat_tables(
        each.frames.scan(columns)
        .read_all()
        .add_column(0, "source", pa.array([each.name] * total(each), pa.string()))
        for each in sets
    )
    wanted = wanted.rename_columns(["source", "item_id", "frame_index", *features])
    assert found.column_names == wanted.column_names
    for name in wanted.column_names:
        assert found[name].combine_chunks() == wanted[name].combine_chunks(), name


def total(episodes: EpisodeSet) -> int:
    return int(episodes.index.lengths.sum())


@pytest.mark.parametrize("kept_as", ["lance", "delta"])
def test_frames_come_out_as_they_went_in(lake: Lake, kept_as: str) -> None:
    g1 = write_robots(lake, format=kept_as)
    report = packed(lake, "g1", columns=FEATURES)
    table = lake["packed"]
    assert table.format == kept_as
    sequences = rows_of(lake)
    assert_unpacks_to(sequences, g1, features=FEATURES)
    assert (report.num_sequences, report.num_tokens) == (sequences.num_rows, sum(LENGTHS))
    assert "modality_ids" not in sequences.schema.names
    entry = lake.log("packed")[-1]
    assert entry.operation == "pack"
    assert entry.inputs == {"g1.episodes": g1.version, "g1.frames": g1.frames.version}
    assert entry.config["budget"] == 30


def test_rows_say_where_segments_are(lake: Lake) -> None:
    g1 = write_robots(lake)
    packed(lake, "g1", budget=32)
    for row in rows_of(lake).to_pylist():
        lengths = np.diff(row["cu_seqlens"])
        assert row["num_tokens"] == row["cu_seqlens"][-1] <= 32
        padding = [0] * (32 - row["num_tokens"])
        assert (
            row["segment_ids"]
            == [n + 1 for n, length in enumerate(lengths) for _ in range(length)] + padding
        )
        assert row["position_ids"] == [p for length in lengths for p in range(length)] + padding
        for segment, length in zip(row["segments"], lengths, strict=True):
            number = g1.index.row_of(segment["item_id"])
            assert segment == {
                "source": "g1",
                "item_id": segment["item_id"],
                "row": g1.index.starts[number],
                "start": 0,
                "num_frames": g1.index.lengths[number],
                "num_tokens": length,
            }


def test_tokens_are_counted_by_cost(lake: Lake) -> None:
    write_robots(lake)
    report = packed(lake, "g1", unit="tokens", budget=200, costs=CHEAP, columns=("action",))
    assert sum(report.sources[0].modalities.values()) == report.num_tokens
    # 8 tokens a frame, and a text of 13 or 15 characters.
    assert report.num_tokens == 8 * sum(LENGTHS) + 4 * len(LENGTHS)
    assert report.sources[0].modalities == {
        "text": 20, "image": 6 * 63, "state": 63, "action": 63,
    }  # fmt: skip
    rows = rows_of(lake)
    ids = np.concatenate(rows["modality_ids"].to_numpy())
    assert np.bincount(ids, minlength=7).tolist() == [
        200 * rows.num_rows - report.num_tokens, 20, 6 * 63, 0, 0, 63, 63,
    ]  # fmt: skip
    first = rows["modality_ids"][0].as_py()
    frame = [Modality.IMAGE] * 6 + [Modality.STATE, Modality.ACTION]
    assert first[: 4 + 16] == [Modality.TEXT] * 4 + frame * 2


def test_overlong_episodes_are_split_between_frames(lake: Lake) -> None:
    g1 = write_robots(lake)
    with pytest.raises(InputError, match=r"robots/000000 is longer than a sequence.*100 \(5 such"):
        packed(lake, "g1", unit="tokens", budget=50, costs=CHEAP)
    packed(lake, "g1", unit="tokens", budget=50, costs=CHEAP, overlong="split", columns=FEATURES)
    rows = rows_of(lake)
    assert_unpacks_to(rows, g1, features=FEATURES)
    # The text is given with each piece: (50 - 4) // 8 = 5 frames.
    segments = [s for row in rows["segments"].to_pylist() for s in row]
    assert {s["num_tokens"] - 8 * s["num_frames"] for s in segments} == {4}
    assert max(s["num_frames"] for s in segments) == 5
    assert all(s["start"] % 5 == 0 for s in segments)


def test_overlong_episodes_lose_their_end_and_it_is_told(lake: Lake) -> None:
    write_robots(lake)
    report = packed(lake, "g1", budget=10, overlong="truncate")
    assert (report.sources[0].num_cut, report.sources[0].num_lost) == (3, 2 + 10 + 5)
    assert "3 cut short, 17 frames lost" in str(report)
    with pytest.raises(InputError, match="One frame of robots/000000 is longer"):
        packed(lake, "g1", unit="tokens", budget=11, costs=CHEAP, overlong="truncate")


def test_windows_stay_in_their_episode(lake: Lake) -> None:
    g1 = write_robots(lake)
    report = packed(
        lake, "g1", parts="windows", history=2, chunk=6, stride=3, budget=24, columns=("action",)
    )
    found = [
        (s["item_id"], s["start"], s["num_frames"])
        for row in rows_of(lake)["segments"].to_pylist()
        for s in row
    ]
    wanted = [
        (f"robots/{number:06d}", start, 8)
        for number, length in enumerate(LENGTHS)
        for start in range(0, length - 8 + 1, 3)
    ]
    assert sorted(found) == wanted
    # Windows overlap, and each has all of its frames.
    frames = unpack(rows_of(lake))
    assert frames.num_rows == 8 * len(wanted)
    index = g1.index
    rows = [
        index.starts[index.row_of(row["item_id"])] + row["frame_index"]
        for row in frames.select(["item_id", "frame_index"]).to_pylist()
    ]
    assert (
        frames["action"].combine_chunks()
        == g1.frames.take(rows, ["action"])["action"].combine_chunks()
    )
    assert report.sources[0].num_left_out == 1  # the episode of 7 frames
    assert "1 left out" in str(report)


def test_a_window_costs_what_it_sees_and_does(lake: Lake) -> None:
    write_robots(lake)
    options: Any = {"unit": "tokens", "costs": CHEAP, "parts": "windows", "history": 1, "chunk": 4}
    report = packed(lake, "g1", budget=100, **options)
    assert report.lengths.least == report.lengths.most == 4 + 2 * (3 + 3 + 1) + 4
    assert report.lengths.num_items == sum(length - 5 + 1 for length in LENGTHS)
    with pytest.raises(InputError, match="A window of robots/000000 is longer"):
        packed(lake, "g1", budget=21, **options)
    with pytest.raises(InputError, match="A window is packed whole"):
        packed(lake, "g1", budget=21, **options, overlong="split")


def test_sequences_are_a_multiple_of_the_ranks(lake: Lake) -> None:
    write_robots(lake)
    report = packed(lake, "g1", num_ranks=8)
    rows = rows_of(lake)
    assert rows.num_rows == report.num_sequences == 8
    assert rows["sequence_index"].to_pylist() == list(range(8))
    # Five episodes cannot fill eight sequences.
    assert report.num_empty == 3
    assert rows["cu_seqlens"].to_pylist()[-3:] == [[0]] * 3
    assert rows["segments"].to_pylist()[-3:] == [[]] * 3
    assert not any(rows["segment_ids"][7].as_py())


def test_token_columns_may_be_left_out(lake: Lake) -> None:
    write_robots(lake)
    packed(lake, "g1", unit="tokens", budget=11_000, token_columns=False)
    assert lake["packed"].schema.names == ["sequence_index", "num_tokens", "cu_seqlens", "segments"]


@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), max_size=12),
    budget=st.integers(1, 60),
    window=st.one_of(st.none(), st.integers(1, 5)),
    num_ranks=st.integers(1, 4),
    method=st.sampled_from(METHODS),
)
def test_every_frame_lies_in_one_sequence(
    lengths: list[int], budget: int, window: int | None, num_ranks: int, method: Any
) -> None:
    lake = open_lake(f"memory://{uuid.uuid4().hex}")
    g1 = write_robots(lake, lengths=lengths, image=False, video=False)
    packed(
        lake, "g1", budget=budget, window=window, num_ranks=num_ranks, method=method,
        overlong="split", columns=("action",),
    )  # fmt: skip
    rows = rows_of(lake)
    assert rows.num_rows % num_ranks == 0
    assert_unpacks_to(rows, g1, features=("action",))


# Several sources --------------------------------------------------------------------------------


def write_speech(lake: Lake, num: int = 40) -> None:
    lineage = Lineage("test")
    columns: dict[str, list[Any]] = {name: [None] * num for name in UTTERANCES.names}
    columns["utt_id"] = [f"u{number}" for number in range(num)]
    columns["source"] = ["s"] * num
    columns["duration_s"] = [0.5 + number % 5 for number in range(num)]
    columns["audio"] = [b"sound"] * num
    schema = UTTERANCES.append(pa.field("transcript", pa.string()))
    columns["transcript"] = ["a text of twenty chr"] * num
    lake.create("speech", schema, lineage=lineage).append(pa.table(columns, schema=schema))


def test_robots_and_speech_in_one_sequence(lake: Lake) -> None:
    write_robots(lake)
    write_speech(lake)
    report = packed(
        lake, "g1", "speech", unit="tokens", budget=400, costs=TokenCosts(image=3, audio_s=10),
        weights={"g1": 1, "speech": 3}, columns=("action",), method="first_fit_shuffle",
    )  # fmt: skip
    assert report.realised["speech"] == pytest.approx(0.75, abs=0.1)
    assert report.largest_error <= 164
    assert report.sources[1].modalities.keys() == {"text", "audio"}
    rows = rows_of(lake)
    kinds = {
        frozenset(segment["source"] for segment in row) for row in rows["segments"].to_pylist()
    }
    assert frozenset({"g1", "speech"}) in kinds
    speech = [
        segment
        for row in rows["segments"].to_pylist()
        for segment in row
        if segment["source"] == "speech"
    ]
    assert all(segment["num_frames"] == 0 for segment in speech)
    assert speech[0]["num_tokens"] == 5 + 10 * (0.5 + int(speech[0]["item_id"][1:]) % 5)
    # The frames that are there are those of the robots, in their places.
    assert set(unpack(rows)["source"].to_pylist()) == {"g1"}
    ids = np.concatenate(rows["modality_ids"].to_numpy())
    assert (ids == Modality.AUDIO).sum() == report.sources[1].modalities["audio"]


def write_media(lake: Lake, name: str, columns: dict[str, Any], kind: str) -> None:
    fields = [pa.field(column, pa.array(values).type) for column, values in columns.items()]
    schema = pa.schema([*fields, media_field("media", kind)])
    media = [b"x"] * len(next(iter(columns.values())))
    lake.create(name, schema, lineage=Lineage("test")).append(
        pa.table({**columns, "media": media}, schema=schema)
    )


def test_pictures_and_videos_with_texts(lake: Lake) -> None:
    write_media(lake, "vqa", {"id": [7, None], "caption": ["a cat on a mat", None]}, "image")
    write_media(lake, "clips", {"num_frames": [3, 0, 30]}, "video")
    costs = TokenCosts(image=9, video_frame=2)
    report = packed(lake, "vqa", "clips", unit="tokens", budget=20, costs=costs, overlong="split")
    segments = sorted(
        (s["source"], s["item_id"], s["start"], s["num_tokens"])
        for row in rows_of(lake)["segments"].to_pylist()
        for s in row
    )
    assert segments == [
        ("clips", "0", 0, 6), ("clips", "2", 0, 20), ("clips", "2", 10, 20), ("clips", "2", 20, 20),
        ("vqa", "1", 0, 9), ("vqa", "7", 0, 13),
    ]  # fmt: skip
    assert report.sources[0].modalities == {"text": 4, "image": 18}
    assert report.sources[1].modalities == {"video": 66}
    assert report.sources[1].num_left_out == 1
    with pytest.raises(InputError, match="7 is longer than a sequence"):
        packed(lake, "vqa", into="other", unit="tokens", budget=12, costs=costs)


def test_sound_that_does_not_say_how_long_it_is(lake: Lake) -> None:
    write_media(lake, "sounds", {"id": [1]}, "audio")
    with pytest.raises(InputError, match="sound of sounds cannot be costed"):
        packed(lake, "sounds", unit="tokens")


def test_weights_by_modality(lake: Lake) -> None:
    write_robots(lake)
    write_speech(lake)
    report = packed(
        lake, "g1", "speech", unit="tokens", budget=400, costs=TokenCosts(image=3, audio_s=10),
        weights={"image": 1, "audio": 1}, weight_by="modality", exhausted="repeat",
    )  # fmt: skip
    # Utterances of half a second are text more than sound, and weigh nothing here.
    assert report.realised["audio"] == pytest.approx(0.5, abs=0.1)
    assert report.sources[0].num_packed > len(LENGTHS)


def test_sets_with_other_features_are_costed_by_their_own(lake: Lake) -> None:
    one = write_robots(lake, "one", image=False, video=False)
    two = write_robots(lake, "two", source="b", image=False)
    report = packed(lake, "one", "two", unit="tokens", budget=500, costs=CHEAP, columns=("note",))
    assert report.sources[0].num_tokens == 2 * 63 + 20
    assert report.sources[1].num_tokens == 5 * 63 + 20
    assert_unpacks_to(rows_of(lake), one, two, features=("note",))


# Names, versions, failures ----------------------------------------------------------------------


def test_packing_again_is_a_new_version(lake: Lake) -> None:
    write_robots(lake)
    first = packed(lake, "g1", columns=("action",))
    second = packed(lake, "g1", columns=("action",), seed=1)
    assert first.version is not None
    assert second.version is not None
    assert second.version > first.version
    assert lake["packed"].count_rows() == second.num_sequences
    assert lake["packed"].at(first.version).count_rows() == first.num_sequences
    with pytest.raises(ExistsError, match="has other columns"):
        packed(lake, "g1", budget=40)


def test_an_earlier_version_of_a_set_can_be_packed(lake: Lake) -> None:
    g1 = write_robots(lake)
    empty = min(info.version for info in g1.episodes.versions()) + 1
    settings = PackSettings(budget=30, unit="frames")
    report = pack(lake, "g1", settings, into="old", version=empty, executor="local")
    assert (report.num_sequences, lake["old"].count_rows()) == (0, 0)


def test_a_dry_run_writes_nothing(lake: Lake) -> None:
    write_robots(lake)
    before = lake.tables()
    report = pack(lake, "g1", PackSettings(budget=30, unit="frames"))
    assert report.num_sequences == 3
    assert report.version is None
    assert "nothing was written" in str(report)
    assert lake.tables() == before


@pytest.mark.parametrize("name", ["g1", "g1.frames", "g1.episodes"])
def test_what_no_packing_made_is_not_overwritten(lake: Lake, name: str) -> None:
    write_robots(lake)
    with pytest.raises(ExistsError, match="is taken"):
        packed(lake, "g1", into=name)


@pytest.mark.parametrize(
    ("error", "match", "options"),
    [
        (NotFoundError, "There is no episode set or table 'g2'", {"sources": ["g2"]}),
        (InputError, "each once", {"sources": ["g1", "g1"]}),
        (InputError, "one or more", {"sources": []}),
        (NotFoundError, "Did you mean action", {"columns": ("actoin",)}),
        (NotFoundError, "a video", {"columns": ("observation.images.front",)}),
        (InputError, "no camera 'front'", {"costs": TokenCosts(cameras={"front": 1})}),
        (InputError, "names no source", {"weights": {"g2": 1.0}}),
        (InputError, "nothing to pack", {"sources": ["g1.episodes"], "unit": "tokens"}),
        (InputError, "has no frames", {"sources": ["g1.videos"]}),
        (InputError, "budget is out of range", {"budget": 0}),
        (InputError, "unit has an unknown value", {"unit": "bytes"}),
    ],
)  # fmt: skip
def test_what_cannot_be_packed_is_refused_before_anything_is_written(
    lake: Lake, error: type[LakeError], match: str, options: dict[str, Any]
) -> None:
    write_robots(lake)
    before = lake.tables()
    with pytest.raises(error, match=match):
        packed(lake, *options.pop("sources", ["g1"]), **options)
    assert lake.tables() == before


class Dying(LocalExecutor):
    def run(self, job: Any, num_units: int) -> Any:
        yield job.stage(0)
        raise KeyboardInterrupt


def test_a_run_that_dies_leaves_no_table(lake: Lake) -> None:
    write_robots(lake)
    settings = PackSettings(budget=30, unit="frames")
    with pytest.raises(KeyboardInterrupt):
        pack(lake, "g1", settings, into="packed", executor=Dying())
    assert "packed" not in lake
    packed(lake, "g1")
    before = rows_of(lake)
    with pytest.raises(KeyboardInterrupt):
        pack(lake, "g1", settings, into="packed", executor=Dying())
    assert rows_of(lake) == before


class Overtaken(LocalExecutor):
    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def run(self, job: Any, num_units: int) -> Any:
        packed(self.lake, "g1")
        yield from super().run(job, num_units)


def test_two_runs_at_once_do_not_mix(lake: Lake) -> None:
    write_robots(lake)
    packed(lake, "g1")
    settings = PackSettings(budget=30, unit="frames", seed=9)
    with pytest.raises(ConflictError):
        pack(lake, "g1", settings, into="packed", executor=Overtaken(lake))
    assert lake.log("packed")[-1].config["seed"] == 0


def test_a_lake_in_memory() -> None:
    lake = open_lake("memory://packing")
    g1 = write_robots(lake)
    packed(lake, "g1", columns=FEATURES)
    assert_unpacks_to(rows_of(lake), g1, features=FEATURES)
    with pytest.raises(InputError, match="cannot reach a lake in memory"):
        pack(lake, "g1", PackSettings(budget=30, unit="frames"), into="more", executor="ray")


def test_an_empty_set_packs_to_an_empty_table(lake: Lake) -> None:
    write_robots(lake, lengths=[], video=False)
    report = packed(lake, "g1", columns=("action",), num_ranks=4)
    assert report.num_sequences == lake["packed"].count_rows() == 0
    assert str(report)


@pytest.mark.parametrize("parts", ["episodes", "windows"])
def test_masked_frames_are_left_out(lake: Lake, parts: str) -> None:
    g1 = write_robots(lake, image=False, video=False)
    hidden = {0: [(0, 3)], 2: [(5, 7), (12, 13)], 3: [(0, 9)]}
    spans = [
        {"episode_id": f"robots/{n:06d}", "from_frame": a, "to_frame": b, "reason": "idle"}
        for n, found in hidden.items()
        for a, b in found
    ]
    mask = Mask.of(g1, pa.Table.from_pylist(spans), reasons=["idle"])
    version = save_mask(lake, "g1.masks", mask, Lineage("test"))
    runs = {0: [(3, 12)], 1: [(0, 7)], 2: [(0, 5), (7, 12), (13, 20)], 4: [(0, 15)]}
    options = {"parts": parts, "history": 1, "chunk": 5, "masks": ("g1.masks",)}
    report = packed(lake, "g1", columns=("note",), **options)
    segments = [each for row in rows_of(lake)["segments"].to_pylist() for each in row]
    found = sorted((each["item_id"], each["start"], each["num_frames"]) for each in segments)
    if parts == "episodes":
        expected = [(n, a, b - a) for n, of in runs.items() for a, b in of]
    else:
        expected = [(n, at, 6) for n, of in runs.items() for a, b in of for at in range(a, b - 5)]
        assert report.sources[0].num_left_out == 2  # Runs of 5.
    assert found == sorted((f"robots/{n:06d}", start, length) for n, start, length in expected)
    frames = unpack(rows_of(lake)).to_pylist()
    for row in frames:
        assert row["note"] == f"frame {row['frame_index']} of {int(row['item_id'][-6:])} ✓"
    assert lake.log("packed")[-1].inputs["g1.masks"] == version
    assert lake.log("packed")[-1].config["masks"] == ["g1.masks"]


def test_a_mask_that_does_not_fit_is_refused(lake: Lake) -> None:
    g1 = write_robots(lake, image=False, video=False)
    write_robots(lake, "g2", image=False, video=False)
    spans = {"episode_id": ["robots/000000"], "from_frame": [0], "to_frame": [3], "reason": ["a"]}
    mask = Mask.of(g1, pa.table(spans), reasons=["a"])
    for name in ("one", "two"):
        save_mask(lake, name, mask, Lineage("test"))
    with pytest.raises(InputError, match="one of g1"):
        packed(lake, "g2", masks=("one",))
    with pytest.raises(InputError, match="g1, which has one"):
        packed(lake, "g1", masks=("one", "two"))
    with pytest.raises(NotFoundError, match="no mask 'three'"):
        packed(lake, "g1", masks=("three",))
    trim(lake, "g1", head=1, episode_ids=["robots/000004"])
    with pytest.raises(InputError, match="of another length"):
        packed(lake, "g1", masks=("one",))
    assert "packed" not in lake
