"""A proxy's weights follow its losses: the file it writes says the same as the run."""

from __future__ import annotations

import math

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import curation
import datalake
from curation.cli.app import app
from curation.probe import LFCC_LCNN, FeatureStore, TrainingSettings, read_keys
from curation.probe.proxy import ProxyRun, _reweigh, train_proxy
from curation.selection.domain_losses import LOSSES, dro_weights, read_losses
from curation.selection.group_dro import GroupDro
from datalake import Lineage
from datalake.cli import console
from datalake.errors import InputError
from tests.curation.probe.corpora import row, separable, table_of

SETTINGS = TrainingSettings(num_steps=16, batch_size=16, check_every=8, learning_rate=3e-3)


def run(table, settings=SETTINGS, **options) -> ProxyRun:
    store = FeatureStore(table, LFCC_LCNN, duration_s=0.5, device="cpu")
    return train_proxy(store, read_keys(table), LFCC_LCNN, settings, **options)


@pytest.fixture(scope="module")
def proxied() -> ProxyRun:
    return run(separable(), step_size=2.0, smoothing=0.01)


def test_the_file_replays_the_run(proxied, tmp_path) -> None:
    losses = proxied.losses
    assert losses.schema == LOSSES
    assert set(losses["domain"].to_pylist()) == {"phone", "studio", "studio/a", "studio/b"}
    by_step = losses.group_by("step").aggregate([("num_rows", "sum"), ("weight", "sum")])
    assert set(by_step["num_rows_sum"].to_pylist()) == {16}
    assert by_step.num_rows == 16
    assert proxied.weights.keys() == set(losses["domain"].to_pylist())
    path = tmp_path / "losses.parquet"
    pq.write_table(losses, path)
    replayed = dro_weights(read_losses(path), step_size=2.0, smoothing=0.01)
    assert replayed == pytest.approx(dict(proxied.weights), rel=1e-12)
    # An excess is a mean of what is above the reference, so no less than that of the means.
    above = pc.subtract(losses["loss"], losses["reference_loss"]).to_numpy()
    assert (losses["excess_loss"].to_numpy() >= np.maximum(above, 0) - 1e-12).all()


def test_it_is_the_same_again_and_weighs_what_a_reference_knows_better(proxied) -> None:
    table = separable()
    given = run(table, reference=proxied.reference, step_size=2.0, smoothing=0.01)
    assert dict(given.weights) == dict(proxied.weights)
    assert given.losses == proxied.losses
    # A fresh proxy is behind a trained reference everywhere.
    first = proxied.losses.filter(pc.field("step") == 1)
    assert min(first["excess_loss"].to_pylist()) > 0


def test_a_step_by_hand() -> None:
    dro = GroupDro(["a", "b", "c"], smoothing=0.0)
    losses, reference = np.array([1.0, 3.0, 2.0]), np.array([0.5, 1.0, 2.5])
    lines, of_row = _reweigh(dro, 7, losses, reference, np.array([0, 0, 1]))
    # Excess: a (.5 + 2) / 2; b is ahead of the reference; c has no row and stays as it is.
    a = math.exp(1.25) / (math.exp(1.25) + 2)
    b = (1 - a) / 2
    assert lines.to_pylist() == [
        {
            "step": 7, "domain": "a", "num_rows": 2, "loss": 2.0, "reference_loss": 0.75,
            "excess_loss": 1.25, "weight": pytest.approx(a),
        },
        {
            "step": 7, "domain": "b", "num_rows": 1, "loss": 2.0, "reference_loss": 2.5,
            "excess_loss": 0.0, "weight": pytest.approx(b),
        },
    ]  # fmt: skip
    assert of_row == pytest.approx([a / 2 / (a + b), a / 2 / (a + b), b / (a + b)])


def test_the_command_writes_what_weigh_reads(tmp_path, capsys) -> None:
    lake = datalake.open_lake(tmp_path / "lake")
    table = separable(16, 12)
    rows = table.scan().read_all()
    lake.create("corpus", rows.schema, lineage=Lineage("create")).append(rows)
    out = tmp_path / "losses.csv"
    command = [
        "proxy", "corpus", "--lake", lake.location.uri, "--steps", "4", "--batch-size", "8",
        "--seconds", ".3", "--out", str(out), "--device", "cpu", "--quiet",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as leaving:
        console.run(app, "curate", command)
    said = capsys.readouterr().out
    assert leaving.value.code == 0
    assert f"curate weigh corpus --method doremi --losses {out}" in said
    found = curation.weigh(lake["corpus"], table_name="corpus", method="doremi", losses=out)
    assert len(found) == rows.num_rows


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(InputError, match="both labels"):
        run(table_of([row(index, None) for index in range(4)]))
    with pytest.raises(InputError, match="step size"):
        run(separable(8, 6), step_size=-1.0)
