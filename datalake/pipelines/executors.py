"""Where the units of a job are worked on: in this process, or on Ray by way of Ray Data."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol, Self, TypeVar

__all__ = ["Executor", "Job", "LocalExecutor", "Outcome"]


class Outcome(Protocol):
    """What became of a unit. Picklable and small: rows travel by way of the store."""

    index: int


_T = TypeVar("_T", bound=Outcome)
_T_co = TypeVar("_T_co", bound=Outcome, covariant=True)


class Job(Protocol[_T_co]):
    """Work that is cut into units, numbered from 0. Picklable and small.

    A job may say by the attribute `num_gpus` which share of GPUs a worker needs: 1, a part of 1, or
    0 as without it. It is granted where a cluster has GPUs; elsewhere the job does without.
    """

    def stage(self, index: int) -> _T_co:
        """Do one unit. It may be done more than once, so it publishes nothing.

        Raises:
            LakeError: the unit cannot be done.
        """
        ...


class Executor(Protocol):
    """Runs the units of a job. A context manager: entering starts what it needs."""

    @property
    def num_workers(self) -> int:
        """How many units are worked on at once."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def run(self, job: Job[_T], num_units: int) -> Generator[_T, None, None]:
        """What became of each unit, in any order, each once. Closing it ends the work.

        Raises:
            LakeError: what staging a unit raised.
        """
        ...


class LocalExecutor:
    """Stages units one after the other in this process."""

    num_workers = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def run(self, job: Job[_T], num_units: int) -> Generator[_T, None, None]:
        """What became of each unit, in order."""
        for index in range(num_units):
            yield job.stage(index)
