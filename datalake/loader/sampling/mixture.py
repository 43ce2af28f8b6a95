"""Several tables or sets in one stream, each at its own rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from datalake.errors import InputError, nearest
from datalake.lake import Selection
from datalake.loader.order.choice import OrderName
from datalake.loader.order.hashing import keys
from datalake.loader.order.memo import Memo
from datalake.loader.order.order import Indices, inside
from datalake.loader.sampling.apart import refuse_parts_of_one_split
from datalake.loader.sampling.sampler import Picks, Plain, Sampler
from datalake.loader.sampling.spec import DEFAULT_WORKING_SET, Data, WorkingSet
from datalake.loader.sampling.strides import Strides
from datalake.loader.sources.source import Source

__all__ = ["Mixture", "MixtureSampler"]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Sources at given rates, in exact proportions in every stretch of the stream.

    Args:
        parts: by name: sources, `Selected`, `Weighted`, or mixtures again. Each goes through its
            own epochs, as often as its rate asks for.
        weights: in what proportion parts come; None for their numbers of examples. A part of
            weight 0 is not read. They may be changed at a resume.
        examples_per_epoch: positions an epoch; None for the sum over the parts.

    Raises:
        InputError: there is no part, two are different parts of one split, or a weight is out of
            range or names no part.
    """

    parts: Mapping[str, Data]
    weights: Mapping[str, float] | None = None
    examples_per_epoch: int | None = None

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError("There is nothing to mix", expected="one part or more")
        if any("/" in name for name in self.parts):
            raise InputError(
                "A part's name has a slash, which joins names of mixtures in mixtures",
                found=", ".join(self.parts),
            )
        if self.examples_per_epoch is not None and self.examples_per_epoch < 1:
            raise InputError(
                "The length of an epoch is out of range",
                expected="examples_per_epoch of 1 or more",
                found=str(self.examples_per_epoch),
            )
        if self.weights is not None:
            _check_weights(self.weights, self.parts)
        refuse_parts_of_one_split(
            {name: found for name, part in self.parts.items() if (found := _selection_of(part))}
        )

    def sampler(
        self,
        *,
        order: OrderName = "exact",
        seed: int = 0,
        working_set: WorkingSet = DEFAULT_WORKING_SET,
    ) -> MixtureSampler:
        """The parts, each in that order, mixed; see `Spec`. A number of blocks and a fraction are
        those of each part."""
        from datalake.loader.sampling.choice import sampler_of

        parts = {
            # Two parts of one table are not to come in the same order.
            name: sampler_of(
                part,
                order=order,
                seed=int(keys(1, "part", seed, name)[0] >> np.uint64(1)),
                working_set=working_set,
            )
            for name, part in self.parts.items()
        }
        weights = self.weights or {name: part.num_examples for name, part in parts.items()}
        return MixtureSampler(
            parts,
            {name: float(weights.get(name, 0.0)) for name in parts},
            self.examples_per_epoch or sum(part.num_examples for part in parts.values()),
            seed,
        )


@dataclass(frozen=True)
class _Stretch:
    """A stretch of the stream under the same weights."""

    begin: int
    """Position of the stream, over all epochs."""
    drawn: Mapping[str, int]
    """Examples of each part before it."""
    weights: Mapping[str, float]

    def plain(self) -> dict[str, Any]:
        return {"begin": self.begin, "drawn": dict(self.drawn), "weights": dict(self.weights)}


class MixtureSampler:
    """Samplers mixed. Where weights changed, the stretches before are known, so that any position
    of the stream can still be asked for."""

    def __init__(
        self,
        parts: Mapping[str, Sampler],
        weights: Mapping[str, float],
        num_examples: int,
        seed: int,
        history: Sequence[_Stretch] = (),
    ) -> None:
        self._parts = dict(parts)
        self._weights = dict(weights)
        self._num_examples = num_examples
        self._seed = seed
        self._history = tuple(history) or (_Stretch(0, dict.fromkeys(parts, 0), self._weights),)
        self._streams = [self._strides(stretch) for stretch in self._history]
        self._bases = [
            np.array([stretch.drawn[name] for name in self._parts], np.int64)
            for stretch in self._history
        ]
        self._begins = np.array([stretch.begin for stretch in self._history], np.int64)
        self._sources: list[Source] = []
        self._names: list[str] = []
        self._first_source: list[int] = []
        for name, part in self._parts.items():
            self._first_source.append(len(self._sources))
            self._sources += part.sources
            alone = len(part.sources) == 1 and "/" not in part.names[0]
            self._names += [name] if alone else [f"{name}/{inner}" for inner in part.names]
        self._memo = Memo()

    def reach(self) -> Sequence[tuple[Source, Indices | None]]:
        """Of all parts, those of weight 0 too: weights may change; see `Sampler`."""
        return [each for part in self._parts.values() for each in part.reach()]

    def view(self) -> MixtureSampler:
        """The same with views of the parts. A source of two parts becomes two views, as parts are
        read in orders of their own."""
        parts = {name: part.view() for name, part in self._parts.items()}
        return MixtureSampler(parts, self._weights, self._num_examples, self._seed, self._history)

    @property
    def sources(self) -> Sequence[Source]:
        """The sources of all parts."""
        return tuple(self._sources)

    @property
    def names(self) -> Sequence[str]:
        """A part's name, or `part/source` where a part has several."""
        return tuple(self._names)

    @property
    def num_examples(self) -> int:
        """Positions an epoch."""
        return self._num_examples

    @property
    def parts(self) -> Mapping[str, Sampler]:
        """What is mixed, by name."""
        return self._parts

    def identity(self) -> Plain:
        """The parts' identities, the weights and the seed. `without_weights` gives what must stay
        when weights change at a resume."""
        return {
            "mixture": "strides/1",
            "parts": {name: dict(part.identity()) for name, part in self._parts.items()},
            "num_examples": self._num_examples,
            "weights": dict(self._weights),
            "seed": self._seed,
        }

    def picks(self, epoch: int, positions: Indices) -> Picks:
        """What stands at positions of an epoch."""
        stream = inside(positions, self._num_examples) + epoch * self._num_examples
        numbers, examples = self._memo(stream, 2**62, self._drawn)
        picks = Picks(
            sources=np.empty(len(stream), np.int64),
            rows=np.empty(len(stream), np.int64),
            visits=np.empty(len(stream), np.int64),
            weights=np.empty(len(stream), np.float32),
        )
        for number, part in enumerate(self._parts.values()):
            own = np.flatnonzero(numbers == number)
            epochs, places = np.divmod(examples[own], part.num_examples)
            for each in np.unique(epochs).tolist():
                chosen = epochs == each
                found = part.picks(each, places[chosen])
                at = own[chosen]
                picks.sources[at] = found.sources + self._first_source[number]
                picks.rows[at] = found.rows
                picks.visits[at] = found.visits
                picks.weights[at] = found.weights
        return picks

    def drawn(self, epoch: int, position: int) -> dict[str, int]:
        """How many examples of each part come before a position, over all epochs."""
        stream = epoch * self._num_examples + position
        stretch = max(int(np.searchsorted(self._begins, stream, side="right")) - 1, 0)
        strides, active = self._streams[stretch]
        counts = self._bases[stretch].copy()
        counts[active] += strides.counts(stream - int(self._begins[stretch]))
        return dict(zip(self._parts, counts.tolist(), strict=True))

    def progress(self, epoch: int, position: int) -> Plain:
        """Under which weights the stream stood from where on, with how many examples of each part
        before; the same of mixtures within."""
        drawn = self.drawn(epoch, position)
        parts = {
            name: dict(part.progress(*divmod(drawn[name], part.num_examples)))
            for name, part in self._parts.items()
        }
        stream = epoch * self._num_examples + position
        history = [one.plain() for one in self._history if one.begin <= stream]
        return {"history": history, "parts": {name: kept for name, kept in parts.items() if kept}}

    def resumed(self, epoch: int, position: int, progress: Plain) -> Sampler:
        """This mixture going on where one with other weights stood: every part with its next
        example, and all positions before as they were.

        Raises:
            InputError: the progress is of a mixture of other parts.
        """
        stream = epoch * self._num_examples + position
        history = self._read(progress)
        history = [one for one in history if one.begin < stream or one.begin == 0]
        before = MixtureSampler(
            self._parts, history[-1].weights, self._num_examples, self._seed, history
        )
        drawn = before.drawn(epoch, position)
        if dict(history[-1].weights) != self._weights:
            # At the very beginning nothing is left of the old weights.
            history = [] if stream == 0 else [*history, _Stretch(stream, drawn, self._weights)]
        nested = progress.get("parts", {})
        parts = {
            name: part.resumed(*divmod(drawn[name], part.num_examples), nested[name])
            if name in nested
            else part
            for name, part in self._parts.items()
        }
        return MixtureSampler(parts, self._weights, self._num_examples, self._seed, history)

    def shares(self) -> dict[str, float]:
        """The share that each part is to have."""
        total = math.fsum(self._weights.values())
        return {name: weight / total for name, weight in self._weights.items()}

    def label_of(self, picks: Picks) -> Indices:
        """Which of `shares` each pick counts to."""
        return np.searchsorted(np.array(self._first_source), picks.sources, side="right") - 1

    def _strides(self, stretch: _Stretch) -> tuple[Strides, Indices]:
        """The merged parts of a stretch, and which parts those are."""
        active = [number for number, name in enumerate(self._parts) if stretch.weights[name] > 0]
        names = [list(self._parts)[number] for number in active]
        weights = [stretch.weights[name] for name in names]
        return Strides(names, weights, self._seed), np.array(active, np.int64)

    def _drawn(self, stream: Indices) -> Indices:
        """The part at positions of the stream, and the number of its example, (2, n)."""
        found = np.empty((2, len(stream)), np.int64)
        stretches = np.searchsorted(self._begins, stream, side="right") - 1
        for stretch in np.unique(stretches).tolist():
            at = np.flatnonzero(stretches == stretch)
            strides, active = self._streams[stretch]
            numbers, events = strides.picks(stream[at] - self._begins[stretch])
            found[0, at] = active[numbers]
            found[1, at] = events + self._bases[stretch][active[numbers]]
        return found

    def _read(self, progress: Plain) -> list[_Stretch]:
        try:
            history = [
                _Stretch(int(one["begin"]), dict(one["drawn"]), dict(one["weights"]))
                for one in progress["history"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                "This is not the progress of a mixture",
                expected="a history of weights, as `progress` gives it",
                found=repr(progress),
            ) from error
        names = set(self._parts)
        for one in history:
            if set(one.weights) != names or set(one.drawn) != names:
                raise InputError(
                    "The progress belongs to a mixture of other parts",
                    expected=", ".join(self._parts),
                    found=", ".join(one.weights),
                    fix="Give a new part another mixture; give one that ends the weight 0",
                )
        if not history or history[0].begin != 0:
            raise InputError(
                "This is not the progress of a mixture",
                expected="a history that begins at position 0",
                found=repr(progress),
            )
        return history


def _selection_of(part: Data) -> Selection | None:
    """The saved selection behind a part, if there is one."""
    found = getattr(part, "selection", None) or getattr(part, "rows", None)
    if found is None and (source := getattr(part, "source", None)) is not None:
        found = getattr(source, "selection", None)
    return found if isinstance(found, Selection) else None


def _check_weights(weights: Mapping[str, float], parts: Mapping[str, Data]) -> None:
    for name, weight in weights.items():
        if name not in parts:
            raise InputError(f"A weight names no part: {name!r}", fix=nearest(name, list(parts)))
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(
                f"The weight of {name!r} is out of range",
                expected="a finite number of 0 or more",
                found=str(weight),
            )
    if not any(weights.values()):
        raise InputError("No part has a weight", expected="a weight above 0")
