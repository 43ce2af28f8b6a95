"""Clips kept decoded: the same batches, and the second time nothing is decoded."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from datalake.audio import inspect
from datalake.blocks.cache import BlockCache
from datalake.errors import InputError
from datalake.loader.sources import cutting
from datalake.loader.sources.due import Due
from datalake.loader.sources.source import BadRowsError, Columns
from datalake.loader.sources.utterances import Utterances
from datalake.quarantine import Reason
from datalake.schema import UTTERANCES
from datalake.tables import Table, create_table, open_table
from datalake.telemetry import Meter
from tests.audio.clips import CLIPS, by_soundfile
from tests.loader.sources.test_utterances import allocate, words

CLIPS_HERE = [clip.data(num_channels) for clip in CLIPS.values() for num_channels in (1, 2)]
PLAIN = [row for row, data in enumerate(CLIPS_HERE) if inspect(data).codec == "pcm_s16le"]
# Rows whose duration is unknown, and wrong.
UNKNOWN, WRONG, BROKEN = len(CLIPS_HERE), len(CLIPS_HERE) + 1, len(CLIPS_HERE) + 2


def rows() -> pa.Table:
    flac = by_soundfile("FLAC", "PCM_16")
    audio = [*CLIPS_HERE, flac, flac, flac[:2000]]
    infos = [inspect(data) for data in (*CLIPS_HERE, flac, flac, flac)]
    count = len(audio)
    durations: list[float | None] = [info.duration_s for info in infos]
    durations[UNKNOWN], durations[WRONG] = None, 0.25
    columns: dict[str, Any] = {name: [None] * count for name in UTTERANCES.names}
    columns |= {
        "utt_id": [f"made/{row}" for row in range(count)],
        "source": ["made"] * count,
        "duration_s": durations,
        "sample_rate_hz": [info.sample_rate_hz for info in infos],
        "num_channels": [info.num_channels for info in infos],
        "codec": [info.codec for info in infos],
        "audio": audio,
    }
    return pa.table(columns, schema=UTTERANCES)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("kept") / "corpus.lance"
    create_table(made, UTTERANCES).append(rows())
    return made


@pytest.fixture
def stored(path: Path) -> Table:
    return open_table(path)


def read(source: Utterances, chosen: Sequence[int], key: int = 7) -> Columns:
    array = np.array(chosen, np.int64)
    return source.read(array, words(array, key), allocate)


def assert_same(first: Columns, second: Columns) -> None:
    assert first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


@pytest.mark.parametrize("rate_hz", [16_000, 11_025])
@pytest.mark.parametrize("length", [3_000, None])
def test_batches_are_the_same_and_nothing_is_decoded_twice(
    stored: Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    length: int | None,
    rate_hz: int,
) -> None:
    chosen = [row for row in range(BROKEN) if row % 5 != 3]
    arguments: dict[str, Any] = {"num_samples": length, "sample_rate_hz": rate_hz}
    expected = Utterances(stored, **arguments)
    source = Utterances(stored, cache=tmp_path / "cache", keep="decoded", **arguments)
    meter = Meter()
    source.attach(meter)
    assert_same(read(source, chosen), read(expected, chosen))
    not_kept = {UNKNOWN, WRONG} | (set(PLAIN) if rate_hz == 16_000 else set())
    kept = [row for row in chosen if row not in not_kept]
    assert "decoded_hits" not in meter.counts()
    assert meter.counts()["decoded_of_other_length"] == 1

    again = read(expected, kept[::-1], 8)

    def refuse(*given: Any) -> None:
        raise AssertionError("a clip is decoded again")

    monkeypatch.setattr(cutting, "open_clip", refuse)
    # Another epoch, another process, another order.
    for reader in (source, pickle.loads(pickle.dumps(source))):
        reader.attach(meter)
        assert_same(read(reader, kept[::-1], 8), again)
    assert meter.counts()["decoded_hits"] == 2 * len(kept)


def test_broken_clips_are_named(stored: Table, tmp_path: Path) -> None:
    source = Utterances(stored, cache=tmp_path, keep="decoded")
    for _ in range(2):
        with pytest.raises(BadRowsError) as error:
            read(source, [0, BROKEN, 2])
        assert [(one.row, one.reason) for one in error.value.bad] == [(BROKEN, Reason.TRUNCATED)]


def test_a_cache_without_room_keeps_nothing(stored: Table, tmp_path: Path) -> None:
    chosen = list(range(20))
    source = Utterances(
        stored, cache=BlockCache(tmp_path, budget_bytes=100_000), keep="decoded", num_samples=100
    )
    expected = Utterances(stored, num_samples=100)
    for key in (1, 2):
        assert_same(read(source, chosen, key), read(expected, chosen, key))


def test_what_is_kept_need_not_be_fetched(stored: Table, tmp_path: Path) -> None:
    source = Utterances(stored, cache=tmp_path, keep="decoded")
    chosen = np.array([row for row in range(20) if row not in PLAIN])
    assert source._kept is not None
    assert source._kept.missing(chosen).tolist() == chosen.tolist()
    source.prefetch(chosen).wait()
    read(source, chosen.tolist())
    assert source._kept.missing(chosen).size == 0
    source.expect(chosen, 10)


def test_a_run_is_done_with_once_all_of_its_blocks_are(
    stored: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Utterances(stored, cache=tmp_path, keep="decoded")
    kept, count = source._kept, source.num_rows
    assert kept is not None
    read(source, [row for row in range(20) if row not in PLAIN])
    kept._piece_rows, kept._due = 8, Due(-(-count // 8))
    told: list[float] = []
    monkeypatch.setattr(kept._cache, "expect", lambda key, in_s: told.append(in_s))
    kept.expect(np.arange(8), 50)
    kept.expect(np.arange(8, count - 1), 20)
    assert not told
    kept.expect(np.arange(8 * ((count - 1) // 8), count), 90)
    assert told == [pytest.approx(20, abs=5)]


def test_tables_that_cannot_be_kept_are_refused(table: Table, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="duration_s and no sample_rate_hz"):
        Utterances(table, cache=tmp_path, keep="decoded")
    here = create_table("memory://kept/here", UTTERANCES, format="memory")
    with pytest.raises(InputError, match="in memory"):
        Utterances(here, cache=tmp_path, keep="decoded")
