"""Windows of some episodes, by selection, ids or condition: exact over resumes, and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from datalake.episodes import EpisodeSet
from datalake.errors import InputError, NotFoundError, PredicateError, SchemaError
from datalake.lake import SELECTION_ROWS, Lake, Lineage, Selection, open_lake
from datalake.loader import Episodes, EpisodeWindows, Loader, Mixture, Selected, Weighted
from tests.loader.exactness import every_example_once, fixed, runs
from tests.loader.test_exactness import Real
from tests.robots import LENGTHS, write_robots

ENDS = np.cumsum(LENGTHS).tolist()
FRAMES = [list(range(end - length, end)) for end, length in zip(ENDS, LENGTHS, strict=True)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return open_lake(tmp_path_factory.mktemp("chosen") / "lake")


@pytest.fixture(scope="module")
def episodes(lake: Lake) -> EpisodeSet:
    made = write_robots(lake, video=False, image=False)
    lake.save_selection(select(made, [3, 0, 1]), lineage=Lineage("test"))
    return made


def select(episodes: EpisodeSet, rows: list[int], name: str = "three", **other: Any) -> Selection:
    """A selection of episodes with the weights 1, 2, 3, …"""
    table = episodes.episodes.take(rows, ["episode_id", "domain"])
    values = pa.table(
        {
            "row_index": pa.array(rows, pa.uint64()),
            "utt_id": table["episode_id"],
            "domain": table["domain"],
            "rank": pa.array(range(len(rows)), pa.uint64()),
            "weight": pa.array([1.0 + place for place in range(len(rows))]),
        },
        schema=SELECTION_ROWS,
    )
    arguments: dict[str, Any] = {
        "table": episodes.episodes.uri.rpartition("/")[2].removesuffix(".lance"),
        "table_version": episodes.version,
        "rows": values,
        "manifest": pa.table({"domain": ["robots"]}),
        "method": "by hand",
        "parameters": {},
    }
    return Selection(name, **{**arguments, **other})


def rows_of(loader: Loader) -> list[int]:
    return [row for batch in loader for row in batch["row_index"][~batch["is_pad"]].tolist()]


def in_order(source: Any) -> list[int]:
    return rows_of(Loader(source, batch_size=7, order="sequential", tail="short", num_threads=0))


def test_a_selection_of_episodes_is_of_all_their_frames(lake: Lake, episodes: EpisodeSet) -> None:
    source = EpisodeWindows.from_lake(lake, "g1", {"action": [0, 0.1]}, selection="three")
    assert in_order(source) == [*FRAMES[3], *FRAMES[0], *FRAMES[1]]
    loader = Loader(source, batch_size=5, num_threads=0)
    weights = {
        row: weight
        for batch in loader
        for row, weight in zip(batch["row_index"].tolist(), batch["weight"].tolist(), strict=True)
    }
    expected = {row: 1.0 + place for place, n in enumerate([3, 0, 1]) for row in FRAMES[n]}
    assert weights == expected
    assert loader.num_examples == len(expected)


def test_ids_and_conditions_choose_what_they_say(episodes: EpisodeSet) -> None:
    ids = EpisodeWindows(episodes, episode_ids=["robots/000003", "robots/000001"])
    assert in_order(ids) == [*FRAMES[3], *FRAMES[1]]
    humanoid = EpisodeWindows(episodes, where="embodiment = 'humanoid'")
    assert in_order(humanoid) == sorted(in_order(ids))
    assert in_order(EpisodeWindows(episodes)) == list(range(ENDS[-1]))
    # The twin: the same rows, found by another way.
    rows = humanoid.windows.episode_rows(where="embodiment = 'humanoid'")
    same = Selected(EpisodeWindows(episodes), rows)
    for order in ("exact", "blocks", "sequential"):
        found, twin = (
            rows_of(Loader(each, batch_size=4, order=order, seed=3, num_threads=0))  # type: ignore[arg-type]
            for each in (humanoid, same)
        )
        assert found == twin


def test_idle_frames_are_left_out(lake: Lake, episodes: EpisodeSet) -> None:
    read = episodes.episodes.scan().read_all().to_pylist()
    for row, (head, tail) in zip(read, [(2, 3), (0, 7), (None, 1), (9, 9), (0, 0)], strict=True):
        row |= {"idle_head": head, "idle_tail": tail}
    schema = episodes.episodes.schema
    table = lake.create("idle", schema, lineage=Lineage("test"))
    table = table.append(pa.Table.from_pylist(read, schema=schema))
    idle = EpisodeSet("idle", table, episodes.frames, episodes.videos, episodes.features)
    source = EpisodeWindows(idle, skip_idle=True)
    assert in_order(source) == source.windows.episode_rows(skip_idle=True).tolist()
    assert in_order(source) == [*FRAMES[0][2:-3], *FRAMES[2][:-1], *FRAMES[4]]
    chosen = EpisodeWindows(idle, where="embodiment = 'arm'").selection
    shorter = EpisodeWindows(idle, where="embodiment = 'arm'", skip_idle=True).selection
    assert chosen is not None
    assert shorter is not None
    assert chosen.digest != shorter.digest


def test_episodes_take_a_selection_too(lake: Lake, episodes: EpisodeSet) -> None:
    source = Episodes.from_lake(lake, "g1", ["action"], selection="three")
    assert in_order(source) == [3, 0, 1]


def test_domains_of_chosen_episodes_come_at_rates(lake: Lake, episodes: EpisodeSet) -> None:
    source = EpisodeWindows.from_lake(lake, "g1", selection="three")
    assert source.selection is not None
    names = sorted(set(source.selection.domains.to_pylist()))
    assert len(names) == 2
    even = Weighted(source, rates=dict.fromkeys(names, 1.0), examples_per_epoch=24)
    domains = source.domains(np.array(rows_of(Loader(even, batch_size=4, num_threads=0))))
    assert [domains.count(name) for name in names] == [12, 12]
    by_weight = Weighted(EpisodeWindows(episodes, where="length > 8"))
    rates = by_weight.sampler(seed=0).shares()
    of_frames: dict[str, float] = {}
    lengths = [length for length in LENGTHS if length > 8]
    domains_of = by_weight.source.selection.domains.to_pylist()  # type: ignore[attr-defined]
    for domain, length in zip(domains_of, lengths, strict=True):
        of_frames[domain] = of_frames.get(domain, 0.0) + length / sum(lengths)
    assert rates == pytest.approx(of_frames)


def test_a_part_of_a_mixture(episodes: EpisodeSet) -> None:
    data = Mixture({
        "arm": EpisodeWindows(episodes, where="embodiment = 'arm'"),
        "humanoid": EpisodeWindows(episodes, where="embodiment = 'humanoid'"),
    })  # fmt: skip
    assert sorted(rows_of(Loader(data, batch_size=8, num_threads=0))) == list(range(ENDS[-1]))


@pytest.mark.parametrize("order", ["exact", "blocks"])
def test_each_frame_once_over_any_resumes(episodes: EpisodeSet, order: Any) -> None:
    source = EpisodeWindows(episodes, selection=select(episodes, [3, 0, 1]))
    real = Real(source, order, 2)
    assert len(real.order) == sum(LENGTHS[row] for row in (3, 0, 1))

    @settings(deadline=None, max_examples=6)
    @given(runs(fixed(), max_runs=4))
    def holds(made: Any) -> None:
        every_example_once(real.stream(), made, real.order)

    holds()


def test_a_state_against_other_episodes_is_refused(lake: Lake, episodes: EpisodeSet) -> None:
    def loader(**chosen: Any) -> Loader:
        return Loader(EpisodeWindows(episodes, **chosen), batch_size=4, num_threads=0)

    first = loader(where="embodiment = 'arm'")
    batches = iter(first)
    next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    assert len(json.dumps(state)) < 1000
    same = loader(where="embodiment = 'arm' and length > 0")
    same.load_state_dict(state)
    assert next(iter(same))["row_index"].tolist() == next(batches)["row_index"].tolist()
    others: list[dict[str, Any]] = [
        {},
        {"where": "embodiment = 'humanoid'"},
        {"episode_ids": ["robots/000004", "robots/000002", "robots/000000"]},
        # The same frames with weights.
        {"selection": select(episodes, [0, 2, 4])},
    ]
    for chosen in others:
        with pytest.raises(InputError, match="selection"):
            loader(**chosen).load_state_dict(state)


def test_what_cannot_be_chosen(lake: Lake, episodes: EpisodeSet) -> None:
    chosen = select(episodes, [1, 2])
    with pytest.raises(InputError, match="in two ways"):
        EpisodeWindows(episodes, selection=chosen, where="length > 1")
    with pytest.raises(InputError, match="by their ids or by a condition"):
        EpisodeWindows(episodes, episode_ids=["robots/000001"], where="length > 1")
    with pytest.raises(NotFoundError, match="no episode 'robots/9'"):
        EpisodeWindows(episodes, episode_ids=["robots/9"])
    with pytest.raises(PredicateError):
        EpisodeWindows(episodes, where="length >")
    with pytest.raises(SchemaError):
        EpisodeWindows(episodes, where="height > 1")
    for make in (EpisodeWindows, Episodes):
        with pytest.raises(InputError, match="another version"):
            make(episodes, selection=select(episodes, [1], table_version=episodes.version + 1))
        renamed = chosen.rows.set_column(1, "utt_id", pa.array(["robots/000001", "robots/9"]))
        with pytest.raises(InputError, match="another table"):
            make(episodes, selection=replace(chosen, rows=renamed))
        with pytest.raises(InputError, match="another version"):
            make.from_lake(lake, "g1", selection="three", version=episodes.version + 1)
    with pytest.raises(NotFoundError, match="selection"):
        EpisodeWindows.from_lake(lake, "g1", selection="thre")
    write_robots(lake, "g4", source="d", video=False, image=False, lengths=(4,))
    with pytest.raises(InputError, match="another table"):
        EpisodeWindows.from_lake(lake, "g4", selection="three")
    source = EpisodeWindows(episodes, selection=chosen)
    with pytest.raises(InputError, match="in two ways"):
        Selected(source, [1, 2])
    with pytest.raises(InputError, match="another source"):
        Selected(EpisodeWindows(episodes), source.selection)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="nothing to stream"):
        Loader(EpisodeWindows(episodes, where="length > 99"))
