"""One source whose domains come at given rates."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.errors import InputError, nearest
from datalake.lake import Selection
from datalake.loader.order.choice import OrderName
from datalake.loader.order.feistel import permute
from datalake.loader.order.hashing import Words, keys, mix
from datalake.loader.order.memo import Memo
from datalake.loader.order.order import Indices, inside
from datalake.loader.sampling.origin import check_origin, place_of
from datalake.loader.sampling.sampler import Picks, Plain, Sampler
from datalake.loader.sampling.spec import DEFAULT_WORKING_SET, WorkingSet
from datalake.loader.sampling.strides import Strides
from datalake.loader.sources.chosen import ChosenFrames
from datalake.loader.sources.source import Source

__all__ = ["Draw", "Weighted", "WeightedSampler"]

Draw: TypeAlias = Literal["even", "iid"]

# Rates of so many domains are written out in a state; of more, their digest.
_MAX_NAMED = 8


@dataclass(frozen=True, eq=False)
class Weighted:
    """The selected rows of a source, domain by domain at given rates.

    Args:
        source: at the version that was selected from.
        selection: of rows with domains and weights, such as a saved Weight selection; None for
            the one that the source names. Rows of weight 0 are left out.
        rates: in what proportion domains come; None for the sums of their rows' weights. Domains
            that it does not name are left out.
        draw: `even`: exact proportions in every stretch of the stream, the least that whole
            examples allow (see `strides`); `iid`: each position for itself, by chance.
        replace: whether an example may come again before all of its domain came. By default it
            may in `iid` only, where it must. Rows are drawn in proportion to their weights with
            replacement; without it, alike often in a domain.
        examples_per_epoch: positions an epoch; None for the number of selected rows. The stream
            goes on over epochs, so that a short one leaves nothing out.
        name: of the source, for a person.

    Raises:
        InputError: an argument is out of range, nothing is selected, a rate names no domain, or
            the selection was made from another version or table.
    """

    source: Source
    selection: Selection | None = None
    rates: Mapping[str, float] | None = None
    draw: Draw = "even"
    replace: bool | None = None
    examples_per_epoch: int | None = None
    name: str = "data"

    def __post_init__(self) -> None:
        check_origin(self.source, self.chosen)
        if self.draw not in get_args(Draw):
            raise InputError(
                f"There is no way to draw called {self.draw!r}",
                fix=nearest(self.draw, get_args(Draw)),
            )
        if self.draw == "iid" and self.replace is False:
            raise InputError(
                "Independent draws cannot be without replacement",
                fix="Use draw='even', or leave `replace` out",
            )
        if self.examples_per_epoch is not None and self.examples_per_epoch < 1:
            raise InputError(
                "The length of an epoch is out of range",
                expected="examples_per_epoch of 1 or more",
                found=str(self.examples_per_epoch),
            )

    @property
    def chosen(self) -> Selection | ChosenFrames:
        """The selection, given or the source's own.

        Raises:
            InputError: there is none.
        """
        selection = self.selection or getattr(self.source, "selection", None)
        if selection is None:
            raise InputError(
                "Domains at rates need a selection",
                where=place_of(self.source),
                fix="Give a selection with domains and weights, here or to the source",
            )
        return cast("Selection | ChosenFrames", selection)

    def sampler(
        self,
        *,
        order: OrderName = "exact",
        seed: int = 0,
        working_set: WorkingSet = DEFAULT_WORKING_SET,  # noqa: ARG002
    ) -> WeightedSampler:
        """The same with a seed.

        Raises:
            InputError: the order is not `exact`: domains at rates have an order of their own.
        """
        if order != "exact":
            raise InputError(
                f"Domains at rates cannot come in the order {order!r}",
                where=place_of(self.source),
                expected="exact",
                fix="Leave the order out, or use Selected(source, selection) with that order",
            )
        return WeightedSampler(self, seed)


class WeightedSampler:
    """Domains at rates. 8 bytes a selected row; 16 with replacement; 16 more once realised shares
    are asked for."""

    def __init__(self, spec: Weighted, seed: int) -> None:
        self._source = spec.source
        self._name = spec.name
        self._seed = seed
        self._draw = spec.draw
        self._replace = spec.draw == "iid" if spec.replace is None else spec.replace
        self._selection_digest = spec.chosen.digest
        self._num_examples = spec.examples_per_epoch or len(spec.chosen)
        domains = _Domains.of(spec)
        self._domains = domains
        self._domain_keys = np.array(
            [keys(1, "domain", seed, name)[0] for name in domains.names], np.uint64
        )
        (self._stream_key,) = keys(1, "stream", seed)
        self._strides = Strides(domains.names, domains.rates, seed)
        self._ends = np.cumsum(self._strides.rates)
        self._weight_ends = np.cumsum(domains.weights) if self._replace else None
        self._memo = Memo()

    def reach(self) -> Sequence[tuple[Source, Indices | None]]:
        """The source and the rows that have a weight; see `Sampler`."""
        return [(self._source, self._domains.rows)]

    def view(self) -> WeightedSampler:
        """The same with a view of the source; the rows are shared."""
        made = copy(self)
        made._source, made._memo = self._source.view(), Memo()
        return made

    @property
    def sources(self) -> Sequence[Source]:
        """The one source."""
        return (self._source,)

    @property
    def names(self) -> Sequence[str]:
        """Its name."""
        return (self._name,)

    @property
    def num_examples(self) -> int:
        """Positions an epoch."""
        return self._num_examples

    def identity(self) -> Plain:
        """The table, its version, the selection's digest, the rates, the draw and the seed."""
        return {
            "source": dict(self._source.identity()),
            "selection": self._selection_digest,
            "num_examples": self._num_examples,
            "draw": f"{self._draw}/1",
            "replace": self._replace,
            "rates": _named(self._domains.names, self._domains.rates),
            "seed": self._seed,
        }

    def picks(self, epoch: int, positions: Indices) -> Picks:
        """What stands at positions of an epoch; the weights are 1, since the rates see to them."""
        stream = inside(positions, self._num_examples) + epoch * self._num_examples
        rows, visits = self._memo(stream, 2**62, self._drawn)
        return Picks(
            sources=np.zeros(len(rows), np.int64),
            rows=rows,
            visits=visits,
            weights=np.ones(len(rows), np.float32),
        )

    def progress(self, epoch: int, position: int) -> Plain:  # noqa: ARG002
        """Nothing: the rates are part of the identity."""
        return {}

    def resumed(self, epoch: int, position: int, progress: Plain) -> Sampler:  # noqa: ARG002
        """This very sampler."""
        return self

    def shares(self) -> dict[str, float]:
        """The share that each domain is to have."""
        return dict(zip(self._domains.names, self._strides.rates.tolist(), strict=True))

    def label_of(self, picks: Picks) -> Indices:
        """Which of `shares` each pick counts to."""
        rows, domains = self._by_row
        places = np.searchsorted(rows, picks.rows)
        found: Indices = domains[places]
        return found

    @cached_property
    def _by_row(self) -> tuple[Indices, Indices]:
        order = np.argsort(self._domains.rows, kind="stable")
        return self._domains.rows[order], self._domains.domain_at(order)

    def _drawn(self, stream: Indices) -> Indices:
        """Rows and visits at positions of the stream, (2, n)."""
        domains, numbers = (
            self._strides.picks(stream) if self._draw == "even" else self._by_chance(stream)
        )
        begins, sizes = self._domains.begins[domains], self._domains.sizes[domains]
        if self._weight_ends is not None:
            words = mix(numbers.astype(np.uint64), np.uint64(0)) + self._domain_keys[domains]
            places = self._in_proportion(words, begins, sizes, self._weight_ends)
            # How often it came before is not known; that the word differs each time is.
            return np.stack([self._domains.rows[places], stream])
        visits, inner = np.divmod(numbers, sizes)
        permuted = permute(
            inner.astype(np.uint64),
            sizes.astype(np.uint64),
            mix(visits.astype(np.uint64) + self._domain_keys[domains], np.uint64(0)),
        )
        return np.stack([self._domains.rows[begins + permuted.astype(np.int64)], visits])

    def _by_chance(self, stream: Indices) -> tuple[Indices, Indices]:
        words = mix(stream.astype(np.uint64), self._stream_key)
        drawn = _fractions(words) * self._ends[-1]
        domains = np.searchsorted(self._ends, drawn, side="right")
        return np.minimum(domains, len(self._ends) - 1), stream

    def _in_proportion(
        self,
        words: Words,
        begins: Indices,
        sizes: Indices,
        ends: npt.NDArray[np.float64],
    ) -> Indices:
        """A place in each domain, in proportion to the rows' weights."""
        low = np.where(begins > 0, ends[begins - 1], 0.0)
        high = ends[begins + sizes - 1]
        drawn = low + _fractions(mix(words, self._stream_key)) * (high - low)
        places = np.searchsorted(ends, drawn, side="right")
        clipped: Indices = np.clip(places, begins, begins + sizes - 1)
        return clipped


@dataclass(frozen=True, eq=False)
class _Domains:
    """Selected rows sorted by domain."""

    names: tuple[str, ...]
    rates: npt.NDArray[np.float64]
    """As given or summed; not divided yet."""
    rows: Indices
    weights: npt.NDArray[np.float64]
    begins: Indices
    sizes: Indices

    def domain_at(self, places: Indices) -> Indices:
        return np.searchsorted(self.begins, places, side="right") - 1

    @classmethod
    def of(cls, spec: Weighted) -> _Domains:
        table = spec.chosen.rows
        weights = table["weight"].to_numpy().astype(np.float64)
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise InputError(
                f"The selection {spec.chosen.name!r} has a weight that is out of range",
                expected="finite numbers of 0 or more",
                found=str(weights[~(np.isfinite(weights) & (weights >= 0))][0]),
            )
        encoded = pa.chunked_array(table["domain"]).combine_chunks().dictionary_encode()
        found = encoded.dictionary.to_pylist()
        rates = _rates(spec.rates, found, spec.chosen.name)
        names = sorted(found if rates is None else (name for name in rates if rates[name] > 0))
        number_of = {name: number for number, name in enumerate(names)}
        renumbered = np.array([number_of.get(name, -1) for name in found], np.int64)
        numbers = renumbered[encoded.indices.to_numpy()] if len(found) else np.empty(0, np.int64)
        kept = np.flatnonzero((numbers >= 0) & (weights > 0))
        kept = kept[np.argsort(numbers[kept], kind="stable")]
        sizes = np.bincount(numbers[kept], minlength=len(names)).astype(np.int64)
        if rates is not None and not sizes.all():
            empty = names[int(np.flatnonzero(sizes == 0)[0])]
            raise InputError(f"The domain {empty!r} has a rate and no row with a weight")
        names = [name for name, size in zip(names, sizes.tolist(), strict=True) if size]
        sizes = sizes[sizes > 0]
        if not names:
            raise InputError(
                "There is nothing to stream",
                where=place_of(spec.source),
                expected="one row or more with a weight above 0",
                found=f"none in the selection {spec.chosen.name!r}",
            )
        begins = np.cumsum(sizes) - sizes
        ordered = weights[kept]
        given = (
            # `fsum` rounds once, so that the rates are the same on every machine.
            [
                math.fsum(ordered[begin : begin + size].tolist())
                for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True)
            ]
            if rates is None
            else [rates[name] for name in names]
        )
        rows = table["row_index"].to_numpy().astype(np.int64)[kept]
        return cls(tuple(names), np.array(given, np.float64), rows, ordered, begins, sizes)


def _rates(
    rates: Mapping[str, float] | None, known: Sequence[str], selection: str
) -> dict[str, float] | None:
    if rates is None:
        return None
    for name, rate in rates.items():
        if name not in known:
            raise InputError(
                f"A rate names no domain of the selection {selection!r}: {name!r}",
                fix=nearest(name, known),
            )
        if not (math.isfinite(rate) and rate >= 0):
            raise InputError(
                f"The rate of {name!r} is out of range",
                expected="a finite number of 0 or more",
                found=str(rate),
            )
    return {name: float(rate) for name, rate in rates.items()}


def _named(names: Sequence[str], rates: npt.NDArray[np.float64]) -> dict[str, float] | str:
    pairs: dict[str, float] = dict(zip(names, rates.tolist(), strict=True))
    if len(pairs) <= _MAX_NAMED:
        return pairs
    return "sha256:" + hashlib.sha256(json.dumps(pairs, sort_keys=True).encode()).hexdigest()


def _fractions(words: Words) -> npt.NDArray[np.float64]:
    fractions: npt.NDArray[Any] = (words >> np.uint64(11)).astype(np.float64)
    return fractions * 2.0**-53
