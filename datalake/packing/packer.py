"""Packing a stream of lengths into bins, in windows, with open bins carried over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.packing.best_fit import best_fit
from datalake.packing.bins import Bins
from datalake.packing.first_fit import first_fit
from datalake.packing.overlong import Overlong, Pieces, fit
from datalake.packing.ranks import rounded

__all__ = ["CARRY", "METHODS", "WINDOW", "Method", "Packer", "pack_lengths"]

Method: TypeAlias = Literal["best_fit_decreasing", "first_fit_shuffle"]

METHODS: Final = ("best_fit_decreasing", "first_fit_shuffle")
WINDOW: Final = 65_536
"""Items looked at together, unless another number is asked for."""
CARRY: Final = 1024
"""Open bins that a window hands to the next, unless another number is asked for."""

_MOST: Final = 2**31 - 1
_SLICE: Final = 1 << 20


class Packer:
    """Packs lengths as they come; a bin is given out when nothing more can go into it.

    Items are taken in windows, in the order in which they come. `best_fit_decreasing` places the
    longest of a window first, each where it leaves least room. `first_fit_shuffle` places them in a
    shuffled order, each into the oldest bin with room. At a window's end the `carry` bins with most
    room stay open and the others are closed; what lies in open bins is placed once more, together
    with the next window, which fills bins better than adding to them. The bins that a window closes
    come in a shuffled order, as best fit would else give long items first; the pieces in a bin are
    in the order of the items.

    The result depends on the lengths, their order and the parameters, never on how the lengths are
    cut into calls of `feed`. Memory: some 100 bytes an item of a window and of the carried bins
    (which hold a window of items at most), and a bit for each unit of the capacity. One thread at
    a time.

    Args:
        capacity: of a bin, 1 to 2**31 - 1.
        method: `best_fit_decreasing` or `first_fit_shuffle`.
        window: items that are placed together; None for all (memory then grows with the items).
        carry: bins that stay open from a window to the next.
        seed: of the shuffles.
        num_ranks: the number of bins is made a multiple of it; see `datalake.packing.ranks`.
        overlong: what becomes of items longer than a bin; pieces of a split item count as items of
            a window.

    Raises:
        InputError: a parameter is out of range.
    """

    def __init__(
        self,
        capacity: int,
        *,
        method: Method = "best_fit_decreasing",
        window: int | None = WINDOW,
        carry: int = CARRY,
        seed: int = 0,
        num_ranks: int = 1,
        overlong: Overlong = "raise",
    ) -> None:
        _check("capacity", capacity, 1)
        _check("window", 1 if window is None else window, 1)
        _check("carry", carry, 0)
        _check("seed", seed, 0)
        _check("num_ranks", num_ranks, 1)
        if method not in METHODS:
            raise InputError(
                "The packing method is not known", expected=" or ".join(METHODS), found=repr(method)
            )
        self._capacity = capacity
        self._method = method
        self._window = window
        self._carry = carry
        self._seed = seed
        self._num_ranks = num_ranks
        self._overlong: Overlong = overlong
        self._num_items = 0
        self._num_windows = 0
        self._num_given_out = 0
        self._waiting: list[Pieces] = []
        self._num_waiting = 0
        self._carried = fit([], capacity, overlong)

    def feed(self, lengths: npt.ArrayLike) -> Bins:
        """Take more items and return the bins that are closed by them.

        Raises:
            InputError: a length is none, or too long and shall raise; none of `lengths` is taken.
        """
        pieces = fit(lengths, self._capacity, self._overlong, first_item=self._num_items)
        self._num_items += np.asarray(lengths).size
        self._waiting.append(pieces)
        self._num_waiting += len(pieces.items)
        closed = [Bins.empty(self._capacity)]
        if self._window is not None and self._num_waiting >= self._window:
            waiting = _joined(self._waiting)
            whole = self._num_waiting - self._num_waiting % self._window
            closed += (
                self._pack(_chosen(waiting, slice(start, start + self._window)))
                for start in range(0, whole, self._window)
            )
            self._waiting = [_chosen(waiting, slice(whole, None))]
            self._num_waiting -= whole
        bins = Bins.concatenate(closed)
        self._num_given_out += len(bins)
        return replace(bins, cut_items=pieces.cut_items, cut_lengths=pieces.cut_lengths)

    def finish(self) -> Bins:
        """The last bins. The packer is then as new, with item numbers from 0."""
        last = self._pack(_joined(self._waiting) if self._waiting else None, last=True)
        missing = -(self._num_given_out + len(last)) % self._num_ranks
        last = rounded(last, missing)
        self._num_items = self._num_windows = self._num_given_out = self._num_waiting = 0
        self._waiting = []
        return last

    def _pack(self, window: Pieces | None, *, last: bool = False) -> Bins:
        """Place a window and what was carried over; return the bins that close with it."""
        rng = np.random.default_rng([self._seed, self._num_windows])
        self._num_windows += 1
        pieces = _joined([self._carried, *([window] if window is not None else [])])
        place = _best_fit if self._method == "best_fit_decreasing" else _first_fit
        bins, num_bins = place(pieces.lengths, self._capacity, rng)
        stays = np.zeros(num_bins, np.bool_)
        if not last:
            stays[self._emptiest(pieces.lengths, bins, num_bins)] = True
        self._carried = _chosen(pieces, stays[bins])
        closed = np.flatnonzero(~stays)
        number = np.empty(num_bins, np.int64)
        number[closed] = rng.permutation(len(closed))
        given_out = ~stays[bins]
        return _as_bins(
            _chosen(pieces, given_out), number[bins[given_out]], len(closed), self._capacity
        )

    def _emptiest(
        self, lengths: npt.NDArray[np.int32], bins: npt.NDArray[np.int64], num_bins: int
    ) -> npt.NDArray[np.int64]:
        """At most `carry` bins with most room, of at most a window of pieces together."""
        fills = np.bincount(bins, weights=lengths, minlength=num_bins)
        emptiest = np.argsort(fills, kind="stable")[: self._carry]
        emptiest = emptiest[fills[emptiest] < self._capacity]
        sizes = np.bincount(bins, minlength=num_bins)[emptiest]
        return emptiest[np.cumsum(sizes) <= (self._window or 0)]


def _best_fit(
    lengths: npt.NDArray[np.int32], capacity: int, _: np.random.Generator
) -> tuple[npt.NDArray[np.int64], int]:
    """The bin of each piece, longest first into the fullest bin with room; the number of bins."""
    room = capacity - lengths
    # NumPy sorts 16 bits by radix.
    order = np.argsort(room.astype(np.uint16) if capacity < 2**16 else room, kind="stable")
    descending = lengths[order]
    begins = np.flatnonzero(np.diff(descending, prepend=-1))
    counts = np.diff(begins, append=len(descending))
    bins = np.empty(len(lengths), np.int64)
    bins[order], num_bins = best_fit(descending[begins], counts, capacity)
    return bins, num_bins


def _first_fit(
    lengths: npt.NDArray[np.int32], capacity: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], int]:
    """The bin of each piece, in shuffled order into the first bin with room; the number of bins."""
    order = rng.permutation(len(lengths))
    bins = np.empty(len(lengths), np.int64)
    bins[order], num_bins = first_fit(lengths[order], capacity)
    return bins, num_bins


def pack_lengths(
    lengths: npt.ArrayLike,
    capacity: int,
    *,
    method: Method = "best_fit_decreasing",
    window: int | None = WINDOW,
    carry: int = CARRY,
    seed: int = 0,
    num_ranks: int = 1,
    overlong: Overlong = "raise",
) -> Bins:
    """Pack items of these lengths into bins; see `Packer` for the parameters.

    Each item lies in one bin, or its pieces in several where overlong items are split. Memory: the
    result (16 bytes a piece, 8 a bin) twice, and a window's.

    Args:
        lengths: whole numbers of at least 1, (items,).

    Raises:
        InputError: a parameter or a length is out of range, or an item is too long.
    """
    packer = Packer(
        capacity,
        method=method,
        window=window,
        carry=carry,
        seed=seed,
        num_ranks=num_ranks,
        overlong=overlong,
    )
    given = np.asarray(lengths)
    # Fed in slices, as what is worked on is larger than what comes out.
    slices = np.split(given, range(_SLICE, len(given), _SLICE)) if given.ndim else [given]
    return Bins.concatenate([*map(packer.feed, slices), packer.finish()])


def _as_bins(pieces: Pieces, bins: npt.NDArray[np.int64], num_bins: int, capacity: int) -> Bins:
    order = np.argsort(bins, kind="stable")
    offsets = np.zeros(num_bins + 1, np.int64)
    np.cumsum(np.bincount(bins, minlength=num_bins), out=offsets[1:])
    sorted_ = _chosen(pieces, order)
    none = np.empty(0, np.int64)
    return Bins(capacity, sorted_.items, sorted_.starts, sorted_.lengths, offsets, none, none)


def _chosen(pieces: Pieces, which: slice | npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Pieces:
    return replace(
        pieces,
        items=pieces.items[which],
        starts=pieces.starts[which],
        lengths=pieces.lengths[which],
    )


def _joined(parts: Sequence[Pieces]) -> Pieces:
    return replace(
        parts[0],
        items=np.concatenate([part.items for part in parts]),
        starts=np.concatenate([part.starts for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
    )


def _check(name: str, value: int, least: int) -> None:
    if not isinstance(value, int | np.integer) or not least <= value <= _MOST:
        raise InputError(
            f"The parameter {name} is out of range",
            expected=f"a whole number from {least} to {_MOST}",
            found=repr(value),
        )
