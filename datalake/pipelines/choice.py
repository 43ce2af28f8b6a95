"""The executor that a pipeline's caller asks for, or the one that suits the work."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Final

from datalake.errors import InputError
from datalake.lake import Lake
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.pipelines.settings import ExecutorName

__all__ = ["ITEM_BYTES", "Undecided", "chosen_executor", "decided", "named_executor"]

ITEM_BYTES: Final = 32 << 10
"""What an item (an utterance, an episode) counts for besides its bytes."""

# Two cores of Ray gain on one process what Ray's start costs with about so much to do.
_WORTH_RAY_BYTES: Final = 128 << 20


@dataclass(frozen=True)
class Undecided:
    """Decides between this process and Ray once it is known how much there is to do."""

    num_workers: int | None = None
    address: str | None = None
    debug: bool = False

    def decide(self, num_bytes: int) -> Executor:
        """Ray where a cluster is named or joined already or the work is worth its start."""
        is_up = self.address or os.environ.get("RAY_ADDRESS") or _is_joined()
        if is_up or num_bytes >= _WORTH_RAY_BYTES:
            return _ray(self.num_workers, self.address, self.debug)
        return LocalExecutor()


def decided(choice: Executor | Undecided, num_bytes: int) -> Executor:
    """The executor for work of so many bytes; one that was asked for stays."""
    return choice.decide(num_bytes) if isinstance(choice, Undecided) else choice


def named_executor(
    name: ExecutorName, num_workers: int | None, *, address: str | None = None, debug: bool = False
) -> Executor | Undecided:
    """The executor of that name.

    Args:
        name: `auto`, `ray` or `local`.
        num_workers: how many tasks Ray runs at once; None for one a core.
        address: of a Ray cluster that is up.
        debug: show what Ray prints.

    Raises:
        InputError: the name is none.
    """
    if name == "auto":
        return Undecided(num_workers, address, debug)
    if name == "local":
        return LocalExecutor()
    if name == "ray":
        return _ray(num_workers, address, debug)
    raise InputError("The executor is not known", expected="auto, ray or local", found=repr(name))


def chosen_executor(
    choice: Executor | Undecided | ExecutorName, num_workers: int | None, lake: Lake
) -> Executor | Undecided:
    """The executor of that name, or the one that is set up already.

    Raises:
        InputError: the name is none, or workers cannot reach the lake.
    """
    made = named_executor(choice, num_workers) if isinstance(choice, str) else choice
    if lake.location.scheme != "memory" or isinstance(made, LocalExecutor):
        return made
    if isinstance(made, Undecided):
        return LocalExecutor()
    raise InputError(
        "Workers of Ray cannot reach a lake in memory",
        where=str(lake.location),
        fix="Use the executor local, or a lake on disk or in an object store",
    )


def _ray(num_workers: int | None, address: str | None, debug: bool) -> Executor:
    from datalake.pipelines.ray_executor import RayExecutor

    return RayExecutor(num_workers=num_workers, address=address, debug=debug)


def _is_joined() -> bool:
    """Whether this process is part of a Ray cluster; asks only where Ray is imported already."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())
