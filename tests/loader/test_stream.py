"""The loader: what batches hold, exactly once, and the same after any restart."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import datalake
from datalake import Lineage
from datalake.errors import InputError, LakeError, NotFoundError, SchemaError
from datalake.loader import Loader, Utterances
from datalake.loader.batching import Place
from datalake.loader.stream import Batch
from datalake.tables import Table, create_table
from tests.loader import corpus
from tests.loader.corpus import stream
from tests.loader.resuming import assert_resumes_everywhere, assert_same

LENGTH = 200
KEYS = {
    *("audio", "num_samples", "label", "row_index"),
    *("weight", "is_pad", "seed", "epoch", "position"),
}
on_shared_table = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def real_rows(batches: list[Batch]) -> list[int]:
    return [row for b in batches for row in b["row_index"][~b["is_pad"]].tolist()]


def test_a_batch_holds_what_the_rows_hold(table: Table) -> None:
    loader = stream(table, columns=("utt_id", "domain"), batch_size=8, num_samples=LENGTH)
    for batch in loader:
        assert batch.keys() == KEYS | {"utt_id", "domain"}
        assert batch["audio"].shape == (8, LENGTH)
        dtypes = {key: value.dtype for key, value in batch.items() if torch.is_tensor(value)}
        assert dtypes == {
            "audio": torch.float32,
            "num_samples": torch.int64,
            "label": torch.int64,
            "weight": torch.float32,
            "row_index": torch.int64,
            "is_pad": torch.bool,
            "seed": torch.int64,
        }
        for index, row in enumerate(batch["row_index"].tolist()):
            clip = corpus.clip(row)
            audio = batch["audio"][index].numpy()
            length = int(batch["num_samples"][index])
            assert length == min(LENGTH, len(clip))
            start = round(float(audio[0]) * 32768)
            assert np.array_equal(audio[:length], clip[start : start + length])
            assert np.array_equal(audio[length:], np.resize(clip, LENGTH - length))
            assert batch["utt_id"][index] == f"made/{row:04d}"
            assert batch["domain"][index] == f"made/{row % 4}"
            assert batch["label"][index] == [1, 0, -1][row % 3]
            assert batch["weight"][index] == 1


def test_evaluation_reads_heads_in_order(table: Table) -> None:
    loader = stream(
        table,
        batch_size=7,
        num_samples=LENGTH,
        order="sequential",
        crop="head",
        pad="zeros",
        tail="short",
    )
    batches = list(loader)
    assert real_rows(batches) == list(range(53))
    assert [len(batch["label"]) for batch in batches] == [7] * 7 + [4]
    for batch in batches:
        for row, audio in zip(batch["row_index"].tolist(), batch["audio"].numpy(), strict=True):
            clip = corpus.clip(row)[:LENGTH]
            assert np.array_equal(audio, np.pad(clip, (0, LENGTH - len(clip))))


def test_whole_clips_are_padded_to_the_longest_of_a_batch(table: Table) -> None:
    loader = stream(
        table, batch_size=5, num_samples=None, order="sequential", pad="zeros", tail="drop"
    )
    for batch in loader:
        lengths = [corpus.num_samples(row) for row in batch["row_index"].tolist()]
        assert batch["num_samples"].tolist() == lengths
        assert batch["audio"].shape == (5, max(lengths))
        for row, audio in zip(batch["row_index"].tolist(), batch["audio"].numpy(), strict=True):
            assert np.array_equal(audio[: corpus.num_samples(row)], corpus.clip(row))
            assert not audio[corpus.num_samples(row) :].any()


def test_clips_are_resampled(table: Table) -> None:
    (batch,) = stream(table, batch_size=53, num_samples=None, sample_rate_hz=8000)
    lengths = [corpus.num_samples(row) / 2 for row in batch["row_index"].tolist()]
    assert np.abs(batch["num_samples"].numpy() - lengths).max() <= 1


@on_shared_table
@given(
    world_size=st.integers(1, 9),
    batch_size=st.integers(1, 12),
    num_workers=st.integers(1, 4),
    tail=st.sampled_from(["drop", "pad", "short"]),
)
def test_one_order_for_any_ranks_workers_and_batches(
    table: Table, world_size: int, batch_size: int, num_workers: int, tail: str
) -> None:
    whole = stream(table, batch_size=53, num_samples=8, num_threads=1, tail=tail)  # type: ignore[arg-type]
    (expected,) = list(whole)
    step_major: list[list[Batch]] = []
    for rank in range(world_size):
        loader = stream(
            table,
            batch_size=batch_size,
            num_samples=8,
            rank=rank,
            world_size=world_size,
            tail=tail,  # type: ignore[arg-type]
            num_threads=1,
        )
        own: list[Batch | None] = [None] * len(loader)
        for worker in range(num_workers):
            made = loader.batches(Place(0, 0), worker=worker, num_workers=num_workers)
            own[worker::num_workers] = list(made)
        step_major.append([batch for batch in own if batch is not None])
    read = [batch for step in zip(*step_major, strict=True) for batch in step]
    count = 53 - (53 % (batch_size * world_size) if tail == "drop" else 0)
    assert real_rows(read) == expected["row_index"][:count].tolist()
    crops = [b["audio"][~b["is_pad"]] for b in read]
    if count:
        assert torch.equal(torch.cat(crops), expected["audio"][:count])


@pytest.mark.parametrize("tail", ["drop", "pad", "short"])
@pytest.mark.parametrize("order", ["exact", "blocks", "sequential"])
def test_resumes_at_every_step(table: Table, tail: str, order: str) -> None:
    assert_resumes_everywhere(
        lambda: stream(
            table,
            columns=["utt_id"],
            batch_size=5,
            num_samples=8,
            rank=1,
            world_size=2,
            tail=tail,  # type: ignore[arg-type]
            order=order,  # type: ignore[arg-type]
            epoch=3,
            num_threads=1,
        )
    )


@on_shared_table
@given(
    phases=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 7), st.integers(0, 4)), max_size=4),
    seed=st.integers(0, 3),
)
def test_other_ranks_and_batches_read_exactly_the_rest(
    table: Table, phases: list[tuple[int, int, int]], seed: int
) -> None:
    state = None
    seen: list[int] = []
    for world_size, batch_size, num_steps in [*phases, (3, 4, 1000)]:
        loaders = [
            stream(table, batch_size=batch_size, num_samples=8, seed=seed, rank=rank,
                   world_size=world_size, num_threads=1)
            for rank in range(world_size)
        ]  # fmt: skip
        if state is not None:
            for loader in loaders:
                loader.load_state_dict(state)
        passes = [iter(loader) for loader in loaders]
        for _ in range(num_steps):
            step = [next(batches, None) for batches in passes]
            if step[0] is None:
                break
            seen += real_rows(step)  # type: ignore[arg-type]
            (state,) = {
                json.dumps(loader.state_dict()): loader.state_dict() for loader in loaders
            }.values()
    assert sorted(seen) == list(range(53))
    (whole,) = stream(table, batch_size=53, num_samples=8, seed=seed)
    assert seen == whole["row_index"].tolist()


def test_epochs_follow_each_other(table: Table) -> None:
    loader = stream(table, batch_size=8, num_samples=8)
    first, second = list(loader), list(loader)
    assert loader.epoch == 2
    assert {batch["epoch"] for batch in second} == {1}
    assert sorted(real_rows(first)) == sorted(real_rows(second)) == list(range(53))
    assert real_rows(first) != real_rows(second)
    loader.set_epoch(0)
    assert_same(loader, first)
    assert_same(stream(table, batch_size=8, num_samples=8, epoch=1), second)
    assert len(loader) == len(first) == 7


def test_crops_change_from_epoch_to_epoch(table: Table) -> None:
    loader = stream(table, batch_size=53, num_samples=8, order="sequential")
    (first,), (second,) = list(loader), list(loader)
    assert torch.equal(first["row_index"], second["row_index"])
    assert not torch.equal(first["audio"], second["audio"])


def test_breaking_off_and_starting_again(table: Table) -> None:
    loader = stream(table, batch_size=4, num_samples=8)
    before = threading.active_count()
    first = [batch for _, batch in zip(range(3), loader, strict=False)]
    assert threading.active_count() == before
    state = loader.state_dict()
    again = list(loader)
    assert_same(again[:3], first)
    loader.load_state_dict(state)
    assert_same(loader, again[3:])


def test_a_state_is_of_one_stream_only(table: Table) -> None:
    state = stream(table, seed=1).state_dict()
    assert len(json.dumps(state)) < 500
    with pytest.raises(InputError, match=r"seed: 1 \(the state's\) / 2"):
        stream(table, seed=2).load_state_dict(state)
    with pytest.raises(InputError, match=r"order: .*exact/1"):
        stream(table, seed=1, order="sequential").load_state_dict(state)
    chosen = corpus.select(list(range(53)), version=table.version)
    with pytest.raises(InputError, match="selection"):
        stream(table, seed=1, selection=chosen).load_state_dict(state)
    longer = table.at(table.version).append(corpus.rows(1))
    with pytest.raises(InputError, match=f"version: {table.version} "):
        stream(longer, seed=1).load_state_dict(state)


def test_a_selection_gives_its_rows_and_weights(table: Table) -> None:
    chosen = corpus.select([40, 3, 17, 8, 30], version=table.version)
    (batch,) = stream(table, selection=chosen, batch_size=5, num_samples=8, order="sequential")
    assert batch["row_index"].tolist() == [40, 3, 17, 8, 30]
    assert batch["weight"].tolist() == [0, 1, 2, 3, 4]
    (shuffled,) = stream(table, selection=chosen, batch_size=5, num_samples=8, seed=1)
    weights = dict(zip(shuffled["row_index"].tolist(), shuffled["weight"].tolist(), strict=True))
    assert weights == {40: 0, 3: 1, 17: 2, 8: 3, 30: 4}


def test_a_selection_of_other_rows_is_refused(table: Table) -> None:
    with pytest.raises(InputError, match=r"Open the table with \.at\(99\)"):
        stream(table, selection=corpus.select([1], version=99))
    other = create_table("memory://loader/other", corpus.SCHEMA).append(corpus.rows(53)[20:])
    with pytest.raises(InputError, match="another table"):
        stream(other, selection=corpus.select([1, 2], version=other.version))
    with pytest.raises(InputError, match="33 rows"):
        stream(other, selection=corpus.select([1, 50], version=other.version))
    with pytest.raises(InputError, match="nothing to stream"):
        stream(table, selection=corpus.select([], version=table.version))


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to stream"):
        stream(create_table("memory://loader/empty", corpus.SCHEMA))


@pytest.mark.parametrize("num_threads", [0, 2])
def test_audio_that_cannot_be_decoded_is_named(num_threads: int) -> None:
    broken = create_table(f"memory://loader/broken{num_threads}", corpus.SCHEMA)
    broken = broken.append(corpus.rows(12, broken=9))
    loader = stream(
        broken, batch_size=4, num_samples=8, order="sequential", num_threads=num_threads
    )
    batches = iter(loader)
    assert [next(batches)["position"], next(batches)["position"]] == [4, 8]
    with pytest.raises(InputError) as caught:
        next(batches)
    for part in (broken.uri, f"version {broken.version}", "row 9", "made/0009"):
        assert part in caught.value.where
    assert loader.state_dict()["position"] == 8


def test_an_unknown_label_is_named() -> None:
    rows = corpus.rows(2).set_column(2, corpus.SCHEMA.field("label"), [["bonafide", "fake"]])
    table = create_table("memory://loader/labels", corpus.SCHEMA).append(rows)
    with pytest.raises(InputError, match=r"row 1, made/0001.*'fake'"):
        list(stream(table, num_samples=8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"crop": "tail"}, "crop is unknown"),
        ({"pad": "mirror"}, "pad is unknown"),
        ({"tail": "wrap"}, "tail policy"),
        ({"num_samples": 0}, "num_samples is too small"),
        ({"sample_rate_hz": 0}, "sample_rate_hz is too small"),
        ({"batch_size": 0}, "batch size"),
        ({"epoch": -1}, "epoch is too small"),
        ({"order": "random"}, "order"),
        ({"made_bytes": -1}, "made_bytes is too small"),
        ({"num_threads": -1}, "num_threads is too small"),
        ({"on_bad": "skip"}, "on_bad is unknown"),
        ({"rank": 1}, "rank 1, world_size 1"),
        ({"columns": ["label"]}, "name of something every batch holds"),
        ({"columns": ["domian"]}, "Did you mean domain"),
    ],
)
def test_impossible_arguments_are_refused(
    table: Table, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        stream(table, **arguments)  # type: ignore[arg-type]


def test_a_table_without_audio_is_refused() -> None:
    schema = corpus.SCHEMA.remove(3)
    with pytest.raises(SchemaError, match="no column 'audio'"):
        stream(create_table("memory://loader/mute", schema))


def test_ranks_come_from_torchrun(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    told = stream(table, rank=2, world_size=3, batch_size=4, num_samples=8)
    assert_same(stream(table, batch_size=4, num_samples=8), told)
    assert len(stream(table, rank=0, world_size=1, batch_size=53)) == 1
    monkeypatch.setenv("RANK", "two")
    with pytest.raises(InputError, match="RANK"):
        stream(table)


def test_from_a_lake_by_name(tmp_path: Path) -> None:
    lake = datalake.open_lake(str(tmp_path / "lake"))
    lineage = Lineage("test", {}, {})
    made = lake.create("corpus", corpus.SCHEMA, lineage=lineage).append(corpus.rows(20))
    lake.save_selection(corpus.select([3, 5], version=made.version), lineage)
    lake["corpus"].append(corpus.rows(1))
    assert Loader(Utterances.from_lake(lake, "corpus")).num_examples == 21
    source = Utterances.from_lake(lake, "corpus", selection="chosen", num_samples=8)
    loader = Loader(source, batch_size=2)
    (batch,) = loader
    assert sorted(batch["row_index"].tolist()) == [3, 5]
    assert str(made.version) in json.dumps(loader.state_dict()["identity"])
    with pytest.raises(NotFoundError):
        Utterances.from_lake(lake, "corpus", selection="chosn")
    lake.create("other", corpus.SCHEMA, lineage=lineage)
    with pytest.raises(LakeError, match="one of corpus"):
        Utterances.from_lake(lake, "other", selection="chosen")


_EPOCHS = """
import subprocess
import sys
import threading
import psutil
from datalake.loader import Loader, Utterances
from datalake.tables import create_table
from tests.loader import corpus
from tests.loader.corpus import stream

table = create_table("memory://loader/flat", corpus.SCHEMA, format="memory").append(corpus.rows(53))
loader = corpus.stream(table, batch_size=16, num_samples=64600)
process = psutil.Process()
for num_epochs in (4, 20):
    for _ in range(num_epochs):
        list(map(len, loader))
    print(process.memory_info().rss, process.num_fds(), threading.active_count())
"""


def test_memory_stays_flat_over_epochs() -> None:
    # In a process of its own: what other tests left in this one's heap is not the loader's.
    done = subprocess.run(
        [sys.executable, "-c", _EPOCHS], capture_output=True, text=True, check=True
    )
    before, after = ([int(word) for word in line.split()] for line in done.stdout.splitlines())
    # A batch is 4 MB: keeping one of each epoch would be 80 MB, keeping all of them 330.
    assert after[0] - before[0] < 60e6
    assert after[1:] == before[1:]
