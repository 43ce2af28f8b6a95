"""Utterances: what a batch holds, whatever else is in it; and what is said of rows that are bad."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.audio import decode, encode_flac
from datalake.errors import InputError, NotFoundError, SchemaError, StoreError
from datalake.lake import Lake, Lineage, open_lake
from datalake.loader.order.hashing import mix
from datalake.loader.sources.clips import Crop, Pad
from datalake.loader.sources.source import BadRowsError, Columns
from datalake.loader.sources.utterances import UTTERANCE_KEYS, Utterances
from datalake.schema import media_field
from datalake.tables import Table, create_table, open_table
from tests.audio.clips import CLIPS
from tests.loader import corpus

on_a_fixture = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

Samples = npt.NDArray[np.float32]

SCHEMA = pa.schema(
    [
        pa.field("utt_id", pa.string(), nullable=False),
        pa.field("domain", pa.string()),
        pa.field("label", pa.string()),
        pa.field("duration_s", pa.float64()),
        pa.field("sample_rate_hz", pa.int32()),
        media_field("audio", "audio"),
    ]
)


def made(audio: Sequence[bytes | None], labels: Sequence[str | None] = ()) -> pa.Table:
    count = len(audio)
    return pa.table(
        {
            "utt_id": [f"made/{row:04d}" for row in range(count)],
            "domain": [f"made/{row % 4}" for row in range(count)],
            "label": list(labels) or [corpus.LABELS[row % 3] for row in range(count)],
            "duration_s": [
                None if data is None or not data.startswith(b"RIFF") else 0.5 + row
                for row, data in enumerate(audio)
            ],
            "sample_rate_hz": [16_000] * count,
            "audio": pa.array(audio, pa.large_binary()),
        },
        schema=SCHEMA,
    )


KINDS = [clip.data(num_channels) for clip in CLIPS.values() for num_channels in (1, 2)]


@pytest.fixture(scope="module")
def kinds() -> Table:
    """Every kind of file that is read, with one channel and with two."""
    uri = "memory://utterances/kinds"
    return create_table(uri, SCHEMA, format="memory").append(made(KINDS))


def allocate(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Memory that was something else before."""
    return np.full(shape, 99, dtype)


def words(rows: npt.NDArray[np.int64], key: int = 7) -> npt.NDArray[np.uint64]:
    return mix(rows.astype(np.uint64), np.uint64(key))


def read(source: Utterances, rows: Sequence[int], key: int = 7) -> Columns:
    chosen = np.array(rows, np.int64)
    return source.read(chosen, words(chosen, key), allocate)


def twin(data: bytes, word: int, length: int, rate_hz: int, crop: Crop, pad: Pad) -> Samples:
    """Decode all, crop, pad."""
    whole, _ = decode(data, sample_rate_hz=rate_hz)
    start = 0 if crop == "head" else word * (max(len(whole) - length, 0) + 1) >> 64
    part = whole[start : start + length]
    if pad == "repeat":
        return np.resize(part, length)
    return np.pad(part, (0, length - len(part)))


@pytest.mark.parametrize("rate_hz", [16_000, 11_025])
@pytest.mark.parametrize("crop", ["random", "head"])
@pytest.mark.parametrize("pad", ["repeat", "zeros"])
@pytest.mark.parametrize("length", [1, 3_000, 12_000])
def test_every_kind_is_decoded_cropped_and_padded(
    kinds: Table, length: int, pad: Pad, crop: Crop, rate_hz: int
) -> None:
    source = Utterances(kinds, num_samples=length, sample_rate_hz=rate_hz, crop=crop, pad=pad)
    rows = np.arange(len(KINDS))
    batch = read(source, range(len(KINDS)))
    for row, word in enumerate(words(rows).tolist()):
        expected = twin(KINDS[row], word, length, rate_hz, crop, pad)
        np.testing.assert_array_equal(batch["audio"][row], expected)
        whole = len(decode(KINDS[row], sample_rate_hz=rate_hz)[0])
        assert batch["num_samples"][row] == min(whole, length)


@pytest.mark.parametrize("pad", ["repeat", "zeros"])
def test_whole_clips_are_padded_to_the_longest(kinds: Table, pad: Pad) -> None:
    batch = read(Utterances(kinds, num_samples=None, pad=pad), range(len(KINDS)))
    lengths = [len(decode(data, sample_rate_hz=16_000)[0]) for data in KINDS]
    assert batch["num_samples"].tolist() == lengths
    for row, data in enumerate(KINDS):
        expected = twin(data, 0, max(lengths), 16_000, "head", pad)
        np.testing.assert_array_equal(batch["audio"][row], expected)


def test_what_a_batch_holds(table: Table) -> None:
    source = Utterances(table, columns=("utt_id", "domain"), num_samples=200)
    batch = read(source, [5, 0, 5, 52])
    assert batch.keys() == UTTERANCE_KEYS | {"utt_id", "domain"}
    assert batch["audio"].dtype == np.float32
    assert batch["audio"].shape == (4, 200)
    assert batch["label"].tolist() == [-1, 1, -1, 0]
    assert batch["row_index"].tolist() == [5, 0, 5, 52]
    assert batch["utt_id"] == ["made/0005", "made/0000", "made/0005", "made/0052"]
    assert batch["domain"] == ["made/1", "made/0", "made/1", "made/0"]
    assert {batch[key].dtype for key in ("label", "num_samples", "row_index")} == {np.dtype("i8")}
    assert source.ids(np.array([3])) == ["made/0003"]
    assert source.domains(np.array([3, 4])) == ["made/3", "made/0"]
    assert source.num_rows == 53


@pytest.fixture(scope="module", params=["table", "stored"])
def sources(request: pytest.FixtureRequest) -> dict[int | None, Utterances]:
    """By the length of clips, of a table in memory and of one on disk."""
    rows = request.getfixturevalue(request.param)
    return {length: Utterances(rows, num_samples=length) for length in (100, None)}


@given(
    rows=st.lists(st.integers(0, 52), min_size=1, max_size=12), length=st.sampled_from([100, None])
)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_an_example_hangs_on_nothing_beside_it(
    sources: dict[int | None, Utterances], rows: list[int], length: int | None
) -> None:
    together = read(sources[length], rows)
    for index, row in enumerate(rows):
        alone = read(sources[length], [row])
        size = alone["audio"].shape[1]
        np.testing.assert_array_equal(together["audio"][index, :size], alone["audio"][0])
        for name in ("num_samples", "label", "row_index"):
            assert together[name][index] == alone[name][0]


def test_a_copy_reads_the_same(stored: Table) -> None:
    source = Utterances(stored, columns=("utt_id",), num_samples=100)
    copied = pickle.loads(pickle.dumps(source))
    rows = list(range(53))
    first, second = read(source, rows), read(copied, rows)
    assert first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])
    assert (copied.kind, copied.identity()) == (source.kind, source.identity())


def test_threads_read_the_same(sources: dict[int | None, Utterances]) -> None:
    source = sources[100]
    batches = [[(start + 7 * step) % 53 for step in range(16)] for start in range(24)]
    expected = [read(source, rows) for rows in batches]
    with ThreadPoolExecutor(4) as threads:
        for first, second in zip(
            expected, threads.map(lambda rows: read(source, rows), batches), strict=True
        ):
            for name, values in first.items():
                np.testing.assert_array_equal(values, second[name])


def in_a_fork(source: Utterances, rows: list[int], told: Any) -> None:
    told.put(read(source, rows))


def test_a_forked_process_reads_the_same(stored: Table) -> None:
    source = Utterances(stored, columns=("domain",), num_samples=100)
    rows = list(range(0, 53, 4))
    expected = read(source, rows)
    source.prepare_fork()
    fork = multiprocessing.get_context("fork")
    told = fork.SimpleQueue()
    child = fork.Process(target=in_a_fork, args=(source, rows, told))
    child.start()
    found = told.get()
    child.join(30)
    for name, values in expected.items():
        np.testing.assert_array_equal(values, found[name])


@pytest.mark.parametrize("length", [100, None])
def test_rows_that_the_table_has_lost_are_named(tmp_path: Path, length: int | None) -> None:
    made_rows = corpus.rows(40)
    place = tmp_path / "corpus.lance"
    create_table(place, corpus.SCHEMA).append(made_rows[:30])
    before = set((place / "data").iterdir())
    open_table(place).append(made_rows[30:])
    source = Utterances(open_table(place), num_samples=length)
    (lost,) = set((place / "data").iterdir()) - before
    os.truncate(lost, 1000)
    with pytest.raises(BadRowsError) as error:
        read(source, [29, 30, 0, 39])
    found = [(one.index, one.row, one.reason) for one in error.value.bad]
    assert found == [(1, 30, "missing_block"), (3, 39, "missing_block")]
    assert "row 30" in error.value.bad[0].where
    # All of them: that is the store, and not the rows.
    with pytest.raises(StoreError):
        read(source, [35, 30, 38])
    assert read(source, [0, 29])["row_index"].tolist() == [0, 29]


def test_another_word_is_another_crop(table: Table) -> None:
    source = Utterances(table, num_samples=10)
    rows = list(range(50))
    first, second = read(source, rows, 1), read(source, rows, 2)
    assert not np.array_equal(first["audio"], second["audio"])
    np.testing.assert_array_equal(first["label"], second["label"])


BROKEN = {
    1: (b"no audio at all", "not_audio"),
    3: (b"", "empty"),
    4: (None, "empty"),
    6: (corpus.wav(corpus.clip(6))[:-10], "truncated"),
    7: (encode_flac(corpus.clip(7), 16_000)[:60], "truncated"),
    9: (corpus.wav(corpus.clip(9))[:44], "truncated"),
    10: (corpus.wav(corpus.clip(0)[:0]), "empty"),
}


@pytest.mark.parametrize("length", [100, None])
def test_all_bad_rows_are_named(length: int | None) -> None:
    audio: list[bytes | None] = [corpus.wav(corpus.clip(row)) for row in range(12)]
    for row, (data, _) in BROKEN.items():
        audio[row] = data
    labels: list[str | None] = ["spoof"] * 12
    labels[2] = "genuine"
    table = create_table(f"memory://utterances/bad{length}", SCHEMA, format="memory")
    source = Utterances(table.append(made(audio, labels)), num_samples=length)
    rows = [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    with pytest.raises(BadRowsError) as error:
        read(source, rows)
    reasons = {row: reason for row, (_, reason) in BROKEN.items()} | {2: "bad_label"}
    assert {one.row: one.reason for one in error.value.bad} == reasons
    for one in error.value.bad:
        assert rows[one.index] == one.row
        assert f"row {one.row}, made/{one.row:04d}" in one.where
        assert source.table.uri in one.where
    assert read(source, [0, 5, 8, 11])["label"].tolist() == [0, 0, 0, 0]


def test_what_a_clip_costs() -> None:
    audio = [corpus.wav(corpus.clip(row)) for row in range(4)]
    table = create_table("memory://utterances/costs", SCHEMA, format="memory").append(made(audio))
    rows = np.array([2, 0, 3])
    whole = Utterances(table, num_samples=None, sample_rate_hz=8_001)
    assert whole.costs(rows, "seconds").tolist() == [2.5, 0.5, 3.5]
    assert whole.costs(rows, "samples").tolist() == [20_003, 4_001, 28_004]
    assert whole.costs(rows, "examples").tolist() == [1, 1, 1]
    cropped = Utterances(table, num_samples=16_000)
    assert cropped.costs(rows, "seconds").tolist() == [1, 0.5, 1]
    assert cropped.costs(rows, "samples").tolist() == [16_000, 8_000, 16_000]
    with pytest.raises(InputError, match="examples or seconds or samples"):
        whole.costs(rows, "frames")


def test_a_cost_that_nobody_knows_is_no_guess(kinds: Table, table: Table) -> None:
    unknown = Utterances(kinds).costs(np.arange(len(KINDS)), "seconds")
    assert np.isnan(unknown).any()
    with pytest.raises(InputError, match="does not tell how long"):
        Utterances(table).costs(np.arange(3), "seconds")


INGEST, SELECT = Lineage("ingest", {}), Lineage("select", {})


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made_lake = open_lake(tmp_path_factory.mktemp("lake") / "lake", create=True)
    made_lake.create("corpus", corpus.SCHEMA, lineage=INGEST).append(corpus.rows(20))
    return made_lake


def test_a_selection_pins_its_version(lake: Lake) -> None:
    version = lake["corpus"].version
    selection = corpus.select([4, 2, 7], version=version)
    lake.save_selection(selection, SELECT)
    lake["corpus"].append(corpus.rows(5))
    source = Utterances.from_lake(lake, "corpus", selection="chosen", num_samples=50)
    assert source.selection is not None
    assert source.selection.digest == selection.digest
    assert source.identity()["table_version"] == version
    assert source.num_rows == 20
    assert Utterances.from_lake(lake, "corpus").num_rows == 25


def test_names_that_are_not_there(lake: Lake) -> None:
    lake.create("other", corpus.SCHEMA, lineage=INGEST).append(corpus.rows(20))
    lake.save_selection(corpus.select([1], version=lake["corpus"].version), SELECT)
    with pytest.raises(NotFoundError):
        Utterances.from_lake(lake, "corps")
    with pytest.raises(NotFoundError):
        Utterances.from_lake(lake, "corpus", selection="chose")
    with pytest.raises(InputError, match="another table"):
        Utterances.from_lake(lake, "other", selection="chosen")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"crop": "tail"}, "random or head"),
        ({"pad": "noise"}, "repeat or zeros"),
        ({"keep": "nothing"}, "encoded or decoded"),
        ({"num_samples": 0}, "num_samples is too small"),
        ({"sample_rate_hz": 0}, "sample_rate_hz is too small"),
        ({"columns": ("label",)}, "every batch holds"),
        ({"columns": ("domain", "domain")}, "asked for twice"),
    ],
)
def test_arguments_are_checked(table: Table, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Utterances(table, **arguments)


def test_columns_are_checked(table: Table) -> None:
    with pytest.raises(SchemaError, match="Did you mean domain"):
        Utterances(table, columns=("domains",))
    robots = create_table(
        "memory://utterances/none", pa.schema([pa.field("state", pa.float32())]), format="memory"
    )
    with pytest.raises(SchemaError, match="no column 'audio'"):
        Utterances(robots)
