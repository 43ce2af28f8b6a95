"""Episodes, windows and rows: stores that refuse, and blocks that are done with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from datalake.blocks.origin import RefusedError
from datalake.episodes import EpisodeSet
from datalake.errors import CredentialsError, DiskFullError, StoreError
from datalake.lake import Lake, open_lake
from datalake.loader import Episodes, EpisodeWindows, Rows
from datalake.loader.sources import due
from datalake.loader.sources.source import Source
from tests.robots import LENGTHS, write_robots

NUM_FRAMES = sum(LENGTHS)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return open_lake(tmp_path_factory.mktemp("episodes") / "lake")


@pytest.fixture(scope="module")
def episodes(lake: Lake) -> EpisodeSet:
    return write_robots(lake, video=False, image=False)


def reader_of(source: Any) -> Any:
    return source.windows._reader if isinstance(source, EpisodeWindows) else source._reader


@pytest.mark.parametrize("kind", [RefusedError, CredentialsError, DiskFullError])
@pytest.mark.parametrize(
    "made",
    [Episodes, EpisodeWindows, lambda episodes: Rows(episodes.frames, ["timestamp"])],
)
def test_a_store_that_refuses_is_asked_once(
    episodes: EpisodeSet, kind: type[StoreError], made: Callable[[EpisodeSet], Source]
) -> None:
    source = made(episodes)
    reader, asked = reader_of(source), []

    def numbers(*_: Any, **__: Any) -> Any:
        asked.append(1)
        raise kind("The store kept refusing")

    reader.numbers = numbers
    with pytest.raises(kind):
        source.read(np.arange(4), np.zeros(4, np.uint64), np.empty)
    assert len(asked) == 1


def test_a_store_that_refuses_the_second_time_is_not_asked_again(episodes: EpisodeSet) -> None:
    for made in (Episodes, EpisodeWindows, lambda one: Rows(one.frames, ["timestamp"])):
        source = made(episodes)
        errors = [StoreError("Rows cannot be read"), RefusedError("The store kept refusing")]

        def numbers(*_: Any, errors: list[StoreError] = errors, **__: Any) -> Any:
            raise errors.pop(0)

        reader_of(source).numbers = numbers
        with pytest.raises(RefusedError):
            source.read(np.arange(4), np.zeros(4, np.uint64), np.empty)
        assert not errors


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_blocks_are_done_with_once_all_of_their_episodes_are(
    episodes: EpisodeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(due, "time", clock)
    source = Episodes(episodes, ["action"])
    told: list[tuple[int, int, float]] = []
    # Episodes begin at 0, 12, 19, 39 and 48.
    monkeypatch.setattr(source._reader, "block_rows", lambda _: 16)
    monkeypatch.setattr(
        source._reader,
        "expect",
        lambda _, rows, in_s: told.append((int(rows[0]), len(rows), in_s)),
    )

    def expect(rows: list[int], in_s: float) -> list[tuple[int, int, float]]:
        told.clear()
        source.expect(np.array(rows), in_s)
        return list(told)

    assert expect([0], 100.0) == []
    assert expect([4], 10.0) == [(48, 15, 10.0)]
    clock.now = 5.0
    assert expect([1], 200.0) == [(0, 16, 95.0)]
    assert expect([2, 3], 50.0) == [(16, 16, 50.0), (32, 16, 50.0)]
    # What is in use again is not done with.
    clock.now = 110.0
    assert expect([1], 30.0) == []


def test_whole_blocks_reach_the_cache(
    episodes: EpisodeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = EpisodeWindows(episodes)
    whole = Episodes(episodes)
    for source, count in ((windows, NUM_FRAMES), (whole, len(LENGTHS))):
        told: list[tuple[str, int]] = []
        monkeypatch.setattr(
            reader_of(source)._blocks,
            "expect",
            lambda layout, number, _, told=told: told.append((layout.column, number)),
        )
        source.expect(np.arange(count - 1), 10.0)
        assert not told
        source.expect(np.arange(count), 10.0)
        assert ("action", 0) in told
        assert {number for _, number in told} == {0}
