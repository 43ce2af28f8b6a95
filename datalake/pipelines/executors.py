"""Where units are staged: in this process, or on a Ray cluster by way of Ray Data."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol, Self

from datalake.pipelines.stage import StagedUnit, StageJob, stage_unit

__all__ = ["Executor", "LocalExecutor"]


class Executor(Protocol):
    """Runs the units of a job. A context manager: entering starts what it needs."""

    @property
    def num_workers(self) -> int:
        """How many units are worked on at once."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def run(self, job: StageJob, num_units: int) -> Generator[StagedUnit, None, None]:
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

    def run(self, job: StageJob, num_units: int) -> Generator[StagedUnit, None, None]:
        """What became of each unit, in order."""
        for index in range(num_units):
            yield stage_unit(job, index)
