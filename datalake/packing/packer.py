"""Packing a stream of lengths into bins, in windows, with open bins carried over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.packing.best_fit import OpenBins
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
    shuffled order, each into the oldest bin with room. At a window's end the `carry` open bins with
    most room stay open and the others are closed. The bins that a window closes come in a shuffled
    order, as best fit would else give long items first; the pieces in a bin are in the order of
    the items.

    The result depends on the lengths, their order and the parameters, never on how the lengths are
    cut into calls of `feed`. Memory: some 100 bytes an item of a window and of the carried bins,
    and a bit for each unit of the capacity. One thread at a time.

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
        self._open = _Contents.none()
        fit([], capacity, overlong)  # Refuses what `overlong` may not be.
        self._remainders: list[int] = []

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
            waiting = self._all_waiting()
            whole = self._num_waiting - self._num_waiting % self._window
            closed += (
                self._pack(_slice(waiting, start, start + self._window))
                for start in range(0, whole, self._window)
            )
            self._waiting = [_slice(waiting, whole, self._num_waiting)]
            self._num_waiting -= whole
        bins = Bins.concatenate(closed)
        self._num_given_out += len(bins)
        return replace(bins, cut_items=pieces.cut_items, cut_lengths=pieces.cut_lengths)

    def finish(self) -> Bins:
        """The last bins. The packer is then as new, with item numbers from 0."""
        last = self._pack(self._all_waiting() if self._waiting else None, last=True)
        missing = -(self._num_given_out + len(last)) % self._num_ranks
        last = rounded(last, missing)
        self._num_items = self._num_windows = self._num_given_out = self._num_waiting = 0
        self._waiting = []
        return last

    def _all_waiting(self) -> Pieces:
        none = np.empty(0, np.int64)
        return Pieces(
            np.concatenate([pieces.items for pieces in self._waiting]),
            np.concatenate([pieces.starts for pieces in self._waiting]),
            np.concatenate([pieces.lengths for pieces in self._waiting]),
            none,
            none,
        )

    def _pack(self, pieces: Pieces | None, *, last: bool = False) -> Bins:
        """Place a window; return the bins that close with it."""
        rng = np.random.default_rng([self._seed, self._num_windows])
        self._num_windows += 1
        contents = self._open
        num_bins = len(self._remainders)
        carry = 0 if last else self._carry
        kept = np.empty(0, np.int64)
        if pieces is not None and len(pieces.items):
            if self._method == "best_fit_decreasing":
                bins, num_bins, kept = self._best_fit(pieces.lengths, carry)
            else:
                bins, num_bins, kept = self._first_fit(pieces.lengths, carry, rng)
            contents = contents.joined(pieces, bins)
        if last:
            self._remainders = []
        # Bins that stay open get the numbers from 0, those that close a shuffled place.
        place = np.full(num_bins, -1)
        place[kept] = np.arange(len(kept))
        is_open = place >= 0
        place[~is_open] = rng.permutation(num_bins - len(kept))
        stays = is_open[contents.bins]
        self._open = contents.chosen(stays, place)
        return contents.chosen(~stays, place).as_bins(self._capacity, num_bins - len(kept))

    def _best_fit(
        self, lengths: npt.NDArray[np.int32], carry: int
    ) -> tuple[npt.NDArray[np.int64], int, npt.NDArray[np.int64]]:
        """The bin of each item, the number of bins, and those that stay open."""
        room = self._capacity - lengths
        # NumPy sorts 16 bits by radix.
        order = np.argsort(
            room.astype(np.uint16) if self._capacity < 2**16 else room, kind="stable"
        )
        descending = lengths[order]
        begins = np.flatnonzero(np.diff(descending, prepend=-1))
        counts = np.diff(begins, append=len(descending))
        open_bins = OpenBins(self._capacity, self._remainders)
        bins = np.empty(len(lengths), np.int64)
        bins[order] = open_bins.place(descending[begins], counts)
        kept, self._remainders = open_bins.emptiest(carry)
        return bins, open_bins.num_bins, kept

    def _first_fit(
        self, lengths: npt.NDArray[np.int32], carry: int, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.int64], int, npt.NDArray[np.int64]]:
        order = rng.permutation(len(lengths))
        bins = np.empty(len(lengths), np.int64)
        bins[order], remainders = first_fit(lengths[order], self._capacity, self._remainders)
        rooms = np.array(remainders)
        emptiest = np.argsort(-rooms, kind="stable")[:carry]
        # The oldest bins stay the first.
        kept = np.sort(emptiest[rooms[emptiest] > 0])
        self._remainders = rooms[kept].tolist()
        return bins, len(rooms), kept


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


@dataclass(frozen=True)
class _Contents:
    """Pieces and the bins they lie in, in the order of the pieces."""

    items: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    bins: npt.NDArray[np.int64]

    @classmethod
    def none(cls) -> _Contents:
        return cls(
            np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, int)
        )

    def joined(self, pieces: Pieces, bins: npt.NDArray[np.int64]) -> _Contents:
        return _Contents(
            np.concatenate([self.items, pieces.items]),
            np.concatenate([self.starts, pieces.starts]),
            np.concatenate([self.lengths, pieces.lengths]),
            np.concatenate([self.bins, bins]),
        )

    def chosen(self, mask: npt.NDArray[np.bool_], place: npt.NDArray[np.int64]) -> _Contents:
        """The pieces of the mask, in bins that are numbered anew."""
        return _Contents(
            self.items[mask], self.starts[mask], self.lengths[mask], place[self.bins[mask]]
        )

    def as_bins(self, capacity: int, num_bins: int) -> Bins:
        order = np.argsort(self.bins, kind="stable")
        offsets = np.zeros(num_bins + 1, np.int64)
        np.cumsum(np.bincount(self.bins, minlength=num_bins), out=offsets[1:])
        none = np.empty(0, np.int64)
        items, starts, lengths = self.items[order], self.starts[order], self.lengths[order]
        return Bins(capacity, items, starts, lengths, offsets, none, none)


def _slice(pieces: Pieces, start: int, stop: int) -> Pieces:
    return replace(
        pieces,
        items=pieces.items[start:stop],
        starts=pieces.starts[start:stop],
        lengths=pieces.lengths[start:stop],
    )


def _check(name: str, value: int, least: int) -> None:
    if not isinstance(value, int | np.integer) or not least <= value <= _MOST:
        raise InputError(
            f"The parameter {name} is out of range",
            expected=f"a whole number from {least} to {_MOST}",
            found=repr(value),
        )
