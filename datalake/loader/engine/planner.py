"""What a stream reads from stores before any batch is begun, in threads of its own.

Batches made by cost follow from what a window of examples costs, and a source that keeps decoded
clips reads how long they are before it can say which of them are missing. Were that done by the
trainer's thread, a store that stalls would hang it unheard. Here threads do it, watched as those
that make batches are, and steps are planned so far ahead that nobody waits for a window's costs.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Final, ParamSpec, Protocol, TypeVar, runtime_checkable

from datalake.errors import StalledError
from datalake.loader.batching import Batching, Place
from datalake.loader.batching.windows import Windowed
from datalake.loader.engine.ahead import Limits
from datalake.loader.engine.threads import Crew
from datalake.loader.engine.watchdog import awaited, told
from datalake.loader.sampling.sampler import Sampler
from datalake.telemetry import Meter

__all__ = ["Planner", "PrefetchReader", "reads_costs", "reads_to_prefetch"]

_log: Final = logging.getLogger("datalake.loader")

P = ParamSpec("P")
T = TypeVar("T")

# A window of 4,096 examples has 64 steps of 64. While as many of one window are left, the next one
# is planned; a step holds some 50 bytes an example.
_STEPS_AHEAD: Final = 64
# How long a thread is given to end; one that is stuck is left to die with the process.
_CLOSING_S: Final = 2.0
_PLANNING: Final = "what the examples of coming batches cost"
_LOOKING: Final = "which clips of coming batches are kept"


@runtime_checkable
class PrefetchReader(Protocol):
    """A source whose `prefetch` may read a table before it returns."""

    @property
    def reads_to_prefetch(self) -> bool:
        """Whether it does, as it was made."""
        ...


def reads_costs(batching: Batching, place: Place) -> bool:
    """Whether making the shares from a place on reads the sources."""
    # What is left of a window that was cut by cost follows from the costs, whoever goes on.
    return isinstance(batching, Windowed) or bool(place.taken)


def reads_to_prefetch(sampler: Sampler) -> bool:
    """Whether a source may read before its `prefetch` returns."""
    return any(
        isinstance(source, PrefetchReader) and source.reads_to_prefetch
        for source in sampler.sources
    )


class Planner:
    """Does one stream's reading before batches, and lets it wait under the watchdog.

    For the stream's own thread, that closes it.
    """

    def __init__(self, limits: Limits, meter: Meter) -> None:
        self._limits, self._meter = limits, meter
        # A window's costs, and what is missing of the next step, do not wait for each other.
        self._crews: dict[str, Crew] = {}
        self._coming: deque[Future[Any]] = deque()
        self._is_stalled = False

    def planned(self, steps: Iterator[T]) -> Iterator[T]:
        """The same in the same order, made ahead. Exceptions come in their turn.

        Raises:
            StalledError: the next one did not come in time.
        """
        self._coming.extend(self._next_of(steps) for _ in range(_STEPS_AHEAD))
        while step := self._awaited(self._coming[0]):
            self._coming.popleft()
            self._coming.append(self._next_of(steps))
            yield step[0]

    def look(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function gives, called in another thread.

        Raises:
            StalledError: it did not return in time.
        """

        def looked() -> T:
            with self._meter.during("cache", _LOOKING):
                return function(*args, **kwargs)

        return self._awaited(self._crew("datalake-look").submit(looked))

    def is_empty(self, steps: Iterator[T]) -> bool:
        """Whether there is no first one. Takes it.

        Raises:
            StalledError: it did not come in time.
        """
        return not self._awaited(self._next_of(steps))

    def close(self) -> None:
        """Let the threads end."""
        for future in self._coming:
            future.cancel()
        for crew in self._crews.values():
            if not crew.close(0.0 if self._is_stalled else _CLOSING_S):
                _log.warning("A thread did not end and was left: %s", told(self._meter))

    def _next_of(self, steps: Iterator[T]) -> Future[tuple[T] | tuple[()]]:
        """The next one, or nothing at the end. One thread makes them all."""

        def made() -> tuple[T] | tuple[()]:
            with self._meter.during("collate", _PLANNING):
                for step in steps:
                    return (step,)
                return ()

        return self._crew("datalake-plan").submit(made)

    def _awaited(self, future: Future[T]) -> T:
        try:
            return awaited(future, self._meter, self._limits.timeout_s, self._limits.warn_after_s)
        except StalledError:
            self._is_stalled = True
            raise

    def _crew(self, name: str) -> Crew:
        if name not in self._crews:
            self._crews[name] = Crew(1, name)
        return self._crews[name]
