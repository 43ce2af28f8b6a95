"""Domains at rates from a saved Weight selection of a lake."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from datalake.errors import InputError
from datalake.lake import Lake, Lineage, Selection, open_lake
from datalake.loader import Loader, Utterances, Weighted
from datalake.loader.sampling.weighted import Draw
from tests.loader import corpus

NUM_ROWS = 40
# By domain `made/0` to `made/3`, a row's weight: the fourth is left out.
WEIGHTS = (1.0, 2.0, 5.0, 0.0)


def weighted(version: int) -> Selection:
    made = corpus.select(list(range(NUM_ROWS)), version=version)
    weights = pa.array([WEIGHTS[row % 4] for row in range(NUM_ROWS)], pa.float64())
    at = made.rows.schema.get_field_index("weight")
    return replace(made, rows=made.rows.set_column(at, made.rows.schema.field(at), weights))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = open_lake(tmp_path_factory.mktemp("weighted") / "lake")
    lineage = Lineage("test", {}, {})
    table = made.create("corpus", corpus.SCHEMA, lineage=lineage).append(corpus.rows(NUM_ROWS))
    made.save_selection(weighted(table.version), lineage)
    made["corpus"].append(corpus.rows(1))
    return made


def loader_of(lake: Lake, draw: Draw = "even", **changes: object) -> Loader:
    source = Utterances.from_lake(lake, "corpus", selection="chosen", num_samples=8)
    spec = Weighted(source, lake.selection("chosen"), draw=draw)
    return Loader(spec, **{"batch_size": 8, "num_threads": 0, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("draw", ["even", "iid"])
def test_domains_come_at_their_rates(lake: Lake, draw: Draw) -> None:
    loader = loader_of(lake, draw)
    epochs = [[row for b in loader for row in b["row_index"].tolist()] for _ in range(20)]
    rows = np.array(epochs)
    assert rows.shape == (20, NUM_ROWS)
    shares = np.bincount(rows.ravel() % 4, minlength=4) / rows.size
    assert shares == pytest.approx([0.125, 0.25, 0.625, 0], abs=0.002 if draw == "even" else 0.06)
    mix = loader.stats().mix
    assert {name: share.asked for name, share in mix.items()} == {
        "made/0": 0.125, "made/1": 0.25, "made/2": 0.625,
    }  # fmt: skip
    for name, share in mix.items():
        assert share.realised == shares[int(name[-1])]
    if draw == "even":
        # In every batch, and each domain goes through its rows before any comes again.
        per_batch = np.stack([np.bincount(b % 4, minlength=4) for b in rows.reshape(-1, 8)])
        assert np.abs(per_batch - [1, 2, 5, 0]).max() <= 2
        for domain in range(3):
            own = rows[rows % 4 == domain]
            for begin in range(0, len(own) - 9, 10):
                assert len(set(own[begin : begin + 10].tolist())) == 10


@pytest.mark.parametrize("draw", ["even", "iid"])
def test_other_ranks_go_on_with_the_rest(lake: Lake, draw: Draw) -> None:
    def seeds(batches: object) -> list[int]:
        return [s for b in batches for s in b["seed"][~b["is_pad"]].tolist()]  # type: ignore[attr-defined]

    whole = seeds(loader_of(lake, draw, epoch=3))
    assert len(set(whole)) == NUM_ROWS
    first = loader_of(lake, draw, epoch=3, batch_size=6)
    passing = iter(first)
    seen = seeds([next(passing), next(passing)])
    state = json.loads(json.dumps(first.state_dict()))
    ranks = [loader_of(lake, draw, batch_size=3, rank=rank, world_size=3) for rank in range(3)]
    for loader in ranks:
        loader.load_state_dict(state)
    for step in zip(*ranks, strict=True):
        seen += seeds(step)
    assert seen == whole
    other: Draw = "iid" if draw == "even" else "even"
    with pytest.raises(InputError, match="draw"):
        loader_of(lake, other).load_state_dict(state)
