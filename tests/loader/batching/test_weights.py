"""A mixture whose weights change in the midst of a window loses and repeats nothing."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.loader.batching import Place
from datalake.loader.sampling.mixture import Mixture
from datalake.loader.state import load, save
from tests.loader.batching.fakes import UNIT
from tests.loader.exactness import Run, batchings, runs, unhurried
from tests.loader.sampling.fakes import Counted


class Costly(Counted):
    """Row n costs n modulo 37."""

    def costs(self, rows: Any, unit: str) -> Any:  # type: ignore[override]
        return np.asarray(rows, np.float64) % 37


PARTS = {"speech": Costly(70, "memory://speech"), "robot": Costly(90, "memory://robot")}


def sampler_of(speech: int, robot: int) -> Any:
    weights = {"speech": float(speech), "robot": float(robot)}
    return Mixture(PARTS, weights, examples_per_epoch=200).sampler(seed=3)  # type: ignore[arg-type]


shares = st.tuples(st.integers(1, 5), st.integers(1, 5))


@settings(unhurried, max_examples=30)
@given(runs(batchings(UNIT)), st.lists(shares, min_size=6, max_size=6))
def test_each_part_goes_on_with_its_next_example(
    runs: list[Run], weights: list[tuple[int, int]]
) -> None:
    drawn: list[tuple[int, int, int]] = []
    state = save(sampler_of(*weights[0]), Place(0, 0))
    for run, own in zip(runs, weights, strict=False):
        place, sampler = load(sampler_of(*own), json.loads(json.dumps(state)))
        ranks = [
            run.batching.shares(sampler, place, rank, run.world_size)
            for rank in range(run.world_size)
        ]
        for number, step in enumerate(zip(*ranks, strict=True)):
            if number == run.steps:
                break
            for share in step:
                picks = sampler.picks(0, share.positions[~share.is_pad])
                columns = (picks.sources, picks.visits, picks.rows)
                drawn += zip(*(column.tolist() for column in columns), strict=True)
            state = save(sampler, step[0].after)
    assert len(drawn) == len(set(drawn)) == 200
    for number, source in enumerate(PARTS.values()):
        visits = [(visit, row) for one, visit, row in drawn if one == number]
        full, rest = divmod(len(visits), source.num_rows)
        sizes = [sum(visit == n for visit, _ in visits) for n in range(full + 1)]
        assert sizes == [source.num_rows] * full + [rest]
