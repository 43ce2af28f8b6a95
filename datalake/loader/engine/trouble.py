"""What becomes of rows that make no example: the stream stops, or another example stands in.

A stand-in is drawn by a rule that hangs on the seed and the position alone, so that every rank, and
every run that goes on from a state, sees the same one. What was replaced is kept on record.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.loader.order.hashing import Words, keys, mix
from datalake.loader.sampling.sampler import Sampler
from datalake.loader.sources.source import Allocate, BadRow, BadRowsError, Columns
from datalake.telemetry import Meter

if TYPE_CHECKING:
    from datalake.loader.engine.assembly import Step

__all__ = ["OnBad", "Substitution", "Trouble"]

OnBad: TypeAlias = Literal["raise", "substitute"]

# Positions drawn for a stand-in before one of another domain is taken, and how often a stand-in
# that is bad itself is replaced in turn.
_NUM_DRAWN: Final = 512
_NUM_TRIES: Final = 16
_NUM_RECORDED: Final = 1000


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


class Trouble:
    """Reads rows, and deals with those that cannot be read. Thread-safe; copies share no record."""

    def __init__(self, on_bad: OnBad, seed: int, meter: Meter) -> None:
        self.on_bad = on_bad
        self._seed = seed
        self._meter = meter
        self._lock = threading.Lock()
        self._recent: deque[Substitution] = deque(maxlen=_NUM_RECORDED)

    def __reduce__(self) -> tuple[Any, ...]:
        return Trouble, (self.on_bad, self._seed, self._meter)

    def recent(self) -> list[Substitution]:
        """What was replaced, the last thousand of them; the count `substituted` has them all."""
        with self._lock:
            return list(self._recent)

    def read(
        self,
        sampler: Sampler,
        step: Step,
        source: int,
        places: npt.NDArray[np.int64],
        words: Words,
        allocate: Allocate,
    ) -> Columns:
        """What a source gives for the step's rows at `places`.

        Raises:
            InputError: a row cannot be used, and is not to be replaced or cannot be.
        """
        wanted = sampler.sources[source]
        rows = step.picks.rows[places].copy()
        replaced = np.zeros(len(rows), bool)
        for tried in range(_NUM_TRIES):
            try:
                columns = wanted.read(rows, words, allocate)
            except BadRowsError as error:
                if self.on_bad == "raise":
                    raise _refusal(error.bad) from error
                bad = error.bad
            else:
                if self.on_bad == "substitute":
                    columns["is_substitute"] = replaced
                return columns
            for one in bad:
                position = int(step.share.positions[places[one.index]])
                original = int(step.picks.rows[places[one.index]])
                row, same = self._stand_in(sampler, step.epoch, source, position, original, tried)
                self._record(
                    Substitution(
                        *(sampler.names[source], one.row, one.where, one.reason, one.detail),
                        *(row, same),
                    )
                )
                rows[one.index] = row
                replaced[one.index] = True
        raise _refusal(bad, f"{_NUM_TRIES} stand-ins were bad as well; the first of them:")

    def _stand_in(
        self, sampler: Sampler, epoch: int, source: int, position: int, row: int, tried: int
    ) -> tuple[int, bool]:
        """A row of the same source, of the same domain if one is drawn, and whether it is."""
        (key,) = keys(1, "stand-in", self._seed, epoch, position, tried)
        drawn = mix(np.arange(_NUM_DRAWN, dtype=np.uint64), key) % np.uint64(sampler.num_examples)
        picks = sampler.picks(epoch, drawn.astype(np.int64))
        rows = picks.rows[(picks.sources == source) & (picks.rows != row)]
        if not rows.size:
            return row, True
        own, *domains = sampler.sources[source].domains(np.array([row, *rows]))
        same = [candidate for candidate, domain in zip(rows, domains, strict=True) if domain == own]
        return (int(same[0]), True) if same else (int(rows[0]), False)

    def _record(self, substitution: Substitution) -> None:
        self._meter.count("substituted")
        with self._lock:
            self._recent.append(substitution)


def _refusal(bad: Sequence[BadRow], what: str = "") -> InputError:
    first = bad[0]
    others = f", and {len(bad) - 1} more in this batch" if len(bad) > 1 else ""
    return InputError(
        f"{what} A row makes no example".strip(),
        where=first.where,
        found=f"{first.reason}: {first.detail}{others}",
        fix="Delete the row and select again, or let another example of its domain stand in with "
        "on_bad='substitute'",
    )
