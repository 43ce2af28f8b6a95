"""What a loader refuses before it begins, and what it says."""

from __future__ import annotations

import io
import logging

import numpy as np
import pytest
import torch

from datalake.errors import InputError
from datalake.loader import ByCost, Loader, Selected, Utterances, Weighted
from datalake.loader.engine.progress import Progress
from datalake.tables import Table
from tests.loader import corpus
from tests.loader.corpus import stream


def test_a_bare_table_is_refused_with_what_to_wrap_it_in(table: Table) -> None:
    with pytest.raises(InputError, match="Utterances"):
        Loader(table)  # type: ignore[arg-type]


@pytest.mark.parametrize("extra", [{"batch_size": 3}, {"tail": "drop"}])
def test_batches_are_asked_for_in_one_way(table: Table, extra: dict[str, object]) -> None:
    with pytest.raises(InputError, match="two ways"):
        stream(table, batching=ByCost(3, unit="examples"), **extra)


def test_an_unknown_unit_is_refused_at_once(table: Table) -> None:
    with pytest.raises(InputError, match="fortnights"):
        stream(table, batching=ByCost(3, unit="fortnights"))


def test_rows_are_chosen_in_one_place(table: Table) -> None:
    chosen = corpus.select([3, 5], version=table.version)
    source = Utterances(table, selection=chosen, num_samples=8)
    with pytest.raises(InputError, match="two ways"):
        Selected(source, np.array([1, 2]))
    with pytest.raises(InputError, match="two ways"):
        Selected(source, corpus.select([4], version=table.version))
    assert Loader(Selected(source, chosen)).num_examples == 2
    assert Loader(Weighted(source)).num_examples == 2
    with pytest.raises(InputError, match="need a selection"):
        Weighted(Utterances(table))


def test_a_working_set_below_a_step_is_told(
    table: Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Utterances, "block_rows", 2)
    with caplog.at_level(logging.WARNING):
        stream(table, order="blocks", working_set=4, batch_size=4, world_size=1, rank=0)
        assert not caplog.text
        stream(table, order="blocks", working_set=4, batch_size=4, world_size=3, rank=0)
    assert "working_set of 24" in caplog.text


def test_devices_that_are_not_there_are_refused(table: Table) -> None:
    with pytest.raises(InputError, match="CUDA devices only"):
        stream(table, device="mps")
    with pytest.raises(InputError, match="no such device"):
        stream(table, device="cudda")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="no CUDA device"):
            stream(table, device="cuda")
    assert next(iter(stream(table, device="cpu", num_samples=8)))["audio"].device.type == "cpu"


def test_seeds_serve_generators(table: Table) -> None:
    for batch in stream(table, batch_size=8, num_samples=8):
        for seed in batch["seed"].tolist():
            np.random.default_rng(seed)


def test_the_shuffle_is_judged_by_what_all_ranks_take(table: Table) -> None:
    one = stream(table, batch_size=4, num_samples=8).expected_quality()["data"]
    three = stream(table, batch_size=4, num_samples=8, rank=1, world_size=3).expected_quality()
    assert one.num_batches == 13
    assert three["data"].num_batches == 4
    loader = stream(table, batch_size=4, num_samples=8)
    list(loader)
    assert loader.stats().quality["data"].displaced == pytest.approx(1, abs=0.3)


def test_progress_is_a_line_now_and_then(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    progress = Progress(told)
    assert not progress.is_due()
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    assert progress.is_due()
    loader = stream(table, batch_size=8, num_samples=8)
    batch = next(iter(loader))
    progress.show(loader.stats(), batch["epoch"], batch["position"], loader.num_examples)
    assert told.getvalue().startswith("epoch 0: 8 of 53 examples, ")
    assert told.getvalue().endswith("\n")
    assert not progress.is_due()


def test_progress_goes_to_stderr(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    list(stream(table, batch_size=8, num_samples=8, progress=True))
    assert capsys.readouterr().out == ""
