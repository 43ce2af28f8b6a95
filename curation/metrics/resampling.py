"""Bootstrap resamples as counts, drawn only as far as a metric looks.

How many draws fall into each bucket of the ladder is multinomial, and within a bucket every trial
is as likely as another. So the buckets' counts are drawn first; the trials of a bucket only when a
metric needs to see inside. What is never looked at is never drawn, and the outcome is that of a
resample drawn in full. Each bucket has a random generator of its own, so a resample is the same
whichever metrics look at it.

Resamples come in blocks of as many as a million draws of one bucket allow: small tests do not pay
for each one, and the memory does not grow with the number of resamples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from curation.metrics.ladder import Counts, IntArray, Ladder
from curation.metrics.trials import FloatArray

__all__ = ["Resamples", "Speakers", "draw_resamples"]

DRAWS_AT_ONCE: Final = 1_000_000


class Resamples(Protocol):
    """A block of resamples."""

    def at_buckets(self) -> Counts:
        """Trials below the edges of the buckets."""
        ...

    def within(self, bucket: int) -> Counts:
        """Trials below the edges of the ladder that are in one bucket, both its ends included."""
        ...

    def means(self, bonafide: FloatArray, spoof: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means of a number a trial (ascending trials), shape (num_resamples,) a class."""
        ...


@dataclass(frozen=True)
class Speakers:
    """The speaker of each trial of a `Trials`, as numbers from 0, in its order."""

    bonafide: IntArray
    spoof: IntArray
    num_speakers: int


def draw_resamples(
    ladder: Ladder, num_resamples: int, *, seed: int, speakers: Speakers | None = None
) -> Iterator[Resamples]:
    """Blocks of resamples of a test.

    Over utterances: each class's trials are drawn with replacement, as many as the test has. Over
    speakers, where they are given: as many speakers as the test has are drawn with replacement,
    and each brings all its trials of both classes, so resamples differ in size. One that has no
    trial of a class has no metric and is drawn again.
    """
    below = (ladder.bonafide_edges + ladder.spoof_edges)[ladder.bucket_edges]
    if speakers is None:
        for block, size in enumerate(_block_sizes(num_resamples, int(np.diff(below).max()))):
            yield _Utterances.draw(ladder, size, (seed, block))
        return
    rng = np.random.default_rng(seed)
    for size in _block_sizes(num_resamples, int(below[-1])):
        weights = _speaker_weights(speakers, size, rng)
        yield _Utterers(ladder, weights[:, speakers.bonafide], weights[:, speakers.spoof])


def _block_sizes(num_resamples: int, num_draws: int) -> Iterator[int]:
    most = max(1, DRAWS_AT_ONCE // num_draws)
    for start in range(0, num_resamples, most):
        yield min(most, num_resamples - start)


@dataclass(frozen=True)
class _Side:
    """One class of a block of resamples over utterances."""

    edges: IntArray
    bucket_edges: IntArray
    # Draws in each bucket, shape (num_resamples, num_buckets).
    drawn: IntArray
    # Where the block's random numbers begin.
    key: tuple[int, ...]

    @classmethod
    def draw(
        cls, edges: IntArray, bucket_edges: IntArray, size: int, key: tuple[int, ...]
    ) -> _Side:
        in_bucket = np.diff(edges[bucket_edges])
        num_trials = int(edges[-1])
        drawn = np.random.default_rng(key).multinomial(num_trials, in_bucket / num_trials, size)
        return cls(edges, bucket_edges, drawn, key)

    def at_buckets(self) -> IntArray:
        below = np.zeros((self.drawn.shape[0], self.drawn.shape[1] + 1), dtype=np.int64)
        np.cumsum(self.drawn, axis=1, out=below[:, 1:])
        return below

    def draws(self, bucket: int) -> tuple[IntArray, IntArray]:
        """The trials drawn in a bucket, and the resample of each."""
        first, last = self.edges[self.bucket_edges[bucket : bucket + 2]]
        drawn = self.drawn[:, bucket]
        resample = np.repeat(np.arange(drawn.size), drawn)
        rng = np.random.default_rng((*self.key, bucket))
        # A bucket that has no trial of the class gets no draws; numpy refuses an empty range.
        return rng.integers(first, max(last, first + 1), size=resample.size), resample

    def within(self, bucket: int) -> IntArray:
        low, high = self.bucket_edges[bucket : bucket + 2]
        num_resamples, num_rungs = len(self.drawn), int(high - low)
        if num_rungs == 1:
            on_rung = self.drawn[:, bucket : bucket + 1]
        else:
            edges = self.edges[low : high + 1]
            draws, place = self.draws(bucket)
            place *= num_rungs
            place += np.repeat(np.arange(num_rungs), np.diff(edges))[draws - edges[0]]
            on_rung = np.bincount(place, minlength=num_resamples * num_rungs)
            on_rung = on_rung.reshape(num_resamples, num_rungs)
        below = np.empty((num_resamples, num_rungs + 1), dtype=np.int64)
        below[:, 0] = self.drawn[:, :bucket].sum(axis=1)
        np.cumsum(on_rung, axis=1, out=below[:, 1:])
        below[:, 1:] += below[:, :1]
        return below

    def mean(self, values: FloatArray) -> FloatArray:
        total = np.zeros(len(self.drawn))
        for bucket in range(self.drawn.shape[1]):
            draws, resample = self.draws(bucket)
            total += np.bincount(resample, values[draws], minlength=total.size)
        return np.asarray(total / self.edges[-1])


@dataclass(frozen=True)
class _Utterances:
    bonafide: _Side
    spoof: _Side

    @classmethod
    def draw(cls, ladder: Ladder, size: int, key: tuple[int, ...]) -> _Utterances:
        return cls(
            _Side.draw(ladder.bonafide_edges, ladder.bucket_edges, size, (*key, 0)),
            _Side.draw(ladder.spoof_edges, ladder.bucket_edges, size, (*key, 1)),
        )

    def at_buckets(self) -> Counts:
        return self._counts(self.bonafide.at_buckets(), self.spoof.at_buckets())

    def within(self, bucket: int) -> Counts:
        return self._counts(self.bonafide.within(bucket), self.spoof.within(bucket))

    def means(self, bonafide: FloatArray, spoof: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.bonafide.mean(bonafide), self.spoof.mean(spoof)

    def _counts(self, misses: IntArray, rejections: IntArray) -> Counts:
        return Counts(
            misses,
            rejections,
            np.full((len(misses), 1), self.bonafide.edges[-1]),
            np.full((len(misses), 1), self.spoof.edges[-1]),
        )


class _Utterers:
    """A block of resamples over speakers, from how often each trial was drawn."""

    def __init__(self, ladder: Ladder, bonafide: IntArray, spoof: IntArray) -> None:
        self._buckets = ladder.bucket_edges
        self._bonafide, self._spoof = bonafide, spoof
        self._misses = _weight_below(bonafide, ladder.bonafide_edges)
        self._rejections = _weight_below(spoof, ladder.spoof_edges)

    def at_buckets(self) -> Counts:
        return self._counts(self._buckets)

    def within(self, bucket: int) -> Counts:
        return self._counts(slice(self._buckets[bucket], self._buckets[bucket + 1] + 1))

    def means(self, bonafide: FloatArray, spoof: FloatArray) -> tuple[FloatArray, FloatArray]:
        # Not a matrix product: its sums would hang on the library that does it.
        return (
            np.asarray((self._bonafide * bonafide).sum(axis=1) / self._bonafide.sum(axis=1)),
            np.asarray((self._spoof * spoof).sum(axis=1) / self._spoof.sum(axis=1)),
        )

    def _counts(self, edges: IntArray | slice) -> Counts:
        return Counts(
            self._misses[:, edges],
            self._rejections[:, edges],
            self._misses[:, -1:],
            self._rejections[:, -1:],
        )


def _weight_below(weights: IntArray, edges: IntArray) -> IntArray:
    below = np.zeros((weights.shape[0], weights.shape[1] + 1), dtype=np.int64)
    np.cumsum(weights, axis=1, out=below[:, 1:])
    return below[:, edges]


def _speaker_weights(speakers: Speakers, size: int, rng: np.random.Generator) -> IntArray:
    """How often each speaker is drawn, shape (size, num_speakers)."""
    num_speakers = speakers.num_speakers
    has_bonafide = np.bincount(speakers.bonafide, minlength=num_speakers) > 0
    has_spoof = np.bincount(speakers.spoof, minlength=num_speakers) > 0
    weights = np.empty((size, num_speakers), dtype=np.int64)
    for row in range(size):
        while True:
            draws = rng.integers(0, num_speakers, size=num_speakers)
            # At worst one speaker has a class alone; more than a quarter of the draws still do.
            if has_bonafide[draws].any() and has_spoof[draws].any():
                break
        weights[row] = np.bincount(draws, minlength=num_speakers)
    return weights
