"""What becomes of rows that make no example: the stream stops, or another example stands in.

A stand-in is drawn by a rule that hangs on the seed, the position, and the stand-ins of the same
position that turned out bad: on nothing that a rank, a batch or a run chooses. So every rank, and
every run that goes on from a state, sees the same one. It takes the crop and the place of the one
it stands in for. What was replaced is kept on record.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake import forks
from datalake.blocks.origin import NOT_OF_ROWS
from datalake.errors import InputError, StoreError
from datalake.loader.order.hashing import Words, keys, mix
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Sampler
from datalake.loader.sources.source import Allocate, BadRow, BadRowsError, Columns, Source
from datalake.telemetry import Meter

if TYPE_CHECKING:
    from datalake.loader.engine.assembly import Step

__all__ = ["OnBad", "Substitution", "Trouble"]

OnBad: TypeAlias = Literal["raise", "substitute"]

# Positions drawn for a stand-in; then those looked at one after the other, which are all of a small
# epoch, before one of another domain is taken.
_NUM_DRAWN: Final = 512
_NUM_SEARCHED: Final = 1 << 16
_NUM_AT_ONCE: Final = 1 << 12
# Stand-ins of the same domain, and stand-ins at all, that are tried for an example.
_NUM_SAME: Final = 16
_NUM_TRIES: Final = 24
_NUM_RECORDED: Final = 1000
_NUM_ASKED: Final = 32
_LOST: Final = object()


@dataclass(frozen=True)
class Substitution:
    """A row that made no example, and the row that stood in."""

    source: str
    row: int
    where: str
    reason: str
    detail: str
    substitute: int
    """The row that stood in."""
    same_domain: bool


@dataclass
class _Chain:
    """What became of one example: why its own row is bad, and what stood in."""

    first: BadRow
    rows: list[int] = field(default_factory=list)
    """Stand-ins, the last of which is not known to be bad."""
    same_domain: bool = False


class Trouble:
    """Reads rows, and deals with those that cannot be read. Thread-safe; copies share no record."""

    def __init__(self, on_bad: OnBad, seed: int, meter: Meter) -> None:
        self.on_bad = on_bad
        self._seed = seed
        self._meter = meter
        self._lock = threading.Lock()
        self._recent: OrderedDict[tuple[int, int], Substitution] = OrderedDict()
        forks.register(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Trouble, (self.on_bad, self._seed, self._meter)

    def recent(self) -> list[Substitution]:
        """What was replaced, the last thousand of them; the count `substituted` has them all.

        One entry a position, however often its batch was made.
        """
        with self._lock:
            return list(self._recent.values())

    def read(
        self,
        sampler: Sampler,
        step: Step,
        source: int,
        places: npt.NDArray[np.int64],
        words: Words,
        allocate: Allocate,
    ) -> tuple[Columns, npt.NDArray[np.bool_]]:
        """What a source gives for the step's rows at `places`, and which of them are stand-ins.

        Raises:
            InputError: a row cannot be used, and is not to be replaced or cannot be.
            StoreError: the store refused.
        """
        wanted = sampler.sources[source]
        rows = step.picks.rows[places].copy()
        chains: dict[int, _Chain] = {}
        cause: BadRowsError | StoreError
        while True:
            try:
                columns = wanted.read(rows, words, allocate)
                break
            except BadRowsError as error:
                if self.on_bad == "raise":
                    raise _refusal(error.bad) from error
                bad, cause = list(error.bad), error
            except StoreError as error:
                if self.on_bad == "raise" or isinstance(error, NOT_OF_ROWS):
                    raise
                bad, cause = _lost_alone(wanted, rows, words, allocate), error
                if not bad:
                    raise
            for one in bad:
                chain = chains.setdefault(one.index, _Chain(one))
                if len(chain.rows) >= _NUM_TRIES:
                    raise _no_stand_in(chain, one) from cause
                position = int(step.share.positions[places[one.index]])
                try:
                    self._extend(chain, sampler, step.epoch, source, position)
                except LookupError:
                    raise _no_stand_in(chain, one) from cause
                rows[one.index] = chain.rows[-1]
        replaced = np.zeros(len(rows), np.bool_)
        for index, chain in chains.items():
            replaced[index] = True
            position = int(step.share.positions[places[index]])
            first = chain.first
            self._record(
                (step.epoch, position),
                Substitution(
                    *(sampler.names[source], first.row, first.where, first.reason, first.detail),
                    *(chain.rows[-1], chain.same_domain),
                ),
            )
        return columns, replaced

    def _extend(
        self, chain: _Chain, sampler: Sampler, epoch: int, source: int, position: int
    ) -> None:
        """Add the next stand-in: a row of the same source that was not tried, of the same domain
        as long as there is one and not too many of it were bad.

        Raises:
            LookupError: there is none.
        """
        (key,) = keys(1, "stand-in", self._seed, epoch, position, len(chain.rows))
        tried = np.array([chain.first.row, *chain.rows])
        wanted = sampler.sources[source]
        (own,) = _domains(wanted, tried[:1])
        wants_same = own is not _LOST and len(chain.rows) < _NUM_SAME
        # By whether the domain is lost: then the row most likely is.
        others: dict[bool, tuple[int, bool]] = {}
        for positions in _positions(sampler.num_examples, key):
            picks = sampler.picks(epoch, positions)
            rows = picks.rows[(picks.sources == source) & ~np.isin(picks.rows, tried)]
            for row, domain in zip(rows.tolist(), _domains(wanted, rows), strict=True):
                same = domain == own and own is not _LOST
                others.setdefault(domain is _LOST, (row, same))
                if domain is not _LOST and same == wants_same:
                    chain.rows.append(row)
                    chain.same_domain = same
                    return
        row, chain.same_domain = others[False] if False in others else others[True]
        chain.rows.append(row)

    def _record(self, place: tuple[int, int], substitution: Substitution) -> None:
        with self._lock:
            if place not in self._recent:
                self._meter.count("substituted")
            self._recent[place] = substitution
            if len(self._recent) > _NUM_RECORDED:
                self._recent.popitem(last=False)


def _lost_alone(source: Source, rows: Indices, words: Words, allocate: Allocate) -> list[BadRow]:
    """Those of several rows that make no example, each asked for alone: a source that can read none
    of them takes that for trouble with its store, but all may lie in one file that is gone."""
    bad = []
    for index in range(len(rows)):
        try:
            source.read(rows[[index]], words[[index]], allocate)
        except BadRowsError as error:
            bad += [replace(one, index=index) for one in error.bad]
    return bad


def _positions(num_examples: int, key: np.uint64) -> Iterator[Indices]:
    """Positions of an epoch to look at for a stand-in, some at a time."""
    if num_examples > _NUM_DRAWN:
        drawn = mix(np.arange(_NUM_DRAWN, dtype=np.uint64), key) % np.uint64(num_examples)
        yield drawn.astype(np.int64)
    begin, most = int(key % np.uint64(num_examples)), min(num_examples, _NUM_SEARCHED)
    for start in range(0, most, _NUM_AT_ONCE):
        yield (begin + np.arange(start, min(start + _NUM_AT_ONCE, most))) % num_examples


def _domains(source: Source, rows: Indices) -> list[str | object | None]:
    """The domain of each row, or `_LOST`."""
    try:
        return list(source.domains(rows))
    except NOT_OF_ROWS:
        raise
    except StoreError:
        if len(rows) == 1:
            return [_LOST]
        # A part of the table is lost. Only some are asked for one by one, as each costs a request.
        some = [one for row in rows[:_NUM_ASKED] for one in _domains(source, np.array([row]))]
        return some + [_LOST] * (len(rows) - len(some))


def _no_stand_in(chain: _Chain, last: BadRow) -> InputError:
    first, num = chain.first, len(chain.rows)
    return InputError(
        "A row makes no example, and no other can stand in",
        where=first.where,
        expected=f"a stand-in among {_NUM_TRIES} that makes one",
        found=f"{first.reason}: {first.detail}; "
        + (
            f"{num} stand-ins are bad as well, the last of them ({last.where}) {last.reason}"
            if num
            else "there is no other row"
        ),
        fix="Look whether the table is what it should be; delete the bad rows and select again",
    )


def _refusal(bad: Sequence[BadRow]) -> InputError:
    first = bad[0]
    others = f", and {len(bad) - 1} more in this batch" if len(bad) > 1 else ""
    return InputError(
        "A row makes no example",
        where=first.where,
        found=f"{first.reason}: {first.detail}{others}",
        fix="Delete the row and select again, or let another example of its domain stand in with "
        "on_bad='substitute'",
    )
