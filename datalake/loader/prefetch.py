"""Work a little ahead of the consumer, in order and within a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["ahead"]

Task = TypeVar("Task")
Result = TypeVar("Result")


def ahead(
    function: Callable[[Task], Result], tasks: Iterable[Task], *, depth: int
) -> Iterator[Result]:
    """`map(function, tasks)`, with up to `depth` results made ahead in as many threads.

    Results come in the order of the tasks, and an exception in its result's turn. A consumer that
    stops early (`close`, or the last reference gone) waits for the calls in progress and no others.

    Args:
        function: thread-safe.
        tasks: read from the consumer's thread, no further ahead than `depth`.
        depth: 0 to work when asked and make no thread.
    """
    if depth == 0:
        yield from map(function, tasks)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(depth, thread_name_prefix="datalake-ahead") as threads:
        try:
            for task in tasks:
                pending.append(threads.submit(function, task))
                # One is asked for and `depth` are ahead of it.
                if len(pending) > depth:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
