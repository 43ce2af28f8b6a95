"""Killed at any step and run again, an ingest of episodes leaves what an undisturbed one does."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.episodes import EpisodeSet, episode_sets, open_episodes
from datalake.lake import Lake, open_lake
from datalake.pipelines import ingest
from datalake.pipelines.episodes import stage, videos, work
from datalake.pipelines.episodes.publish import EpisodePublisher
from datalake.pipelines.episodes.quarantine import EpisodeQuarantine
from tests.pipelines.episodes.corpora import ToyCorpus, contents, refused_episodes, toy, video

_fresh = itertools.count()


class Crash(BaseException):
    """The process is gone: nothing may catch this and tidy up the tables."""


STEPS: list[tuple[Any, str]] = [
    (work, "create_episodes"),
    (videos, "stage_videos"),
    (stage, "stage_episodes"),
    (EpisodeQuarantine, "put"),
    (EpisodePublisher, "_commit"),
    (EpisodeSet, "publish"),
    (EpisodeQuarantine, "resolve"),
    (EpisodePublisher, "_drop_videos"),
]


@contextmanager
def crash(step: int, nth: int, *, after: bool) -> Iterator[None]:
    """Crash at the `nth` call of a step, before it does anything or when it is done."""
    owner, name = STEPS[step]
    original: Callable[..., object] = getattr(owner, name)
    calls = itertools.count()

    def crashing(*args: object, **options: object) -> object:
        mine = next(calls)
        if mine == nth and not after:
            raise Crash
        result = original(*args, **options)
        if mine == nth:
            raise Crash
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, crashing)
        yield


@pytest.fixture(autouse=True)
def one_item_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file and each episode is a unit and a group of its own: many moments to crash at."""
    monkeypatch.setattr(work, "cut", lambda items, *_, **__: ([item] for item in items))


def run(lake: Lake, corpus: ToyCorpus) -> None:
    options: dict[str, Any] = {"connector": "toy", "executor": "local", "commit_every_s": 0}
    ingest(lake, corpus.root, "g1", **options)


def state(lake: Lake) -> tuple[object, ...]:
    """All that a run leaves, in whatever order episodes came in."""
    g1 = open_episodes(lake, "g1")
    episodes, frames, files = contents(g1)
    # Each episode with the frames that lie where its row says.
    starts = g1.index.starts
    whole = [
        (episode, frames[start:end])
        for episode, start, end in zip(episodes, starts[:-1], starts[1:], strict=True)
    ]
    for episode, own in whole:
        assert {frame["episode_id"] for frame in own} == {episode["episode_id"]}
    return sorted(whole, key=lambda pair: str(pair[0]["episode_id"])), files, refused_episodes(lake)


def change(corpus: ToyCorpus) -> None:
    """A bit of everything: new, changed, mended, broken, gone."""
    corpus.add(5)
    corpus.episodes[1] |= {"length": 6, "seed": 77}
    corpus.put("videos/000001.mp4", video(6, 77))
    corpus.episodes[2] |= {"task": "another"}
    corpus.episodes[4]["fault"] = None
    corpus.episodes[0]["fault"] = "nan"
    del corpus.episodes[3]
    corpus.write()


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> tuple[ToyCorpus, ToyCorpus]:
    """The dataset as it is first, and as it is later: the same name, two folders."""
    folder = tmp_path_factory.mktemp("crashes")
    made = []
    for when in ("first", "later"):
        corpus = toy(folder / when / "toys", 4)
        corpus.add(5, fault="nan")
        corpus.add(5, video="videos/gone.mp4")
        made.append(corpus.write())
    change(made[1])
    return made[0], made[1]


@pytest.fixture(scope="module")
def undisturbed(corpora: tuple[ToyCorpus, ToyCorpus]) -> list[tuple[object, ...]]:
    from tests.pipelines.episodes.corpora import registered

    lake = open_lake(f"memory://undisturbed{next(_fresh)}")
    states = []
    with registered():
        for corpus in corpora:
            run(lake, corpus)
            states.append(state(lake))
    return states


CRASHES = st.lists(
    st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 7), st.booleans()),
    min_size=1,
    max_size=3,
)


@settings(
    max_examples=15,
    deadline=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(first=CRASHES, later=CRASHES)
def test_crashes_leave_no_trace(
    corpora: tuple[ToyCorpus, ToyCorpus],
    undisturbed: list[tuple[object, ...]],
    first: list[tuple[int, int, bool]],
    later: list[tuple[int, int, bool]],
) -> None:
    lake = open_lake(f"memory://crashes{next(_fresh)}")
    for corpus, crashes, expected in zip(corpora, (first, later), undisturbed, strict=True):
        for step, nth, after in crashes:
            with crash(step, nth, after=after):
                try:
                    run(lake, corpus)
                except Crash:
                    if "g1" in episode_sets(lake):
                        state(lake)
        run(lake, corpus)
        assert state(lake) == expected


@pytest.fixture(scope="module", params=["lance", "delta"])
def stored(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    corpora: tuple[ToyCorpus, ToyCorpus],
) -> Path:
    """A lake on disk that holds the first dataset; to be copied."""
    from tests.pipelines.episodes.corpora import registered

    place = tmp_path_factory.mktemp("stored") / request.param
    with registered():
        options: dict[str, Any] = {"connector": "toy", "executor": "local"}
        ingest(open_lake(place), corpora[0].root, "g1", format=request.param, **options)
    return place


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(1, len(STEPS)), ids=[name for _, name in STEPS[1:]])
def test_a_crash_at_each_step_on_stored_tables(
    tmp_path: Path,
    corpora: tuple[ToyCorpus, ToyCorpus],
    undisturbed: list[tuple[object, ...]],
    stored: Path,
    step: int,
    after: bool,
) -> None:
    shutil.copytree(stored, tmp_path / "lake")
    lake = open_lake(tmp_path / "lake")
    before = state(lake)
    with crash(step, 0, after=after), pytest.raises(Crash):
        run(lake, corpora[1])
    # What a reader sees is whole, too.
    assert len(state(lake)) == len(before)
    run(lake, corpora[1])
    assert state(lake) == undisturbed[1]


def test_videos_that_were_read_are_not_read_again(tmp_path: Path) -> None:
    corpus = toy(tmp_path / "toys", 4)
    lake = open_lake(tmp_path / "lake")
    with crash(1, 2, after=False), pytest.raises(Crash):
        run(lake, corpus)
    assert open_episodes(lake, "g1").videos.count_rows() == 2
    report = ingest(lake, corpus.root, "g1", connector="toy", executor="local")
    assert (report.num_added, report.num_videos_added, report.num_videos_held) == (4, 2, 2)  # type: ignore[union-attr]
