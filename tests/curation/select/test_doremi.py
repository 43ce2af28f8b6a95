"""DoReMi's weights: the update by hand, and from files of losses."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import curation
from curation.domains import Domain
from curation.selection import DOREMI, WeightOptions
from curation.selection.domain_losses import dro_weights, read_losses
from curation.selection.group_dro import GroupDro
from datalake.errors import InputError, NotFoundError, SchemaError
from tests.curation.select.corpora import key_table, stored


def test_two_steps_by_hand() -> None:
    dro = GroupDro(["a", "b"], step_size=1.0, smoothing=0.1)
    # alpha' = (.5 * e^ln 3, .5 * e^0) = (1.5, .5): shares (.75, .25), and a tenth spread evenly.
    assert dro.step(np.array([math.log(3), 0.0])) == pytest.approx([0.725, 0.275])
    # alpha' = (.725, .275 * 2): the sum is 1.275.
    second = [0.9 * 0.725 / 1.275 + 0.05, 0.9 * 0.55 / 1.275 + 0.05]
    assert dro.step(np.array([0.0, math.log(2)])) == pytest.approx(second)
    assert dro.average() == pytest.approx(
        {"a": (0.725 + second[0]) / 2, "b": (0.275 + second[1]) / 2}
    )


def test_a_domain_that_a_step_lacks_keeps_its_excess() -> None:
    one, other = (GroupDro(["a", "b"], smoothing=0.0) for _ in range(2))
    one.step(np.array([0.5, 0.2]))
    other.step(np.array([0.5, 0.2]))
    assert one.step(np.array([np.nan, 0.3])).tolist() == other.step(np.array([0.5, 0.3])).tolist()
    assert GroupDro(["a", "b"]).step(np.array([np.nan, np.nan])) == pytest.approx([0.5, 0.5])


@given(
    st.lists(st.lists(st.floats(0, 1e4), min_size=3, max_size=3), min_size=1, max_size=20),
    st.floats(0.01, 100),
    st.floats(0, 1),
)
def test_weights_are_shares_that_the_smoothing_bounds(steps, step_size, smoothing) -> None:
    dro = GroupDro(["a", "b", "c"], step_size=step_size, smoothing=smoothing)
    for step in steps:
        weights = dro.step(np.array(step))
        assert weights.sum() == pytest.approx(1)
        assert weights.min() >= smoothing / 3 * (1 - 1e-12)
    assert math.fsum(dro.average().values()) == pytest.approx(1)


def lines(num_steps: int = 3) -> pa.Table:
    rng = np.random.default_rng(1)
    rows = [
        {"step": step, "domain": name, "loss": rng.uniform(0, 2), "reference_loss": 0.7}
        for step in range(num_steps)
        for name in ("a", "a", "a/x", "a/y", "b")
    ]
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_losses_of_rows_are_cut_at_nothing_and_averaged(tmp_path, suffix) -> None:
    path = tmp_path / f"losses.{suffix}"
    writer = pa.csv.write_csv if suffix == "csv" else pa.parquet.write_table
    given = lines()
    writer(given.take(pa.array(np.random.default_rng(0).permutation(len(given)))), path)
    dro = GroupDro(["a", "a/x", "a/y", "b"], smoothing=0.01)
    for step in range(3):
        of_step = [row for row in given.to_pylist() if row["step"] == step]
        excess = [
            np.mean([max(row["loss"] - 0.7, 0) for row in of_step if row["domain"] == name])
            for name in dro.domains
        ]
        dro.step(np.array(excess))
    found = dro_weights(read_losses(path), step_size=1.0, smoothing=0.01)
    assert found == pytest.approx(dict(dro.average()))


def test_labels_come_at_the_ratio_and_within_them_as_learned(tmp_path) -> None:
    path = tmp_path / "losses.csv"
    pa.csv.write_csv(lines(), path)
    sizes = {Domain("bonafide", "a"): 9, Domain("spoof", "a", "x"): 5, Domain("spoof", "a", "y"): 1}
    masses = DOREMI.masses(sizes, WeightOptions(losses=str(path), ratio=3.0))
    learned = dro_weights(read_losses(path), step_size=1.0, smoothing=1e-3)
    spoofs = learned["a/x"] + learned["a/y"]
    assert list(masses.values()) == pytest.approx(
        [0.75, 0.25 * learned["a/x"] / spoofs, 0.25 * learned["a/y"] / spoofs]
    )


def test_it_weighs_a_table_and_records_which_losses(tmp_path) -> None:
    path = tmp_path / "losses.csv"
    pa.csv.write_csv(lines(), path)
    table = stored(key_table({"a": 40, "a/x": 90, "a/y": 7, "b": 3}))
    found = curation.weigh(table, table_name="corpus", method="doremi", losses=path, max_repeat=9)
    learned = dro_weights(read_losses(path), step_size=1.0, smoothing=1e-3)
    shares = {row["domain"]: row["mass"] for row in found.manifest.to_pylist()}
    assert shares["a/x"] / shares["a/y"] == pytest.approx(learned["a/x"] / learned["a/y"])
    assert found.rows["weight"].to_numpy().mean() == pytest.approx(1)
    assert found.parameters["losses"] == str(path)
    assert len(found.parameters["losses_sha256"]) == 64


def test_what_cannot_be_read_is_named(tmp_path) -> None:
    sizes = {Domain("bonafide", "a"): 9, Domain("spoof", "new", "x"): 5}
    path = tmp_path / "losses.csv"

    def masses() -> None:
        DOREMI.masses(sizes, WeightOptions(losses=str(path)))

    with pytest.raises(InputError, match="curate proxy"):
        DOREMI.masses(sizes, WeightOptions())
    with pytest.raises(NotFoundError, match="no such file of losses"):
        masses()
    pa.csv.write_csv(lines(), path)
    with pytest.raises(InputError, match=r"1 of 2 domains have no losses.*new/x"):
        masses()
    path.write_text("domain,loss\na,1\n")
    with pytest.raises(SchemaError, match="excess_loss or loss and reference_loss"):
        masses()
    path.write_text("domain,excess_loss\na,much\n")
    with pytest.raises(SchemaError, match="no numbers"):
        masses()
    path.write_text("domain,excess_loss\na,\n")
    with pytest.raises(InputError, match="not complete"):
        masses()
    path.write_text("domain,excess_loss\na,-1\n")
    with pytest.raises(InputError, match="0 or more"):
        masses()
    with pytest.raises(InputError, match=r"parquet or \.csv"):
        DOREMI.masses(sizes, WeightOptions(losses="losses.txt"))
    with pytest.raises(InputError, match="step size"):
        GroupDro(["a"], step_size=0)
