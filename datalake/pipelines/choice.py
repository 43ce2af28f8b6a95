"""The executor that a pipeline's caller asks for."""

from __future__ import annotations

from datalake.errors import InputError
from datalake.lake import Lake
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.pipelines.settings import ExecutorName

__all__ = ["chosen_executor"]


def chosen_executor(
    choice: Executor | ExecutorName, num_workers: int | None, lake: Lake
) -> Executor:
    """The executor of that name, or the one that is set up already.

    Raises:
        InputError: the name is none, or workers cannot reach the lake.
    """
    if choice == "local":
        return LocalExecutor()
    if isinstance(choice, LocalExecutor):
        return choice
    if lake.location.scheme == "memory":
        raise InputError(
            "Workers of Ray cannot reach a lake in memory",
            where=str(lake.location),
            fix="Use the executor local, or a lake on disk or in an object store",
        )
    if choice == "ray":
        from datalake.pipelines.ray_executor import RayExecutor

        return RayExecutor(num_workers=num_workers)
    if isinstance(choice, str):
        raise InputError("The executor is not known", expected="ray or local", found=repr(choice))
    return choice
