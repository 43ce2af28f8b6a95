"""Masks: saved as they are, refused where they do not fit, and each frame as a slow twin has it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.episodes import EpisodeSet, open_episodes
from datalake.episodes.masked_frames import MaskedFrames, merged
from datalake.episodes.masks import MASK_SPANS, Mask, is_mask, open_mask, save_mask
from datalake.episodes.operations import delete, set_task, trim
from datalake.errors import (
    ConfigError,
    ExistsError,
    InputError,
    NotFoundError,
    SchemaError,
    StoreError,
)
from datalake.lake import Lake, Lineage, open_lake
from tests.robots import LENGTHS, write_robots

MADE = Lineage("mask", inputs={"g1": 1})
SPANS: list[dict[str, Any]] = [
    {"episode_id": "robots/000002", "from_frame": 15, "to_frame": 20, "reason": "idle"},
    {"episode_id": "robots/000000", "from_frame": 0, "to_frame": 3, "reason": "idle"},
    {"episode_id": "robots/000000", "from_frame": 2, "to_frame": 5, "reason": "frozen",
     "value": 7.5, "threshold": 5.0},
]  # fmt: skip


@pytest.fixture
def lake() -> Lake:
    return open_lake("memory://masks")


@pytest.fixture
def episodes(lake: Lake) -> EpisodeSet:
    return write_robots(lake, image=False, video=False)


@pytest.fixture(autouse=True)
def _empty(lake: Lake) -> Any:
    yield
    for name in lake.tables():
        lake.drop(name)


def mask_of(episodes: EpisodeSet, spans: list[dict[str, Any]] = SPANS) -> Mask:
    numbers = {"value": None, "threshold": None}
    table = pa.Table.from_pylist([numbers | span for span in spans])
    return Mask.of(episodes, table, reasons=["idle", "frozen", "gap"])


def test_a_mask_comes_back_as_it_was_saved(lake: Lake, episodes: EpisodeSet) -> None:
    made = replace(mask_of(episodes), parameters={"idle_s": 0.5})
    assert save_mask(lake, "g1.masks", made, MADE) == lake["g1.masks"].version
    back = open_mask(lake, "g1.masks")
    assert back.spans.equals(made.spans)
    assert back.spans.schema.equals(MASK_SPANS)
    assert back.spans["from_frame"].to_pylist() == [0, 2, 15]
    assert back.spans["value"].to_pylist() == [None, 7.5, None]
    assert back.judged.equals(made.judged.cast(back.judged.schema))
    assert (back.set_name, back.set_version) == ("g1", episodes.version)
    assert (back.reasons, back.parameters) == (("idle", "frozen", "gap"), {"idle_s": 0.5})
    assert back.digest == made.digest
    assert back.num_frames == 10
    assert back.by_reason() == [
        {"reason": "idle", "num_spans": 2, "num_episodes": 2, "num_frames": 8},
        {"reason": "frozen", "num_spans": 1, "num_episodes": 1, "num_frames": 3},
        {"reason": "gap", "num_spans": 0, "num_episodes": 0, "num_frames": 0},
    ]
    assert lake.log("g1.masks")[-1].inputs == {"g1": 1}
    assert is_mask(lake["g1.masks"])
    assert not is_mask(lake["g1.episodes"])


def test_versions_of_a_mask_stay(lake: Lake, episodes: EpisodeSet) -> None:
    first = save_mask(lake, "still", mask_of(episodes), MADE)
    second = save_mask(lake, "still", mask_of(episodes, SPANS[:1]), MADE)
    assert second > first
    assert open_mask(lake, "still").num_frames == 5
    assert open_mask(lake, "still", first).num_frames == 10


def test_a_mask_without_spans_is_one(lake: Lake, episodes: EpisodeSet) -> None:
    none = Mask.of(episodes, MASK_SPANS.empty_table(), reasons=["idle"])
    save_mask(lake, "none", none, MADE)
    back = open_mask(lake, "none")
    assert (back.num_frames, back.spans.num_rows, back.judged.num_rows) == (0, 0, len(LENGTHS))
    masked = back.on(episodes)
    assert not masked.holds(np.arange(sum(LENGTHS))).any()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"episode_id": "robots/000009"}, "an episode that the set lacks"),
        ({"from_frame": -1}, "is none of its episode's"),
        ({"from_frame": 20}, "is none of its episode's"),
        ({"to_frame": 21}, "of 20 frames"),
        ({"reason": "idel"}, "unknown reason.*idle or frozen or gap"),
    ],
)
def test_impossible_spans_are_refused(
    episodes: EpisodeSet, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        mask_of(episodes, [SPANS[0] | change, *SPANS[1:]])


def test_spans_of_one_reason_do_not_overlap(episodes: EpisodeSet) -> None:
    twice = [SPANS[0], SPANS[0] | {"from_frame": 10, "to_frame": 16}]
    with pytest.raises(InputError, match=r"overlaps.*15 to 20 of 20 frames, idle; 1 such"):
        mask_of(episodes, twice)
    apart = [SPANS[0], SPANS[0] | {"from_frame": 10, "to_frame": 15}]
    assert mask_of(episodes, apart).num_frames == 10


def test_what_is_no_table_of_spans_is_refused(episodes: EpisodeSet) -> None:
    for spans in (
        pa.table({"episode_id": ["robots/000000"], "from_frame": [0], "to_frame": [1]}),
        pa.Table.from_pylist([SPANS[0] | {"from_frame": "one"}]),
        pa.Table.from_pylist([SPANS[0] | {"reason": None}]),
    ):
        with pytest.raises(SchemaError, match="no spans of a mask"):
            Mask.of(episodes, spans, reasons=["idle"])
    for reasons in ([], ["Idle"], ["idle", "idle"]):
        with pytest.raises(InputError, match="reason"):
            Mask.of(episodes, MASK_SPANS.empty_table(), reasons=reasons)


def test_a_mask_of_some_reasons(episodes: EpisodeSet) -> None:
    mask = mask_of(episodes)
    assert mask.only(["frozen"]).num_frames == 3
    assert mask.only(["gap"]).num_frames == 0
    assert mask.only(["idle"]).digest != mask.digest
    assert mask.only(["frozen", "idle", "gap"]).digest == mask.digest
    with pytest.raises(NotFoundError, match="idle"):
        mask.only(["idel"])
    with pytest.raises(InputError, match="without a reason"):
        mask.only([])


def test_names_that_are_taken_are_refused(lake: Lake, episodes: EpisodeSet) -> None:
    mask = mask_of(episodes)
    for name in ("g1", "g1.frames"):
        with pytest.raises(ExistsError, match="taken"):
            save_mask(lake, name, mask, MADE)
    other = write_robots(lake, "g2", image=False, video=False)
    save_mask(lake, "of_g2", mask_of(other), MADE)
    with pytest.raises(ExistsError, match="a mask of g2"):
        save_mask(lake, "of_g2", mask, MADE)
    with pytest.raises(InputError, match="name"):
        save_mask(lake, "a/b", mask, MADE)
    with pytest.raises(ConfigError, match="parameters of a mask"):
        save_mask(lake, "bad", replace(mask, parameters={"a": object()}), MADE)
    assert "bad" not in lake


def test_what_is_no_mask_is_not_opened(lake: Lake, episodes: EpisodeSet) -> None:
    save_mask(lake, "g1.masks", mask_of(episodes), MADE)
    with pytest.raises(NotFoundError, match=r"g1\.masks"):
        open_mask(lake, "g1.mask")
    with pytest.raises(NotFoundError, match="is no mask"):
        open_mask(lake, "g1.episodes")
    with pytest.raises(NotFoundError, match="no finished mask"):
        open_mask(lake, "g1.masks", 1)
    table = lake["g1.masks"]
    properties = dict(table.info().properties)
    rows = table.scan().read_all()
    table.overwrite(rows.slice(1), properties=properties)
    with pytest.raises(StoreError, match="not the ones that were saved"):
        open_mask(lake, "g1.masks")


def test_a_mask_outlives_what_touches_no_frame(lake: Lake, episodes: EpisodeSet) -> None:
    mask = mask_of(episodes)
    set_task(lake, "g1", "wave", where="TRUE")
    open_episodes(lake, "g1").compact(lineage=Lineage("test"))
    later = open_episodes(lake, "g1")
    assert later.version > episodes.version
    assert mask.on(later).begins.tolist() == mask.on(episodes).begins.tolist() == [0, 34]
    delete(lake, "g1", episode_ids=["robots/000001"])
    assert mask.on(open_episodes(lake, "g1")).begins.tolist() == [0, 34 - LENGTHS[1]]
    delete(lake, "g1", episode_ids=["robots/000000"])
    assert mask.on(open_episodes(lake, "g1")).begins.tolist() == [15]


def test_a_stale_mask_is_refused_with_what_differs(lake: Lake, episodes: EpisodeSet) -> None:
    mask = mask_of(episodes)
    trim(lake, "g1", head=2, episode_ids=["robots/000004"])
    with pytest.raises(InputError, match=r"1 of another length: robots/000004; .*15 frames.* 13"):
        mask.on(open_episodes(lake, "g1"))
    with pytest.raises(InputError, match="one of g1"):
        mask.on(write_robots(lake, "g3", image=False, video=False))
    few = replace(mask, judged=mask.judged.slice(1), spans=mask.spans.slice(2))
    with pytest.raises(InputError, match="1 not judged: robots/000000"):
        few.on(episodes)
    stamps = pa.array(["new"] + ["s"] * (len(LENGTHS) - 1))
    other = replace(mask, judged=mask.judged.set_column(2, "stamp", stamps))
    with pytest.raises(InputError, match="5 made from another source: robots/000000, "):
        other.on(episodes)


spans = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda span: (span[0], sum(span))),
    max_size=8,
)


@given(spans)
def test_merged_spans_cover_what_spans_do(found: list[tuple[int, int]]) -> None:
    begins, ends = np.array(found, np.int64).reshape(-1, 2).T
    twin = {row for begin, end in found for row in range(begin, end)}
    one, two = merged(begins, ends)
    assert {row for begin, end in zip(one, two, strict=True) for row in range(begin, end)} == twin
    # Ascending, and a frame apart at least.
    assert (one < two).all()
    assert (one[1:] > two[:-1]).all()


@given(spans, st.lists(st.integers(1, 12), min_size=1, max_size=5), st.randoms())
def test_runs_are_those_of_a_walk_over_frames(
    found: list[tuple[int, int]], lengths: list[int], random: Any
) -> None:
    begins, ends = np.array(found, np.int64).reshape(-1, 2).T
    masked = MaskedFrames(*merged(begins, ends), digest="")
    stops = np.cumsum(lengths)
    firsts = stops - lengths
    order = np.array(random.sample(range(len(lengths)), len(lengths)))
    hidden = {row for begin, end in found for row in range(begin, end)}
    expected = []
    for place, episode in enumerate(order.tolist()):
        run: list[int] = []
        for row in [*range(firsts[episode], stops[episode]), None]:
            if row is None or row in hidden:
                if run:
                    expected.append((place, run[0], run[-1] + 1))
                run = []
            else:
                run.append(row)
    runs = masked.runs(firsts[order], stops[order])
    assert list(zip(*(values.tolist() for values in runs), strict=True)) == expected
    rows = np.arange(stops[-1])
    assert masked.holds(rows).tolist() == [row in hidden for row in rows.tolist()]
    free = rows[~masked.holds(rows)]
    owners = np.searchsorted(stops, free, side="right")
    found_runs = masked.run_of(free, firsts[owners], stops[owners])
    of_row = {row: span[1:] for span in expected for row in range(span[1], span[2])}
    assert list(zip(*(each.tolist() for each in found_runs), strict=True)) == [
        of_row[row] for row in free.tolist()
    ]


def test_a_mask_takes_bytes_by_episode_and_span(lake: Lake) -> None:
    sizes = []
    for number, length in enumerate((100, 4000)):
        made = write_robots(lake, f"g{number}", lengths=[length] * 5, image=False, video=False)
        spans = [
            {"episode_id": f"robots/{n:06d}", "from_frame": at, "to_frame": at + 2, "reason": "gap"}
            for n in range(5)
            for at in range(0, 100, 4)
        ]
        save_mask(lake, f"mask{number}", mask_of(made, spans), MADE)
        mask = open_mask(lake, f"mask{number}")
        masked = mask.on(made)
        # 125 spans of 5 episodes.
        assert mask.spans.nbytes + mask.judged.nbytes < 125 * 80 + 5 * 100
        assert masked.begins.nbytes + masked.ends.nbytes == 125 * 16
        sizes.append(len(pickle.dumps(mask)))
    # As many frames as there may be.
    assert abs(sizes[0] - sizes[1]) < 50


def test_masks_travel_to_workers(episodes: EpisodeSet) -> None:
    mask = mask_of(episodes)
    assert pickle.loads(pickle.dumps(mask)).digest == mask.digest
    masked = pickle.loads(pickle.dumps(mask.on(episodes)))
    assert masked.digest == mask.digest
