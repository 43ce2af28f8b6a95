"""The plan against an obvious twin, and the file of units."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.connector import FILES, ROWS
from datalake.errors import InputError
from datalake.pipelines import plan as planning
from datalake.pipelines.columns import Columns
from datalake.pipelines.ledger import Finished
from datalake.pipelines.plan import Plan, Planner
from datalake.pipelines.settings import Settings
from datalake.pipelines.units import UnitWriter, read_unit
from datalake.uri import Location

_fresh = itertools.count()


@dataclass
class FakeCorpus:
    """A corpus that says what it is told to, one row a batch."""

    entries: list[tuple[str, str]]
    """(file id, path) of each protocol row."""
    sizes: dict[str, int]
    """Size of each file by path."""
    source: str = "speech"
    claims_every_file: bool = True
    extra: tuple[pa.Field, ...] = ()
    root: Location = field(default_factory=lambda: Location("/nowhere"))

    def rows(self) -> Iterator[pa.RecordBatch]:
        for file_id, path in self.entries:
            row = {"file_id": file_id, "path": path, "source": self.source, "label": "bonafide"}
            yield pa.RecordBatch.from_pylist([row], ROWS)

    def files(self) -> Iterator[pa.RecordBatch]:
        for path, size in self.sizes.items():
            row = {"path": path, "size_bytes": size, "stamp": "1"}
            yield pa.RecordBatch.from_pylist([row], FILES)


def plan_of(
    corpus: FakeCorpus, folder: Path, finished: dict[str, Finished] | None = None, **options: int
) -> tuple[Plan, list[dict[str, object]]]:
    """The plan, and the items of all units in order, each with its bucket and unit."""
    place = folder / str(next(_fresh))
    place.mkdir()
    columns = Columns.of(corpus.extra)
    with Planner(corpus, columns, Settings(**options), place) as planner:  # type: ignore[arg-type]
        planner.read_corpus(None)
        plan = planner.compare(finished or {}, None)
        units = Location(str(place / "units.arrow"))
        buckets = planner.write_units(units, 2)
    items = [
        {**item, "bucket": bucket, "unit": index}
        for index, bucket in enumerate(buckets)
        for item in read_unit(units, index).to_pylist()
    ]
    return plan, items


IDS = st.sampled_from(["a", "b", "c", "d"])
PATHS = st.sampled_from(["1.wav", "2.wav", "3.wav", "4.wav", "5.wav"])


def twin(corpus: FakeCorpus) -> list[tuple[str | None, str, str | None]]:
    """(utt_id, path, reason) of each item, the slow and obvious way."""
    items: list[tuple[str | None, str, str | None]] = []
    given_out: set[str] = set()
    for file_id, path in corpus.entries:
        if path not in corpus.sizes:
            reason = "no_file"
        elif corpus.sizes[path] == 0:
            reason = "empty"
        elif file_id in given_out:
            reason = "duplicate_id"
        else:
            reason = None
            given_out.add(file_id)
        items.append((f"speech/{file_id}", path, reason))
    claimed = {path for _, path in corpus.entries}
    if corpus.claims_every_file:
        items += [(None, path, "no_protocol_row") for path in corpus.sizes if path not in claimed]
    return items


@settings(max_examples=20, deadline=None)
@given(
    entries=st.lists(st.tuples(IDS, PATHS), max_size=8),
    sizes=st.dictionaries(PATHS, st.sampled_from([0, 100])),
    claims=st.booleans(),
)
def test_items_are_those_of_the_obvious_twin(
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[tuple[str, str]],
    sizes: dict[str, int],
    claims: bool,
) -> None:
    corpus = FakeCorpus(entries, sizes, claims_every_file=claims)
    expected = sorted(twin(corpus), key=str)
    folder = tmp_path_factory.getbasetemp()
    if not expected:
        with pytest.raises(InputError, match="empty"):
            plan_of(corpus, folder)
        return

    plan, items = plan_of(corpus, folder, part_rows=2)

    found = [(item["utt_id"], item["path"], item["refused"]) for item in items]
    assert sorted(found, key=str) == expected
    assert plan.num_items == plan.num_pending == len(expected)
    assert sum(part.num_items for part in plan.parts.values()) == len(expected)
    assert sum(plan.known_refusals.values()) == sum(1 for *_, reason in expected if reason)


def test_buckets_are_what_anybody_can_recompute(tmp_path: Path) -> None:
    entries = [(f"id{i}", f"{i}.wav") for i in range(100)]
    corpus = FakeCorpus(entries, {path: 10 for _, path in entries} | {"stray.wav": 10})

    plan, items = plan_of(corpus, tmp_path, part_rows=8)

    # 101 items in parts of about 8 rows: 16 parts.
    assert plan.num_parts == len(plan.parts) == 16
    for item in items:
        key = str(item["utt_id"] or item["path"])
        bucket = int(hashlib.md5(key.encode()).hexdigest()[:8], 16) % 16
        assert (item["bucket"], item["part_id"]) == (bucket, f"speech/{bucket}of16")


def test_fingerprints_do_not_depend_on_order_but_on_all_else(tmp_path: Path) -> None:
    entries = [(f"id{i}", f"{i}.wav") for i in range(20)]
    sizes = {path: 10 for _, path in entries}

    def fingerprints(corpus: FakeCorpus, **options: float) -> list[str]:
        plan, _ = plan_of(corpus, tmp_path, part_rows=100, **options)  # type: ignore[arg-type]
        return [part.fingerprint for part in plan.parts.values()]

    (original,) = fingerprints(FakeCorpus(entries, sizes))
    backwards = FakeCorpus(entries[::-1], dict(reversed(sizes.items())))
    assert fingerprints(backwards) == [original]
    renamed = FakeCorpus([("other", "0.wav"), *entries[1:]], sizes)
    for changed in (
        fingerprints(FakeCorpus(entries, sizes | {"3.wav": 11})),
        fingerprints(FakeCorpus(entries[1:], sizes)),
        fingerprints(renamed),
        fingerprints(FakeCorpus(entries, sizes), max_duration_s=10),
    ):
        assert changed != [original]


def test_a_finished_part_is_left_out_unless_the_table_lost_rows(tmp_path: Path) -> None:
    entries = [(f"id{i}", f"{i}.wav") for i in range(40)]
    corpus = FakeCorpus(entries, {path: 10 for _, path in entries})
    plan, _ = plan_of(corpus, tmp_path, part_rows=10)
    finished = {part.part_id: Finished(part.fingerprint, 0) for part in plan.parts.values()}
    # The table is not there: a ledger that speaks of rows is not believed.
    finished["speech/2of4"] = Finished(finished["speech/2of4"].fingerprint, 7)

    again, items = plan_of(corpus, tmp_path, finished, part_rows=10)

    assert [part.part_id for part in again.parts.values()] == ["speech/2of4"]
    assert {item["bucket"] for item in items} == {2}
    assert again.num_parts == 4


def test_the_number_of_parts_is_that_of_the_first_ingest(tmp_path: Path) -> None:
    entries = [(f"id{i}", f"{i}.wav") for i in range(40)]
    corpus = FakeCorpus(entries, {path: 10 for _, path in entries})
    plan, _ = plan_of(corpus, tmp_path, {"speech/0of2": Finished("old", 3)}, part_rows=1)
    assert plan.num_parts == 2


def test_units_are_bounded_by_rows_and_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_MIN_UNIT_ROWS", 1)
    monkeypatch.setattr(planning, "_UNIT_BYTES", 1000)
    entries = [(f"id{i:03}", f"{i:03}.wav") for i in range(90)]
    small = FakeCorpus(entries, {path: 1 for _, path in entries})
    large = FakeCorpus(entries, {path: 300 for _, path in entries})

    def lengths(corpus: FakeCorpus) -> list[int]:
        _, items = plan_of(corpus, tmp_path, part_rows=100)
        assert [item["utt_id"] for item in items] == [f"speech/{name}" for name, _ in entries]
        return [len(list(run)) for _, run in itertools.groupby(item["unit"] for item in items)]

    # 90 rows for 2 workers with 8 units each: 5 rows a unit.
    assert lengths(small) == [5] * 18
    # Four files of 300 bytes begin below 1,000 bytes, or three and a bit.
    assert max(lengths(large)) <= 4


@settings(max_examples=30, deadline=None)
@given(
    units=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 6), min_size=1, max_size=20),
)
def test_units_come_back_however_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, units: list[int], cuts: list[int]
) -> None:
    location = Location(str(tmp_path_factory.getbasetemp() / f"{next(_fresh)}.arrow"))
    keys = np.repeat(np.arange(len(units)), units)
    keys = np.stack([keys // 2, keys], axis=1)
    rows = pa.record_batch({"x": np.arange(len(keys))})
    with UnitWriter(location, rows.schema) as writer:
        start = 0
        for length in itertools.cycle(cuts):
            if start >= len(keys):
                break
            writer.write(keys[start : start + length], rows.slice(start, length))
            start += length

    assert writer.buckets == [index // 2 for index in range(len(units))]
    read = [read_unit(location, index).column("x").to_pylist() for index in range(len(units))]
    assert [len(rows) for rows in read] == units
    assert list(itertools.chain(*read)) == list(range(len(keys)))
