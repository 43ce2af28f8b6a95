"""Long films on a real S3-compatible server: a few windows fetch a small part of the film."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from datalake.blocks.cache import BlockCache
from datalake.blocks.origin import RefusedError
from datalake.episodes import EpisodeSet
from datalake.episodes.windows import Windows
from datalake.errors import StoreError
from datalake.lake import open_lake
from datalake.loader import EpisodeWindows, Loader
from datalake.telemetry import Meter
from datalake.uri import Location, StorageOptions
from datalake.video import VideoReader, concat, encode
from tests.episodes.test_cameras import FRONT, made
from tests.slow_store import SlowStore
from tests.video.clips import HEIGHT, WIDTH
from tests.video.test_probe import WHOLE

pytestmark = pytest.mark.s3

GROUP = 5
MIB = 1 << 20


@pytest.fixture(scope="module")
def store(s3_server: StorageOptions) -> Iterator[SlowStore]:
    with SlowStore(s3_server) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def film() -> bytes:
    """Noise, which takes many bytes a frame: the same second over and over."""
    noise = np.random.default_rng(0).integers(0, 256, (20, 240, 320, 3), np.uint8)
    second = encode(noise, fps=20, g=GROUP, crf=6, preset="ultrafast")
    file = io.BytesIO()
    concat([second] * (24 * MIB // len(second)), file)
    return file.getvalue()


def on_store(
    store: SlowStore, name: str, films: list[bytes], table_format: str = "lance"
) -> EpisodeSet:
    where = Location(f"s3://lake/{name}", store.options)
    return made(open_lake(where), "long", films, store=table_format)


@pytest.fixture(scope="module")
def episodes(store: SlowStore, film: bytes) -> EpisodeSet:
    return on_store(store, "films", [film])


def windows_of(episodes: EpisodeSet, folder: Path, **cache: int) -> Windows:
    return Windows(episodes, {FRONT: [0.0]}, cache=BlockCache(folder, **cache), num_threads=1)


def right(found: np.ndarray, film: bytes, numbers: list[int]) -> bool:
    with VideoReader(film) as reader:
        return np.array_equal(found[:, 0], reader.frames(numbers))


def test_a_few_windows_fetch_little_of_a_long_film(
    episodes: EpisodeSet, store: SlowStore, film: bytes, tmp_path: Path
) -> None:
    assert len(film) > 20 * MIB
    meter, windows = Meter(), windows_of(episodes, tmp_path)
    windows.attach(meter)
    numbers = [103, 101, 104, 103]
    store.counts(reset=True)
    assert right(windows.batch(numbers)[FRONT], film, numbers)
    # The block in which the index lies, and the one or two of the group.
    assert meter.counts()["origin_bytes"] < 13 * MIB
    assert store.counts(reset=True)["bytes"] < 13 * MIB
    # The next windows near them, and the next process, fetch nothing of the film.
    numbers = [102, 100]
    assert right(windows.batch(numbers)[FRONT], film, numbers)
    again = pickle.loads(pickle.dumps(windows))
    assert right(again.batch(numbers)[FRONT], film, numbers)
    assert store.counts(reset=True)["bytes"] < MIB


def test_scattered_windows_fetch_their_groups_alone(
    episodes: EpisodeSet, store: SlowStore, film: bytes, tmp_path: Path
) -> None:
    """Where the film does not fit in the cache."""
    windows = windows_of(episodes, tmp_path, budget_bytes=2 * MIB)
    source = EpisodeWindows(windows)
    loader = Loader(source, batch_size=4, num_threads=1)
    (view,) = loader._sampler.sources
    rows = np.array([7, 100, 171, 30])
    store.counts(reset=True)
    view.prefetch(rows).wait()
    fetched = store.counts()["bytes"]
    assert fetched > 0
    batch = view.read(rows, np.zeros(4, np.uint64), np.empty)
    assert right(batch[FRONT], film, rows.tolist())
    group_bytes = len(film) * GROUP // len(windows)
    # And a piece at either end of each, the index, and the small columns of the other tables.
    assert store.counts()["bytes"] < 4 * (group_bytes + (128 << 10)) + MIB
    assert store.counts()["bytes"] < len(film) / 4
    assert 4 * group_bytes < loader._meter.counts()["origin_bytes"] < len(film) / 4


def test_what_a_loader_gives_is_the_film(
    store: SlowStore, film: bytes, episodes: EpisodeSet, tmp_path: Path
) -> None:
    """All of it, fetched once, by blocks and by groups of two views of one source."""
    source = EpisodeWindows(windows_of(episodes, tmp_path), where="episode_index = 0")
    loader, other = (Loader(source, batch_size=16, num_threads=2) for _ in range(2))
    store.counts(reset=True)
    seen: list[int] = []
    with VideoReader(film) as reader:
        for batch in loader:
            rows = batch["row_index"].tolist()
            assert np.array_equal(batch[FRONT][:, 0].numpy(), reader.frames(rows))
            seen += rows
    assert set(seen) == set(range(len(source.windows)))
    assert store.counts()["bytes"] < len(film) + 2 * MIB
    assert loader.stats().counts["origin_bytes"] < len(film) + 2 * MIB
    assert other.stats().counts.get("origin_bytes", 0) == 0


@pytest.mark.parametrize("kind", ["delta", "matroska", "fragments"])
def test_films_of_other_kinds_are_read_all_the_same(
    store: SlowStore, tmp_path: Path, kind: str
) -> None:
    """Of Delta whole; through their container; of several fragments with a deleted row."""
    films = [WHOLE["matroska" if kind == "matroska" else "h264"](), WHOLE["hidden_group"]()]
    episodes = on_store(store, kind, films, table_format="delta" if kind == "delta" else "lance")
    if kind == "fragments":
        rows = episodes.videos.scan().read_all()
        gone = rows.slice(1).set_column(0, rows.schema.field(0), pa.array(["clips/9"]))
        first = pa.concat_tables([gone, rows.slice(0, 1)])
        videos = episodes.videos.overwrite(first).append(rows.slice(1))
        episodes = replace(episodes, videos=videos.delete("video_id = 'clips/9'"))
    local = made(open_lake(tmp_path / "lake"), "local", films)
    # Matroska's times are in milliseconds.
    asked = {"delta_indices": {FRONT: [0]}, "size": (WIDTH, HEIGHT), "tolerance_s": 1e-3}
    twin = Windows(local, **asked)  # type: ignore[arg-type]
    windows = Windows(episodes, cache=tmp_path / "cache", **asked)  # type: ignore[arg-type]
    assert windows.reads_to_prefetch == (kind != "delta")
    assert not twin.reads_to_prefetch
    rows = np.random.default_rng(1).permutation(len(twin))[:12]
    windows.prefetch(rows)
    assert np.array_equal(windows.batch(rows)[FRONT], twin.batch(rows)[FRONT])


def test_a_film_that_is_gone_is_named(store: SlowStore, tmp_path: Path) -> None:
    episodes = on_store(store, "gone", [WHOLE["h264"]()])
    windows = windows_of(episodes, tmp_path)
    # The facts are known.
    windows._cameras._films.infos([0], Meter())
    fs, path = Location(episodes.videos.uri, store.options).filesystem()
    fs.rm(f"{path}/data", recursive=True)
    with pytest.raises(StoreError, match=r"long_v.*version \d") as caught:
        windows.batch([3])
    assert not isinstance(caught.value, RefusedError)


def test_a_store_that_refuses_is_waited_for(
    store: SlowStore, episodes: EpisodeSet, film: bytes, tmp_path: Path
) -> None:
    meter, windows = Meter(), windows_of(episodes, tmp_path)
    windows.attach(meter)
    windows.batch([0])
    store.refuse(count=3, path="data")
    try:
        assert right(windows.batch([200])[FRONT], film, [200])
    finally:
        store.heal()
    assert meter.counts()["origin_reads"] > 0
