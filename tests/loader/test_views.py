"""Loaders of one source: each counts, and reads in its own order, whatever the others do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalake.blocks.cache import BlockCache
from datalake.episodes import EpisodeSet
from datalake.episodes.windows import FrameStream, Windows
from datalake.lake import open_lake
from datalake.loader import (
    Episodes,
    EpisodeWindows,
    Loader,
    Mixture,
    Rows,
    Utterances,
    Weighted,
)
from datalake.loader.engine.scattered import Scatterable
from datalake.loader.planning import Setting, plan
from datalake.tables import Table, create_table
from tests.blocks import made
from tests.loader import corpus
from tests.robots import CAMERA, WRIST, write_robots

KINDS = ["utterances", "rows", "windows", "episodes"]


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory) -> EpisodeSet:
    return write_robots(open_lake(tmp_path_factory.mktemp("views") / "lake"))


@pytest.fixture(scope="module")
def make(stored: Table, episodes: EpisodeSet) -> Callable[[str, Path], Any]:
    def made(kind: str, folder: Path) -> Any:
        cache = BlockCache(folder)
        if kind == "utterances":
            return Utterances(stored, num_samples=100, columns=["utt_id"], cache=cache)
        if kind == "rows":
            return Rows(stored, ["utt_id", "label"], cache=cache)
        if kind == "episodes":
            return Episodes(episodes, ["action"], cache=cache)
        arm = FrameStream(episodes, columns=["action"])
        return EpisodeWindows(
            Windows(episodes, {CAMERA: [-0.1, 0]}, streams={"arm": arm}, cache=cache, num_threads=1)
        )

    return made


def work(loader: Loader) -> dict[str, int]:
    return dict(loader.stats().counts)


@pytest.mark.parametrize("kind", KINDS)
def test_each_loader_counts_its_own(kind: str, make: Any, tmp_path: Path) -> None:
    source = make(kind, tmp_path)
    first = Loader(source, batch_size=4, num_threads=1)
    second = Loader(source, batch_size=4, num_threads=1)
    num_batches = len(list(first))
    assert sum(work(first).values()) > 0
    assert work(second) == {}
    assert second.stats().num_batches == 0
    for _ in second:
        pass
    assert sum(work(second).values()) > 0
    assert first.stats().num_batches == num_batches


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_gives_the_same_and_leaves_the_source_alone(
    kind: str, make: Any, tmp_path: Path
) -> None:
    source = make(kind, tmp_path)
    view, rows = source.view(), np.array([3, 0, 2])
    words = np.arange(3).astype(np.uint64)
    assert type(view) is type(source)
    expected, found = (each.read(rows, words, np.empty) for each in (source, view))
    again = pickle.loads(pickle.dumps(view)).read(rows, words, np.empty)
    assert expected.keys() == found.keys() == again.keys()
    for key, values in expected.items():
        assert np.array_equal(np.array(values), np.array(found[key]))
        assert np.array_equal(np.array(values), np.array(again[key]))
    assert (view.identity(), view.kind, view.block_rows) == (
        source.identity(),
        source.kind,
        source.block_rows,
    )


def test_views_share_what_is_large(make: Any, tmp_path: Path) -> None:
    speech = make("utterances", tmp_path / "speech")
    speech.read(np.arange(4), np.zeros(4, np.uint64), np.empty)
    view = speech.view()
    mapped = speech._reader._mapped["audio"]
    assert mapped is not None
    assert view._reader._mapped["audio"] is mapped
    assert view._reader.cache is speech._reader.cache
    robots = make("windows", tmp_path / "robots")
    films = robots.windows._cameras._films
    view = robots.view()
    view.read(np.arange(4), np.zeros(4, np.uint64), np.empty)
    assert view.windows._cameras._films is films
    assert len(films) == 1


def test_the_parts_of_a_mixture_count_to_their_loader(make: Any, tmp_path: Path) -> None:
    """A source that two parts share, and another loader has, too."""
    source = make("utterances", tmp_path)
    chosen = corpus.select(list(range(0, 53, 2)), version=source.table.version)
    data = Mixture({"all": source, "even": Weighted(source, chosen)})
    alone, mixed = Loader(source, batch_size=8), Loader(data, batch_size=8)
    rows = [row for batch in mixed for row in batch["row_index"].tolist()]
    assert len(rows) > 53
    assert sum(work(mixed).values()) > 0
    assert work(alone) == {}
    assert len({id(each) for each in mixed._sampler.sources}) == 2
    # A state of the one says the same of the other.
    mixed.load_state_dict(Loader(data, batch_size=4).state_dict())


def test_loaders_that_travel_together_stay_apart(make: Any, tmp_path: Path) -> None:
    source = make("rows", tmp_path)
    pair = [Loader(source, batch_size=8, num_threads=0) for _ in range(2)]
    first, second = pickle.loads(pickle.dumps(pair))
    for _ in first:
        pass
    assert sum(work(first).values()) > 0
    assert work(second) == {}


def test_decoded_pictures_are_counted_where_they_are_read(
    episodes: EpisodeSet, tmp_path: Path
) -> None:
    windows = Windows(episodes, columns=[WRIST], keep="decoded", cache=tmp_path, num_threads=1)
    source = EpisodeWindows(windows)
    first, second = (Loader(source, batch_size=8, num_threads=1) for _ in range(2))
    for loader in (first, first, second):
        for _ in loader:
            pass
    num_frames = first.num_examples + 7 & ~7
    assert work(first)["pictures_kept"] >= first.num_examples
    assert num_frames >= work(second)["pictures_kept"] >= second.num_examples


def test_the_order_of_one_loader_is_not_that_of_another(tmp_path: Path) -> None:
    """What is scattered for the one is read by blocks for the other, made before or after."""
    data = made.rows(64, nulls=False, media_bytes=300_000)
    table = create_table(tmp_path / "t.delta", data.schema, format="delta").append(data)
    cache = BlockCache(tmp_path / "cache", budget_bytes=6 << 20)
    source = Rows(table, ["audio"], cache=cache)
    assert isinstance(source, Scatterable)
    blocks = Loader(source, batch_size=4, order="blocks", working_set=1)
    exact = Loader(source, batch_size=4)
    later = Loader(source, batch_size=4, order="blocks", working_set=1)
    (first,), (other,), (last,) = (each._sampler.sources for each in (blocks, exact, later))
    found = [each._reader._sparse for each in (first, other, last)]  # type: ignore[attr-defined]
    assert found == [False, True, False]
    assert not source._reader._sparse


def test_a_plan_leaves_the_counts_of_its_loader(make: Any, tmp_path: Path) -> None:
    loader = Loader(make("rows", tmp_path), batch_size=4)
    plan(loader, Setting(batch_size=4), calibrate_s=0.01)
    assert work(loader) == {}
    assert loader.stats().num_batches == 0
