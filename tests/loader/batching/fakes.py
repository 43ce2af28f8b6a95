"""Samplers and sources that only know what their rows cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Picks, Sampler
from datalake.loader.sources.source import Source

UNIT = "frames"


@dataclass(frozen=True)
class FakeSource:
    lengths: tuple[float, ...]

    @property
    def num_rows(self) -> int:
        return len(self.lengths)

    def costs(self, rows: Indices, unit: str) -> npt.NDArray[np.float64]:
        if unit != UNIT:
            raise InputError("The unit is not known", expected=UNIT, found=unit)
        return np.array(self.lengths, np.float64)[rows]

    def ids(self, rows: Indices) -> list[str]:
        return [f"row-{row}" for row in rows.tolist()]


@dataclass(frozen=True)
class FakeSampler:
    """Rows of the sources one after the other, in an order shuffled by NumPy."""

    lengths: tuple[tuple[float, ...], ...]
    seed: int = 0
    version: int = 3
    weights: tuple[float, ...] = (1.0,)
    went_on_at: int = 0
    sources: Sequence[Source] = field(init=False)

    def __post_init__(self) -> None:
        made = [cast("Source", FakeSource(lengths)) for lengths in self.lengths]
        object.__setattr__(self, "sources", made)

    @property
    def names(self) -> Sequence[str]:
        return [f"source {number}" for number in range(len(self.lengths))]

    @property
    def num_examples(self) -> int:
        return sum(map(len, self.lengths))

    def identity(self) -> Mapping[str, Any]:
        uri = "s3://bucket/lake/tables/corpus.lance"
        sources = [{"uri": uri, "version": self.version} for _ in self.lengths]
        return {"sources": sources, "order": "exact/1", "seed": self.seed}

    def picks(self, epoch: int, positions: Indices) -> Picks:
        order = np.random.default_rng([self.seed, epoch]).permutation(self.num_examples)
        sizes = [len(lengths) for lengths in self.lengths]
        sources = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.concatenate([np.arange(size) for size in sizes])
        found = order[positions]
        visits = np.full(len(found), epoch)
        return Picks(sources[found], rows[found], visits, np.ones(len(found), np.float32))

    def progress(self, epoch: int, position: int) -> Mapping[str, Any]:
        return {"weights": list(self.weights), "at": position}

    def resumed(self, epoch: int, position: int, progress: Mapping[str, Any]) -> FakeSampler:
        if list(progress["weights"]) == list(self.weights):
            return self
        return replace(self, went_on_at=position)

    def ids(self, epoch: int, positions: Indices) -> list[tuple[int, int]]:
        """Which example stands at each position."""
        picks = self.picks(epoch, positions)
        return list(zip(picks.sources.tolist(), picks.rows.tolist(), strict=True))


def sampler_of(*lengths: Sequence[float], seed: int = 0) -> FakeSampler:
    return FakeSampler(tuple(tuple(map(float, one)) for one in lengths), seed)


def uniform(num_examples: int) -> FakeSampler:
    """All examples cost 1."""
    return sampler_of([1.0] * num_examples)


def as_sampler(fake: FakeSampler) -> Sampler:
    """For the type checker."""
    return cast("Sampler", fake)


lengths = st.one_of(
    st.integers(0, 40).map(float),
    st.floats(0, 40, allow_subnormal=False),
    st.just(7.0),
    # Longer than any limit the tests use.
    st.just(200.0),
)
samplers = st.builds(
    lambda first, second, seed: sampler_of(*([first, second] if second else [first]), seed=seed),
    st.lists(lengths, min_size=1, max_size=90),
    st.lists(lengths, max_size=30),
    st.integers(0, 9),
)
