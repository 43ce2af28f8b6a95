"""The three tables of a set as one: versions, conflicts, crashes, care."""

from __future__ import annotations

import datetime as dt
import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from datalake.episodes import (
    EpisodeSet,
    create_episodes,
    episode_sets,
    open_episodes,
    set_of,
)
from datalake.episodes.care import cleanup_episodes, drop_episodes
from datalake.errors import (
    ConflictError,
    ExistsError,
    InputError,
    NotFoundError,
    SchemaError,
    StoreError,
)
from datalake.lake import Lake, Lineage, open_lake
from datalake.recording import Feature
from datalake.tables import Table
from tests.robots import LENGTHS, robot_features, robot_frames, write_robots

LINEAGE = Lineage("test")
ZERO = dt.timedelta(0)
_numbers = itertools.count()


@pytest.fixture(params=["lance", "delta", "memory"])
def lake_and_format(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Lake, str]:
    kept_as = request.param
    uri = f"memory://sets{next(_numbers)}" if kept_as == "memory" else str(tmp_path / "lake")
    return open_lake(uri), "lance" if kept_as == "memory" else kept_as


@pytest.fixture
def lake(lake_and_format: tuple[Lake, str]) -> Lake:
    return lake_and_format[0]


@pytest.fixture
def g1(lake_and_format: tuple[Lake, str]) -> EpisodeSet:
    lake, kept_as = lake_and_format
    return write_robots(lake, format=kept_as)


def add(g1: EpisodeSet, number: int, length: int = 4) -> EpisodeSet:
    """Append one episode as a writer does."""
    writing = g1.to_write()
    row = writing.episodes.take([0]).to_pylist()[0]
    row |= {"episode_id": f"robots/{number:06d}", "episode_index": number, "length": length}
    pieces = writing.episodes.stager().write(pa.Table.from_pylist([row], writing.episodes.schema))
    staged = writing.frames.stager().write(robot_frames(number, length))
    frames = writing.frames.commit(staged, expected_version=writing.frames.version)
    return writing.publish(pieces, frames=frames, lineage=LINEAGE)


def remove(g1: EpisodeSet, row: int) -> EpisodeSet:
    """Remove one episode as a writer does."""
    writing = g1.to_write()
    starts = writing.index.starts
    frames = writing.frames.commit([], removing=range(starts[row], starts[row + 1]))
    return writing.publish([], removing=[row], frames=frames, lineage=LINEAGE)


def frame_ids(of: EpisodeSet) -> list[str]:
    return of.frames.scan(["episode_id"]).read_all()["episode_id"].to_pylist()


def assert_whole(of: EpisodeSet) -> None:
    """The frames of each episode stand where the index says, in order."""
    ids, index = frame_ids(of), of.index
    expected = np.repeat(index.episode_ids.to_pylist(), index.lengths).tolist()
    assert ids == expected
    numbers = of.frames.scan(["frame_index"]).read_all()["frame_index"].to_pylist()
    assert numbers == [i for length in index.lengths for i in range(length)]


def test_a_set_opens_as_it_was_written(lake: Lake, g1: EpisodeSet) -> None:
    opened = open_episodes(lake, "g1")
    assert opened.features == g1.features == robot_features()
    assert opened.version == g1.version
    assert opened.index.lengths.tolist() == list(LENGTHS)
    assert_whole(opened)
    third = opened.index.starts[2] + np.arange(3)
    wanted = robot_frames(2, LENGTHS[2]).slice(0, 3)
    assert opened.frames.take(third).equals(wanted)
    assert opened.index.episode_at(np.array([0, 11, 12, 62])).tolist() == [0, 0, 1, 4]
    assert episode_sets(lake) == ["g1"]
    assert [set_of(lake, name) for name in ("g1.frames", "g1", "x.frames")] == ["g1", None, None]


def test_names_are_told(lake: Lake, g1: EpisodeSet) -> None:
    with pytest.raises(NotFoundError, match="g1"):
        open_episodes(lake, "g11")
    with pytest.raises(NotFoundError, match="robots/000004"):
        g1.index.row_of("robots/00004")
    with pytest.raises(NotFoundError, match=r"observation\.state"):
        g1.feature("observation.stat")
    with pytest.raises(NotFoundError):
        open_episodes(lake, "g1", 999)
    with pytest.raises(ExistsError, match="datalake rm g1"):
        create_episodes(lake, "g1", (), lineage=LINEAGE)
    assert open_episodes(lake, "g1").version == g1.version


def test_episodes_are_chosen_by_id_or_condition(g1: EpisodeSet) -> None:
    assert g1.rows().tolist() == [0, 1, 2, 3, 4]
    assert g1.rows(where="length > 10 AND success").tolist() == [0, 4]
    assert g1.rows(episode_ids=["robots/000003", "robots/000000"]).tolist() == [3, 0]
    assert g1.rows(episode_ids=[]).tolist() == []
    with pytest.raises(InputError, match="twice"):
        g1.rows(episode_ids=["robots/000003"] * 2)
    with pytest.raises(InputError, match="both"):
        g1.rows(episode_ids=[], where="TRUE")
    with pytest.raises(SchemaError, match="length"):
        g1.rows(where="lenght > 3")


def test_features_that_cannot_be_columns_are_refused(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    for names in (["a", "a"], ["a.b", "a/b"], ["timestamp"]):
        features = [Feature(name, "float32") for name in names]
        with pytest.raises(InputError):
            create_episodes(lake, "x", features, lineage=LINEAGE)
    assert lake.tables() == []


def test_an_empty_set_is_a_set(lake_and_format: tuple[Lake, str]) -> None:
    lake, kept_as = lake_and_format
    create_episodes(lake, "new", robot_features(), format=kept_as, lineage=LINEAGE)
    new = open_episodes(lake, "new")
    assert len(new.index.episode_ids) == 0
    assert new.index.starts.tolist() == [0]
    assert new.rows(where="length > 1").tolist() == []
    made = new.publish([], lineage=LINEAGE)
    assert made.version > new.version


def test_versions_stay_whole(lake: Lake, g1: EpisodeSet) -> None:
    more = add(g1, 5)
    less = remove(more, 1)
    assert less.index.lengths.tolist() == [12, 20, 9, 15, 4]
    for version in (g1, more, less):
        again = open_episodes(lake, "g1", version.version)
        assert again.index.lengths.tolist() == version.index.lengths.tolist()
        assert_whole(again)
    back = g1.restore(lineage=LINEAGE)
    assert back.version > less.version
    assert_whole(back)
    assert open_episodes(lake, "g1").index.lengths.tolist() == list(LENGTHS)
    assert_whole(add(back, 6))


def test_of_two_writers_the_later_one_is_refused(lake: Lake, g1: EpisodeSet) -> None:
    mine = remove(g1, 0)
    row = g1.episodes.stager().write(g1.episodes.take([0]))
    for act in (
        lambda: g1.publish(row, lineage=LINEAGE),
        lambda: g1.publish([], removing=[0], lineage=LINEAGE),
        lambda: g1.rewrite(g1.episodes.take([0]), lineage=LINEAGE),
        lambda: g1.compact(lineage=LINEAGE),
    ):
        with pytest.raises(ConflictError):
            act()
    assert open_episodes(lake, "g1").version == mine.version
    assert_whole(open_episodes(lake, "g1"))


def test_a_writer_between_another_ones_steps_wins(lake: Lake, g1: EpisodeSet) -> None:
    slow = g1.to_write()
    frames = slow.frames.commit([], removing=range(12))
    # The quick one undoes what the slow one has not published, and publishes.
    quick = add(g1, 5)
    with pytest.raises(ConflictError):
        slow.publish([], removing=[0], frames=frames, lineage=LINEAGE)
    latest = open_episodes(lake, "g1")
    assert latest.version == quick.version
    assert latest.index.lengths.tolist() == [*LENGTHS, 4]
    assert_whole(latest)
    assert_whole(remove(latest, 0))


STEPS = ("commit", "tag", "overwrite", "append", "restore", "compact")


class _DyingError(Exception):
    pass


def _dies_at(step: int, monkeypatch: pytest.MonkeyPatch, kind: type[Table]) -> Iterator[int]:
    """Let the process die at the step of that number, before or after it is done."""
    seen = itertools.count()

    def dying(method: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            number = next(seen)
            if number == step:
                raise _DyingError
            done = method(*args, **kwargs)
            if number + 0.5 == step:
                raise _DyingError
            return done

        return called

    with monkeypatch.context() as patch:
        for name in STEPS:
            patch.setattr(kind, name, dying(getattr(kind, name)))
        yield step


@pytest.mark.parametrize("write", [add, remove, "compact", "restore"])
def test_a_writer_may_die_at_any_step(
    lake: Lake, g1: EpisodeSet, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    g1 = add(g1, 7)
    g1 = remove(g1, 1)
    before = frame_ids(g1)
    acts = {
        "compact": lambda of: of.to_write().compact(lineage=LINEAGE),
        "restore": lambda of: of.at(g1.version).restore(lineage=LINEAGE),
    }
    act = acts.get(write, lambda of: write(of, 8) if write is add else remove(of, 0))
    finished = False
    # Delta takes its time; what dies between the steps is the same everywhere.
    for half in range(0, 60, 3 if g1.frames.format == "delta" else 1):
        for _ in _dies_at(half / 2, monkeypatch, type(g1.frames)):
            try:
                act(open_episodes(lake, "g1"))
                finished = True
            except _DyingError:
                pass
        left = open_episodes(lake, "g1")
        assert_whole(left)
        if finished:
            break
        # Either nothing has happened, or all of it; the next writer goes on from there.
        if frame_ids(left) != before:
            left = g1.restore(lineage=LINEAGE)
            assert frame_ids(left) == before
    assert finished
    cleanup_episodes(lake, "g1", older_than=ZERO)
    assert_whole(open_episodes(lake, "g1"))
    assert_whole(add(open_episodes(lake, "g1"), 9))


def test_creating_may_die_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = open_lake(tmp_path / "lake")
    create = Lake.create
    for step in range(3):
        calls = itertools.count()

        def dying(*args: Any, calls: Any = calls, step: int = step, **kwargs: Any) -> Table:
            if next(calls) == step:
                raise _DyingError
            return create(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(Lake, "create", dying)
            with pytest.raises(_DyingError):
                write_robots(lake, video=False, image=False)
        assert episode_sets(lake) == []
    assert_whole(write_robots(lake, video=False, image=False))


def test_of_two_who_create_a_set_one_does(
    lake_and_format: tuple[Lake, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes the episodes has the frames that it made, whatever the other one did."""
    lake, kept_as = lake_and_format
    create = Lake.create

    def overtaken(*args: Any, **kwargs: Any) -> Table:
        if args[1] == "g1.episodes":
            monkeypatch.undo()
            write_robots(lake, dim=4, image=False, video=False, format=kept_as)
        return create(*args, **kwargs)

    monkeypatch.setattr(Lake, "create", overtaken)
    with pytest.raises(ExistsError, match="is taken"):
        write_robots(lake, format=kept_as)
    assert_whole(open_episodes(lake, "g1"))
    assert open_episodes(lake, "g1").feature("action").shape == (4,)
    assert_whole(add_like(lake, dim=4))


def add_like(lake: Lake, *, dim: int) -> EpisodeSet:
    """A writer comes along, of other numbers than `add`."""
    writing = open_episodes(lake, "g1").to_write()
    row = writing.episodes.take([0]).to_pylist()[0] | {"episode_id": "robots/000009", "length": 4}
    pieces = writing.episodes.stager().write(pa.Table.from_pylist([row], writing.episodes.schema))
    frames = writing.frames.append(robot_frames(9, 4, dim=dim, image=False))
    return writing.publish(pieces, frames=frames, lineage=LINEAGE)


def test_a_name_is_free_again_though_removal_died(lake: Lake, g1: EpisodeSet) -> None:
    lake.drop(f"{g1.name}.episodes")
    assert_whole(write_robots(lake, format=g1.frames.format.replace("memory", "lance")))


def test_a_set_travels(tmp_path: Path) -> None:
    g1 = write_robots(open_lake(tmp_path / "lake"), image=False)
    for handle in (g1, open_episodes(open_lake(tmp_path / "lake"), "g1")):
        arrived = pickle.loads(pickle.dumps(handle))
        assert arrived.features == g1.features
        assert_whole(arrived)


def test_compaction_keeps_the_set(lake: Lake, g1: EpisodeSet) -> None:
    for number in (5, 6, 7):
        g1 = add(g1, number)
    g1 = remove(g1, 2)
    before, ids = g1.frames.scan().read_all(), g1.index.episode_ids.to_pylist()
    videos = g1.videos.scan().read_all()
    made = g1.to_write().compact(lineage=Lineage("compact"))
    assert made.version > g1.version
    opened = open_episodes(lake, "g1")
    assert opened.version == made.version
    assert opened.frames.scan().read_all().equals(before)
    assert opened.videos.scan().read_all().equals(videos)
    assert opened.index.episode_ids.to_pylist() == ids
    if made.episodes.format != "memory":
        # There is nothing left to gain.
        assert made.to_write().compact(lineage=Lineage("compact")).version == made.version


def test_cleaning_up_takes_whole_versions(lake: Lake, g1: EpisodeSet) -> None:
    g1.episodes.tag("first")
    middle = add(g1, 5)
    latest = remove(middle, 0)
    age = dt.timedelta(days=14)
    assert cleanup_episodes(lake, "g1", older_than=age).num_versions == 0
    planned = cleanup_episodes(lake, "g1", older_than=ZERO, dry_run=True)
    assert_whole(open_episodes(lake, "g1", middle.version))
    done = cleanup_episodes(lake, "g1", older_than=ZERO)
    # Creating a set makes two versions; the middle one is the third.
    assert planned.num_versions == done.num_versions == 3
    for version in (g1, latest):
        assert_whole(open_episodes(lake, "g1", version.version))
    with pytest.raises(NotFoundError):
        open_episodes(lake, "g1", middle.version)
    # What nobody needs any more goes the next time.
    g1.episodes.untag("first")
    assert cleanup_episodes(lake, "g1", older_than=ZERO).num_versions == 1
    versions = [info.version for info in latest.frames.versions()]
    assert versions == [latest.frames.version]
    assert_whole(add(open_episodes(lake, "g1"), 6))


def test_a_version_that_no_operation_made_is_told(lake: Lake, g1: EpisodeSet) -> None:
    lake["g1.episodes"].append(g1.episodes.take([0]))
    with pytest.raises(NotFoundError, match="episodes restore g1"):
        open_episodes(lake, "g1")
    open_episodes(lake, "g1", g1.version).restore(lineage=LINEAGE)
    assert_whole(open_episodes(lake, "g1"))


def test_frames_that_do_not_fit_are_told(g1: EpisodeSet) -> None:
    wrong = g1.publish([], removing=[0], lineage=LINEAGE)
    with pytest.raises(StoreError, match="restore g1"):
        _ = wrong.index


def test_a_set_is_removed_whole(lake: Lake, g1: EpisodeSet) -> None:
    drop_episodes(lake, "g1")
    assert lake.tables() == []
    with pytest.raises(NotFoundError):
        drop_episodes(lake, "g1")
