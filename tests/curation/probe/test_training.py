"""Learning on audio that is trivially separable, from bytes in a table to an EER."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from curation.probe import (
    LFCC_LCNN,
    Detector,
    FeatureStore,
    Report,
    TrainingResult,
    TrainingSettings,
    evaluate,
    load_detector,
    read_keys,
    run_seeds,
    save_detector,
    train,
)
from curation.probe.training import balanced_batches
from datalake.audio import decode
from datalake.errors import ConfigError, InputError, NotFoundError, StoppedError
from datalake.tables import Table
from tests.curation.probe.corpora import row, separable, table_of

SETTINGS = TrainingSettings(num_steps=24, batch_size=16, check_every=8, learning_rate=3e-3)


def store_of(table: Table, duration_s: float = 0.5) -> FeatureStore:
    return FeatureStore(table, LFCC_LCNN, duration_s=duration_s, device="cpu")


@pytest.fixture(scope="module")
def corpus() -> Table:
    return separable()


@pytest.fixture(scope="module")
def trained(corpus: Table) -> TrainingResult:
    return train(store_of(corpus), read_keys(corpus), LFCC_LCNN, SETTINGS)


def test_it_learns_to_tell_humming_from_hissing(trained: TrainingResult) -> None:
    test = separable(20, 12, first=1000)
    found = evaluate(store_of(test), read_keys(test), trained.detector, num_resamples=50)
    lines = {line["domain"] or line["scope"]: line for line in found.by_domain.to_pylist()}
    assert set(lines) == {"studio/a", "studio/b", "pooled", "macro"}
    assert lines["pooled"]["eer"] < 0.05
    assert lines["studio/a"]["num_spoof"] == 12
    assert lines["studio/b"]["num_spoof"] == 4
    assert lines["pooled"]["num_bonafide"] == 20
    assert found.scores.num_rows == 36
    assert found.scores.column_names == ["utt_id", "label", "domain", "generator", "score"]


def test_high_is_bona_fide(corpus: Table, trained: TrainingResult) -> None:
    keys = read_keys(corpus)
    scores = evaluate(store_of(corpus), keys, trained.detector, num_resamples=1).scores
    values, labels = scores["score"].to_numpy(), scores["label"].to_numpy()
    assert values[labels == "bonafide"].mean() > values[labels == "spoof"].mean() + 1


def test_a_waveform_scores_as_its_kept_features_do(corpus: Table, trained: TrainingResult) -> None:
    detector = trained.detector
    assert isinstance(detector, Detector)
    data = corpus.take([3], ["audio"])["audio"][0].as_py()
    wave = torch.from_numpy(decode(data, sample_rate_hz=16000)[0][:8000])
    kept = store_of(corpus).scores(detector, np.array([3]))
    np.testing.assert_allclose(detector.score(wave[None]).numpy(), kept, rtol=1e-4, atol=1e-4)


def test_one_seed_gives_one_result(corpus: Table, trained: TrainingResult) -> None:
    state = torch.random.get_rng_state()
    again = train(store_of(corpus), read_keys(corpus), LFCC_LCNN, SETTINGS)
    assert again.history == trained.history
    for name, value in trained.detector.state_dict().items():
        assert torch.equal(value, again.detector.state_dict()[name]), name
    assert torch.equal(state, torch.random.get_rng_state())
    other = train(store_of(corpus), read_keys(corpus), LFCC_LCNN, replace(SETTINGS, seed=1))
    assert other.history != trained.history


def test_training_stops_early_and_keeps_the_best(corpus: Table) -> None:
    # Without a step worth the name, validation never improves on the first look.
    settings = replace(SETTINGS, num_steps=80, check_every=2, patience=3, learning_rate=1e-30)
    result = train(store_of(corpus), read_keys(corpus), LFCC_LCNN, settings)
    assert result.num_steps < 80
    assert result.num_steps == result.best_step + 2 * 3
    best = min(result.history, key=lambda check: check.validation_loss)
    assert best.step == result.best_step


def test_steps_do_not_depend_on_the_number_of_rows() -> None:
    few, many = (
        balanced_batches(np.arange(n), np.arange(n, 3 * n), num_steps=7, batch_size=6, seed=0)
        for n in (2, 500)
    )
    assert few.shape == many.shape == (7, 6)


def test_batches_are_half_bona_fide_and_use_every_row_before_any_again() -> None:
    batches = balanced_batches(np.arange(6), np.arange(100, 104), num_steps=4, batch_size=6, seed=0)
    assert (batches[:, :3] < 100).all()
    assert (batches[:, 3:] >= 100).all()
    bonafide, spoof = batches[:, :3].ravel(), batches[:, 3:].ravel()
    assert sorted(bonafide[:6]) == list(range(6))
    assert sorted(spoof[:4]) == sorted(spoof[4:8]) == [100, 101, 102, 103]


def test_only_rows_that_are_drawn_are_decoded() -> None:
    table = separable(30, 30)
    store, settings = store_of(table), replace(SETTINGS, num_steps=2, batch_size=4)
    seen = []
    store._on_progress = lambda done, total: seen.append(total)
    result = train(store, read_keys(table), LFCC_LCNN, settings)
    assert max(seen) <= 2 * 4 + result.num_validation_rows < table.count_rows()


def test_features_are_kept(corpus: Table) -> None:
    store = store_of(corpus)
    store.ensure(np.array([5, 1]))
    first = store.features(np.array([1, 5, 1]))
    store.ensure(np.array([1, 7]))
    assert torch.equal(first, store.features(np.array([1, 5, 1])))
    assert torch.equal(first[0], first[2])
    assert not torch.equal(first[0], first[1])


def test_a_label_that_is_missing_is_named() -> None:
    table = table_of([row(index, None) for index in range(6)])
    with pytest.raises(InputError, match="no spoof rows for training"):
        train(store_of(table), read_keys(table), LFCC_LCNN, SETTINGS)


def test_spoofs_of_unnamed_generators_count_by_domain(
    corpus: Table, trained: TrainingResult
) -> None:
    keys = read_keys(corpus)
    place = keys.schema.get_field_index("generator")
    keys = keys.set_column(place, "generator", pa.nulls(keys.num_rows, pa.string()))
    found = evaluate(store_of(corpus), keys, trained.detector, num_resamples=1)
    assert found.by_generator.equals(found.by_domain)


def test_divergence_stops(corpus: Table) -> None:
    settings = replace(SETTINGS, learning_rate=math.inf)
    with pytest.raises(StoppedError, match="diverged"):
        train(store_of(corpus), read_keys(corpus), LFCC_LCNN, settings)


@pytest.mark.parametrize(
    "change", [{"batch_size": 5}, {"num_steps": 0}, {"validation_fraction": 1}]
)
def test_settings_out_of_range_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(InputError):
        TrainingSettings(**change)


def test_a_device_that_is_not_here_is_refused(corpus: Table) -> None:
    with pytest.raises(ConfigError, match="cuda:99"):
        FeatureStore(corpus, LFCC_LCNN, device="cuda:99")


def test_a_detector_survives_its_file(trained: TrainingResult, tmp_path: Path) -> None:
    save_detector(trained.detector, tmp_path / "detector.pt")
    loaded = load_detector(tmp_path / "detector.pt")
    waves = torch.randn(2, 8000)
    assert torch.equal(loaded.score(waves), trained.detector.score(waves))
    assert [path.name for path in tmp_path.iterdir()] == ["detector.pt"]


def test_what_is_no_detector_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        load_detector(tmp_path / "none.pt")
    (tmp_path / "text.pt").write_text("weights")
    with pytest.raises(InputError, match="no detector"):
        load_detector(tmp_path / "text.pt")
    torch.save({"format": 99}, tmp_path / "later.pt")
    with pytest.raises(InputError, match="format"):
        load_detector(tmp_path / "later.pt")


def test_the_report_of_two_seeds(corpus: Table, tmp_path: Path) -> None:
    test = separable(8, 6, first=2000)
    runs = run_seeds(
        store_of(corpus),
        read_keys(corpus),
        store_of(test),
        read_keys(test),
        design=LFCC_LCNN,
        settings=replace(SETTINGS, num_steps=4, check_every=2, seed=5),
        num_seeds=2,
        num_resamples=20,
    )
    report = Report("lfcc_lcnn", SETTINGS, runs, (), {"datalake.run_id": "r"})
    assert [run.seed for run in runs] == [5, 6]
    each = [run.evaluation.by_domain.to_pylist()[0]["eer"] for run in runs]
    mean = report.by_domain.to_pylist()[0]
    assert mean["eer"] == pytest.approx(np.mean(each))
    assert mean["eer_sd"] == pytest.approx(np.std(each, ddof=1))
    written = report.save(tmp_path / "out")
    assert {path.name for path in written} == {
        *("report.json", "detector-5.pt", "detector-6.pt"),
        *("scores-5.parquet", "scores-6.parquet"),
    }
    read = json.loads((tmp_path / "out" / "report.json").read_text())
    assert read["by_domain"] == report.by_domain.to_pylist()
    assert len(read["seeds"]) == 2
