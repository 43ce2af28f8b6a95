"""Masked frames never reach a batch: anchors, windows, orders, resumes and states know the mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.episodes import EpisodeSet, open_episodes
from datalake.episodes.masks import Mask, save_mask
from datalake.episodes.operations import trim
from datalake.episodes.windows import Windows
from datalake.errors import InputError, NotFoundError
from datalake.lake import Lake, Lineage, open_lake
from datalake.loader import EpisodeWindows, Loader, Mixture, Selected, Weighted
from datalake.loader.planning import calibrate
from datalake.loader.sampling import sampler_of
from tests.loader.exactness import every_example_once, fixed, runs
from tests.loader.sources.test_chosen_episodes import in_order, rows_of, select
from tests.loader.test_exactness import Real
from tests.robots import CAMERA, LENGTHS, WRIST, write_robots

MADE = Lineage("mask")
ENDS = np.cumsum(LENGTHS).tolist()
FRAMES = [list(range(end - length, end)) for end, length in zip(ENDS, LENGTHS, strict=True)]
OFFSETS = {"action": [0, 1, 2, 3], "observation.state": [-2, 0]}

Hidden = dict[int, list[tuple[int, int, str]]]
"""Of episodes their masked spans: first frame, end, reason."""

TRIMMED: Hidden = {
    0: [(0, 3, "idle"), (9, 12, "idle")],
    1: [(6, 7, "idle")],
    2: [(0, 1, "idle")],
    4: [(0, 2, "idle"), (14, 15, "idle")],
}
HOLED: Hidden = TRIMMED | {
    2: [(0, 1, "idle"), (7, 9, "gap"), (8, 11, "frozen")],
    3: [(0, 9, "gap")],
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return open_lake(tmp_path_factory.mktemp("masks") / "lake")


@pytest.fixture(scope="module")
def episodes(lake: Lake) -> EpisodeSet:
    made = write_robots(lake, video=False, image=False)
    save_mask(lake, "g1.masks", mask_of(made, HOLED), MADE)
    save_mask(lake, "trimmed", mask_of(made, TRIMMED), MADE)
    return made


def mask_of(episodes: EpisodeSet, hidden: Hidden) -> Mask:
    spans = [
        {"episode_id": f"robots/{n:06d}", "from_frame": a, "to_frame": b, "reason": reason}
        for n, found in hidden.items()
        for a, b, reason in found
    ]
    schema = pa.schema(
        [
            ("episode_id", pa.string()),
            ("from_frame", pa.int64()),
            ("to_frame", pa.int64()),
            ("reason", pa.string()),
        ]
    )
    table = pa.Table.from_pylist(spans, schema)
    return Mask.of(episodes, table, reasons=["idle", "gap", "frozen"])


def free_runs(hidden: Hidden) -> list[list[int]]:
    """The twin: frame after frame, rows that are not masked, cut where one is or at the ends."""
    found = []
    for number, rows in enumerate(FRAMES):
        run: list[int] = []
        for frame, row in enumerate(rows):
            if any(a <= frame < b for a, b, _ in hidden.get(number, [])):
                found.append(run)
                run = []
            else:
                run.append(row)
        found.append(run)
    return [run for run in found if run]


@st.composite
def hidden_frames(draw: st.DrawFn) -> Hidden:
    found: Hidden = {}
    for number, length in enumerate(LENGTHS):
        for reason in draw(st.sets(st.sampled_from(["idle", "gap", "frozen"]))):
            first = draw(st.integers(0, length - 1))
            end = draw(st.integers(first + 1, length))
            found.setdefault(number, []).append((first, end, reason))
    return found


@settings(max_examples=12, deadline=None)
@given(hidden_frames(), st.sampled_from(["exact", "blocks", "sequential"]), st.integers(0, 9))
def test_anchors_are_those_of_a_walk_over_frames(
    episodes: EpisodeSet, hidden: Hidden, order: Any, seed: int
) -> None:
    runs_of = free_runs(hidden)
    windows = Windows(episodes, delta_indices=OFFSETS, masks=mask_of(episodes, hidden))
    rows = [row for run in runs_of for row in run]
    assert windows.episode_rows().tolist() == rows
    if not rows:
        with pytest.raises(InputError, match="are masked"):
            EpisodeWindows(windows)
        return
    source = EpisodeWindows(windows)
    loader = Loader(source, batch_size=5, order=order, seed=seed, tail="short", num_threads=0)
    for _ in range(2):
        assert sorted(rows_of(loader)) == rows


@settings(max_examples=25, deadline=None)
@given(hidden_frames())
def test_windows_never_leave_their_run(episodes: EpisodeSet, hidden: Hidden) -> None:
    stored = episodes.frames.scan(["action", "observation/state"]).read_all()
    whole = {
        name: np.array(stored[name.replace(".", "/")].to_pylist(), np.float32) for name in OFFSETS
    }
    windows = Windows(episodes, delta_indices=OFFSETS, masks=mask_of(episodes, hidden))
    for run in free_runs(hidden):
        batch = windows.batch(run)
        for name, offsets in OFFSETS.items():
            for place, row in enumerate(run):
                wanted = [row + offset for offset in offsets]
                inside = [min(max(each, run[0]), run[-1]) for each in wanted]
                assert np.array_equal(batch[name][place], whole[name][inside])
                pads = [each not in run for each in wanted]
                assert batch[f"{name}_is_pad"][place].tolist() == pads


def test_masked_ends_are_as_if_trimmed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """To the bit, pictures and video too; but for where the frames stand in their episode."""
    lake = open_lake(tmp_path_factory.mktemp("trimmed") / "lake")
    before = write_robots(lake)
    windows = {"action": [0, 1, 2], CAMERA: [-1, 0], WRIST: [0, 1]}
    masked = Windows(before, delta_indices=windows, masks=mask_of(before, TRIMMED))
    trim(
        lake,
        "g1",
        ranges={
            "robots/000000": (3, 9),
            "robots/000001": (0, 6),
            "robots/000002": (1, 20),
            "robots/000004": (2, 14),
        },
    )
    trimmed = Windows(open_episodes(lake, "g1"), delta_indices=windows)
    ids = [f"robots/{number:06d}" for number in range(5)]
    one = masked.batch(masked.episode_rows(ids))
    two = trimmed.batch(trimmed.episode_rows(ids))
    moved = {"index", "frame_index", "timestamp"}
    for key in one.keys() - moved:
        assert np.array_equal(one[key], two[key]), key
    assert one.keys() == two.keys()


def test_a_masked_frame_is_not_asked_for(lake: Lake, episodes: EpisodeSet) -> None:
    windows = Windows(episodes, masks=mask_of(episodes, HOLED))
    assert len(windows) == ENDS[-1]
    with pytest.raises(InputError, match=r"row 20, frame 1 of robots/000002.*episode_rows") as one:
        # The first masked one of those asked for; 21 to 25 are not masked.
        Windows(episodes, masks=mask_of(episodes, {2: [(1, 2, "gap")]})).batch([21, 20, 22])
    assert one.value.where == "g1"
    with pytest.raises(InputError, match="masked frame"):
        windows[0]
    rows = [row for run in free_runs(HOLED) for row in run]
    assert [window["index"] for window in windows] == rows


def test_masks_are_taken_by_name_reason_or_as_they_are(lake: Lake, episodes: EpisodeSet) -> None:
    by_name = EpisodeWindows.from_lake(lake, "g1", masks="trimmed")
    assert in_order(by_name) == [row for run in free_runs(TRIMMED) for row in run]
    idle = EpisodeWindows.from_lake(lake, "g1", masks=["idle"])
    assert in_order(idle) == in_order(by_name)
    assert idle.identity()["mask"] == by_name.identity()["mask"]
    itself = EpisodeWindows.from_lake(lake, "g1", masks=mask_of(episodes, HOLED))
    assert in_order(itself) == in_order(EpisodeWindows.from_lake(lake, "g1", masks="g1.masks"))
    assert "mask" not in EpisodeWindows.from_lake(lake, "g1").identity()
    with pytest.raises(NotFoundError, match=r"no mask 'trimed'.*trimmed"):
        EpisodeWindows.from_lake(lake, "g1", masks="trimed")
    with pytest.raises(NotFoundError, match=r"no reason 'idel'.*idle"):
        EpisodeWindows.from_lake(lake, "g1", masks=["idel"])


def test_what_else_chooses_frames_and_a_mask_both_count(lake: Lake, episodes: EpisodeSet) -> None:
    mask = mask_of(episodes, HOLED)
    windows = Windows(episodes, masks=mask)
    chosen = EpisodeWindows(windows, selection=select(episodes, [4, 2, 0]))
    twin = free_runs({**HOLED, 1: [(0, 7, "gap")]})
    expected = [row for number in (4, 2, 0) for run in twin for row in run if row in FRAMES[number]]
    assert in_order(chosen) == expected
    loader = Loader(chosen, batch_size=4, tail="short", num_threads=0)
    weights = {
        row: weight
        for batch in loader
        for row, weight in zip(batch["row_index"].tolist(), batch["weight"].tolist(), strict=True)
    }
    of = {4: 1.0, 2: 2.0, 0: 3.0}
    assert weights == {row: of[n] for n in of for row in expected if row in FRAMES[n]}
    with pytest.raises(InputError, match="are masked"):
        EpisodeWindows(windows, episode_ids=["robots/000003"])
    with pytest.raises(InputError, match="Rows are chosen in two ways"):
        Selected(EpisodeWindows(windows), [0, 1])


def test_weighted_and_mixed_with_sets_that_have_no_mask(lake: Lake, episodes: EpisodeSet) -> None:
    masked = EpisodeWindows(
        Windows(episodes, delta_indices=OFFSETS, masks=mask_of(episodes, HOLED))
    )
    free = {row for run in free_runs(HOLED) for row in run}
    drawn = rows_of(Loader(Weighted(masked, examples_per_epoch=60), batch_size=6, num_threads=0))
    assert set(drawn) <= free
    plain = EpisodeWindows(Windows(episodes, delta_indices=OFFSETS))
    mixed = Mixture({"masked": masked, "plain": plain}, examples_per_epoch=100)
    seen: tuple[set[int], ...] = (set(), set())
    for batch in Loader(mixed, batch_size=10, num_threads=0):
        for source, row in zip(batch["source"].tolist(), batch["row_index"].tolist(), strict=True):
            seen[source].add(row)
    assert seen[0] <= free
    assert seen[1] - free


def test_a_plan_reads_no_masked_frame(episodes: EpisodeSet) -> None:
    # The first rows are masked: a plan that read those would be refused.
    source = EpisodeWindows(Windows(episodes, masks=mask_of(episodes, HOLED)))
    assert calibrate(sampler_of(source), batch_size=4, for_s=0.0).num_examples > 0


@settings(max_examples=8, deadline=None)
@given(runs(fixed(), max_runs=4))
def test_every_unmasked_frame_once_however_the_run_is_cut(
    episodes: EpisodeSet, trainers: Any
) -> None:
    windows = Windows(episodes, delta_indices=OFFSETS, masks=mask_of(episodes, HOLED))
    real = Real(EpisodeWindows(windows), "exact", 5)
    every_example_once(real.stream(), trainers, real.order)


def test_a_state_goes_on_with_an_equal_mask_alone(episodes: EpisodeSet) -> None:
    def opened(hidden: Hidden | None) -> Loader:
        mask = None if hidden is None else mask_of(episodes, hidden)
        source = EpisodeWindows(Windows(episodes, masks=mask))
        return Loader(source, batch_size=4, seed=2, num_threads=0)

    loader = opened(HOLED)
    state = loader.state_after(next(iter(loader)))
    # The same frames for other reasons.
    same = {n: [(a, b, "gap") for a, b, _ in found] for n, found in HOLED.items() if n != 2}
    same[2] = [(0, 1, "gap"), (7, 11, "frozen")]
    opened(same).load_state_dict(state)
    for other in (TRIMMED, None):
        with pytest.raises(InputError, match=r"source\.mask: "):
            opened(other).load_state_dict(state)
