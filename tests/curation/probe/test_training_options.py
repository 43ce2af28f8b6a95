"""What the options of training do to a run: each by itself, and recorded."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

from curation.probe import (
    AASIST,
    LFCC_LCNN,
    Design,
    FeatureStore,
    Lfcc,
    Report,
    TrainingSettings,
    read_keys,
    run_seeds,
    train,
    with_weights,
)
from curation.probe.training import _mean, sharpness
from curation.selection import weigh
from datalake.errors import InputError
from datalake.tables import Table
from tests.curation.probe.corpora import separable

PLAIN = TrainingSettings(num_steps=4, batch_size=8, check_every=2)

OPTIONS = {
    "domains": {"sampling": "domains"},
    "natural": {"sampling": "natural"},
    "weights": {"sampling": "weights"},
    "weighted_loss": {"weighted_loss": True},
    "rawboost": {"rawboost": 5},
    "codecs": {"codecs": ("ulaw", "mp3")},
    "prototypes": {"num_spoof_prototypes": 3},
    "latent_augmentation": {"latent_augmentation": True},
    "sam": {"sam_rho": 0.05},
}


@pytest.fixture(scope="module")
def table() -> Table:
    return separable(24, 18)


@pytest.fixture(scope="module")
def keys(table: Table) -> pa.Table:
    return with_weights(read_keys(table), weigh(table, table_name="t", method="doss", cap=5))


def store_of(table: Table, design: Design = LFCC_LCNN, num_threads: int = 1) -> FeatureStore:
    return FeatureStore(table, design, duration_s=0.3, device="cpu", num_threads=num_threads)


@pytest.fixture(scope="module")
def store(table: Table) -> FeatureStore:
    return store_of(table)


@pytest.fixture(scope="module")
def plain_weights(store: FeatureStore, keys: pa.Table) -> dict[str, Tensor]:
    return train(store, keys, LFCC_LCNN, PLAIN).detector.network.state_dict()


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_changes_the_result_and_one_seed_gives_one(
    name: str, store: FeatureStore, keys: pa.Table, plain_weights: dict[str, Tensor]
) -> None:
    settings = replace(PLAIN, **OPTIONS[name])
    first, second = (train(store, keys, LFCC_LCNN, settings) for _ in range(2))
    assert first.history == second.history
    weights = first.detector.network.state_dict()
    for each, value in second.detector.network.state_dict().items():
        assert torch.equal(value, weights[each]), each
    assert any(
        each not in plain_weights or not torch.equal(value, plain_weights[each])
        for each, value in weights.items()
    )


def test_all_at_once_on_raw_waveforms_in_any_number_of_threads(
    table: Table, keys: pa.Table
) -> None:
    settings = replace(
        PLAIN,
        sampling="weights",
        rawboost=4,
        codecs=("gsm", "vorbis"),
        augmented_share=0.5,
        num_spoof_prototypes=2,
        latent_augmentation=True,
        sam_rho=0.05,
    )
    one, three = (
        train(store_of(table, AASIST, threads), keys, AASIST, settings) for threads in (1, 3)
    )
    assert one.history == three.history
    assert one.augmentations == three.augmentations
    assert sum(one.augmentations.values()) >= PLAIN.num_steps * PLAIN.batch_size
    assert one.augmentations["rawboost 4"] > 0


def test_an_augmented_store_computes_features_of_changed_waves(table: Table) -> None:
    class Silence:
        def apply(self, waves: np.ndarray, *_: object) -> np.ndarray:
            return np.zeros_like(waves)

    store, rows = store_of(table), np.array([3, 1])
    store.ensure_waveforms(rows)
    found = store.augmented(rows, Silence(), ["a", "b"], [0, 0])
    torch.testing.assert_close(found, Lfcc()(torch.zeros(2, 4800)))


def test_rows_of_weight_0_are_not_trained_on(table: Table) -> None:
    keys = read_keys(table)
    selection = weigh(table, table_name="t", method="uniform", where="domain <> 'studio/b'")
    weighted = with_weights(keys, selection)
    assert weighted.num_rows == keys.num_rows - 6
    assert "studio/b" not in weighted["domain"].to_pylist()
    assert weighted.column_names == [*keys.column_names, "weight"]
    by_row = dict(
        zip(*(selection.rows[name].to_pylist() for name in ("row_index", "weight")), strict=True)
    )
    assert weighted["weight"].to_pylist() == [
        by_row[row] for row in weighted["row_index"].to_pylist()
    ]
    with pytest.raises(InputError, match="none in common"):
        with_weights(keys.filter(pa.array(np.asarray(keys["generator"]) == "b")), selection)


def test_a_weighted_loss_is_a_weighted_mean(table: Table, store: FeatureStore) -> None:
    losses, weights = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([3.0, 0.0, 1.0])
    assert _mean(losses, weights).item() == pytest.approx((3 * 1 + 6) / 4)
    keys = read_keys(table)
    plain = train(store, keys, LFCC_LCNN, PLAIN)
    alike = keys.append_column("weight", pa.array(np.full(keys.num_rows, 0.7)))
    result = train(store, alike, LFCC_LCNN, replace(PLAIN, weighted_loss=True))
    for one, other in zip(result.history, plain.history, strict=True):
        assert one.training_loss == pytest.approx(other.training_loss, rel=1e-3)


class Plain(nn.Module):
    """A network without latent vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(60, 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.classifier(features.mean(2)).squeeze(1)


def test_networks_of_another_kind_train_but_have_no_latent_space(
    store: FeatureStore, keys: pa.Table
) -> None:
    design = Design("plain", Lfcc, Plain)
    assert train(store, keys, design, replace(PLAIN, sam_rho=0.1)).num_steps == 4
    for option in ({"num_spoof_prototypes": 2}, {"latent_augmentation": True}):
        with pytest.raises(InputError, match="latent vectors"):
            train(store, keys, design, replace(PLAIN, **option))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"sampling": "wieghts"}, "weights"),
        ({"rawboost": 9}, "1 to 8"),
        ({"codecs": ("amr",)}, "gsm"),
        ({"augmented_share": 1.5}, "from 0 to 1"),
        ({"sam_rho": -1.0}, "sam_rho"),
        ({"num_spoof_prototypes": -1}, "num_spoof_prototypes"),
        ({"sharpness_rho": float("nan")}, "sharpness_rho"),
    ],
)
def test_options_out_of_range_are_refused(change: dict[str, object], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        TrainingSettings(**change)


@pytest.mark.parametrize("change", [{"sampling": "weights"}, {"weighted_loss": True}])
def test_weights_must_be_there(
    table: Table, store: FeatureStore, change: dict[str, object]
) -> None:
    with pytest.raises(InputError, match="no weights"):
        train(store, read_keys(table), LFCC_LCNN, replace(PLAIN, **change))


def test_the_report_tells_of_it(table: Table, keys: pa.Table) -> None:
    settings = replace(PLAIN, codecs=("alaw",), rawboost=3, sharpness_rho=0.05)
    test = separable(8, 6, first=2000)
    runs = run_seeds(
        store_of(table),
        keys,
        store_of(test),
        read_keys(test),
        design=LFCC_LCNN,
        settings=settings,
        num_resamples=5,
    )
    facts = Report("lfcc_lcnn", settings, runs, (), {}).to_dict()
    read = json.loads(json.dumps(facts))
    assert read["settings"] == json.loads(json.dumps(asdict(settings)))
    assert read["codec_library"]
    (seed,) = read["seeds"]
    assert seed["augmentations"]["rawboost 3"] == 32
    assert seed["num_parameters"] == 60_809
    assert seed["validation_sharpness"] > 0
    assert seed["test_sharpness"] > 0


def test_sharpness_does_not_hang_on_the_order_of_rows(table: Table, store: FeatureStore) -> None:
    detector = LFCC_LCNN.build().eval()
    keys = read_keys(table)
    turned = keys.take(pa.array(np.arange(keys.num_rows)[::-1]))
    one = sharpness(store, keys, detector, 0.05, batch_size=16)
    assert one == pytest.approx(sharpness(store, turned, detector, 0.05, batch_size=16), rel=1e-5)
    assert 0 < one < sharpness(store, keys, detector, 0.2, batch_size=16)
