"""Every built-in design: it learns a tiny set by heart, and survives its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from curation.probe import (
    AASIST,
    AASIST_LARGE,
    EMBEDDING_MLP,
    LFCC_LCNN,
    Design,
    FeatureStore,
    TrainingSettings,
    load_detector,
    read_keys,
    save_detector,
    train,
)
from datalake import tables
from datalake.errors import ConfigError, InputError, SchemaError
from datalake.tables import Table
from datalake.uri import Location
from tests.curation.probe.corpora import separable

DESIGNS = [LFCC_LCNN, EMBEDDING_MLP, AASIST]


def embedded(size: int = 8, *, column: str = "lfcc_stats", num_missing: int = 0) -> Table:
    """The separable table with an embedding that tells the labels apart by direction."""
    rows = separable(16, 12).scan().read_all()
    rng = np.random.default_rng(0)
    signs = np.where(np.asarray(rows["label"]) == "bonafide", 1.0, -1.0)
    vectors = rng.standard_normal((rows.num_rows, size)) + signs[:, None]
    cells = [None] * num_missing + vectors.astype(np.float32).tolist()[num_missing:]
    kind = pa.list_(pa.float32(), size)
    wide = rows.append_column(pa.field(column, kind), pa.array(cells, kind))
    table = tables.create_table(
        Location(f"memory://embedded-{id(wide)}"), wide.schema, format="memory"
    )
    return table.append(wide)


@pytest.fixture(scope="module")
def table() -> Table:
    return embedded()


def store_of(table: Table, design: Design, device: str = "cpu") -> FeatureStore:
    return FeatureStore(table, design, duration_s=0.2, device=device)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda each: each.name)
@pytest.mark.parametrize("num_spoof_prototypes", [0, 2])
def test_it_learns_a_few_rows_by_heart_and_survives_its_file(
    table: Table, design: Design, num_spoof_prototypes: int, tmp_path: Path
) -> None:
    settings = TrainingSettings(
        num_steps=24,
        batch_size=12,
        check_every=8,
        learning_rate=5e-3,
        num_spoof_prototypes=num_spoof_prototypes,
    )
    store, keys = store_of(table, design), read_keys(table)
    result = train(store, keys, design, settings)
    assert result.history[-1].training_loss < result.history[0].training_loss
    rows = keys["row_index"].to_numpy().astype(np.int64)
    scores = store.scores(result.detector, rows)
    bonafide = np.asarray(keys["label"]) == "bonafide"
    assert (scores[bonafide, None] > scores[None, ~bonafide]).mean() > 0.97
    save_detector(result.detector, tmp_path / "detector.pt")
    loaded = load_detector(tmp_path / "detector.pt", design)
    np.testing.assert_array_equal(store.scores(loaded, rows), scores)
    assert (loaded.column, loaded.name) == (design.column, design.name)
    assert loaded.num_spoof_prototypes == num_spoof_prototypes
    assert loaded.num_parameters == result.detector.num_parameters


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("design", [*DESIGNS, AASIST_LARGE], ids=lambda each: each.name)
def test_a_gpu_scores_as_the_cpu_does(table: Table, design: Design) -> None:
    settings = TrainingSettings(num_steps=4, batch_size=8, check_every=4)
    result = train(store_of(table, design, "cuda"), read_keys(table), design, settings)
    rows = np.arange(8)
    there = store_of(table, design, "cuda").scores(result.detector, rows)
    here = store_of(table, design).scores(result.detector.cpu(), rows)
    np.testing.assert_allclose(here, there, atol=1e-3)


def test_an_embedding_is_read_and_not_heard() -> None:
    table = embedded(5, column="speaker")
    design = EMBEDDING_MLP.reading("speaker")
    store = store_of(table, design)
    rows = np.array([7, 2])
    store.ensure(rows)
    expected = table.take([7, 2], ["speaker"])["speaker"].to_pylist()
    np.testing.assert_array_equal(store.features(rows).numpy(), np.array(expected, np.float32))
    with pytest.raises(InputError, match="cannot be augmented"):
        store.ensure_waveforms(rows)


def test_sizes_follow_from_the_column() -> None:
    settings = TrainingSettings(num_steps=1, batch_size=4, check_every=1)
    for size in (8, 120):
        table = embedded(size)
        result = train(store_of(table, EMBEDDING_MLP), read_keys(table), EMBEDDING_MLP, settings)
        assert result.detector.num_parameters == 66 * size + 4289


def test_what_is_no_embedding_is_refused(table: Table) -> None:
    with pytest.raises(SchemaError, match="lfcc_stats"):
        store_of(table, EMBEDDING_MLP.reading("lfcc_stat")).ensure(np.arange(2))
    with pytest.raises(SchemaError, match="fixed size"):
        store_of(table, EMBEDDING_MLP.reading("label")).ensure(np.arange(2))
    with pytest.raises(InputError, match="3 of 6 rows"):
        store_of(embedded(num_missing=3), EMBEDDING_MLP).ensure(np.arange(6))
    with pytest.raises(ConfigError, match="reads no embedding"):
        LFCC_LCNN.reading("speaker")


def test_files_of_before_still_load(table: Table, tmp_path: Path) -> None:
    detector = LFCC_LCNN.build().eval()
    weights = detector.network.state_dict()
    torch.save({"format": 1, "design": "lfcc_lcnn", "weights": weights}, tmp_path / "old.pt")
    waves = torch.randn(2, 8000)
    assert torch.equal(load_detector(tmp_path / "old.pt").score(waves), detector.score(waves))


def test_prototypes_of_another_number_do_not_fit(tmp_path: Path) -> None:
    detector = replace(LFCC_LCNN, num_spoof_prototypes=2).build()
    detector.num_spoof_prototypes = 3
    save_detector(detector, tmp_path / "detector.pt")
    with pytest.raises(InputError, match="do not fit"):
        load_detector(tmp_path / "detector.pt")
