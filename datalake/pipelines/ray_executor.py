"""Staging on Ray Data: the one place that starts or joins a Ray cluster.

The rows of the Ray dataset are unit indices; what comes back is small. Files and rows travel
between the workers and the stores, never through Ray's object store.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import socket
import sys
import warnings
from collections.abc import Generator
from contextlib import closing, redirect_stdout
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np
import numpy.typing as npt

from datalake.errors import LakeError, MissingPackageError, StoreError
from datalake.pipelines.executors import Job, Outcome

if TYPE_CHECKING:
    import ray.data

__all__ = ["RayExecutor"]

_T = TypeVar("_T", bound=Outcome)

_OBJECT_STORE_BYTES: Final = 128 << 20
_RESULT_BYTES: Final = 1 << 20
_MAX_TASKS: Final = 10_000
_MAX_RETRIES: Final = 5
_KNOCK_SECONDS: Final = 5.0


class RayExecutor:
    """Stages units in tasks of Ray Data, as many at once as there are workers.

    A cluster that this process has joined already is used as it is; else the one at `address` or
    `RAY_ADDRESS`; else a new one on this machine, which ends when the executor is left. It may be
    entered again while it is entered, so that several ingests share what it started.
    """

    def __init__(
        self, *, num_workers: int | None = None, address: str | None = None, debug: bool = False
    ) -> None:
        self._wanted = num_workers
        self._address = address
        self._debug = debug
        self._started = False
        self._depth = 0

    @property
    def num_workers(self) -> int:
        """How many units are worked on at once."""
        import ray

        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return self._wanted or max(1, int(resources.get("CPU", 1)))

    def __enter__(self) -> Self:
        # Ray reads it when it is imported.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise MissingPackageError.of("ray", "ray", "Working on Ray") from error
        if not ray.is_initialized():
            self._start()
        self._depth += 1
        return self

    def __exit__(self, *exception: object) -> None:
        self._depth -= 1
        if self._started and self._depth == 0:
            import ray

            ray.shutdown()
            self._started = False

    def _start(self) -> None:
        import ray

        address = self._address or os.environ.get("RAY_ADDRESS")
        if address:
            _knock(address)
        try:
            self._init(address)
        except Exception as error:  # Ray raises it bare where its own processes are late.
            ray.shutdown()
            raise _unavailable(address, error) from error
        self._started = True

    def _init(self, address: str | None) -> None:
        import ray

        # A cluster that is up has these already, and refuses to be told.
        num_cpus, object_store = (None, None) if address else (self._wanted, _OBJECT_STORE_BYTES)
        with warnings.catch_warnings(action="default" if self._debug else "ignore"):
            ray.init(
                address=address or "local",
                num_cpus=num_cpus,
                object_store_memory=object_store,
                include_dashboard=False,
                logging_level=logging.INFO if self._debug else logging.ERROR,
                log_to_driver=self._debug,
            )

    def run(self, job: Job[_T], num_units: int) -> Generator[_T, None, None]:
        """What became of each unit, in the order in which they are done.

        Raises:
            LakeError: what staging a unit raised.
        """
        import ray.data

        if not self._debug:
            logging.getLogger("ray.data").setLevel(logging.ERROR)
        num_tasks = min(num_units, _MAX_TASKS)
        indices = ray.data.range(num_units, override_num_blocks=num_tasks)
        num_gpus = float(getattr(job, "num_gpus", 0)) if _num_gpus() else 0.0
        at_once = min(self.num_workers, num_tasks)
        if num_gpus:
            at_once = max(1, min(at_once, int(_num_gpus() / num_gpus)))
        stage: Any = _stage  # Ray's own hint leaves out what it passes on as fn_kwargs.
        with warnings.catch_warnings(action="ignore"):
            # `max_retries` is to get another place in Ray 2.64. Without it a file that crashes its
            # decoder is tried for ever.
            staged = indices.map_batches(
                stage,
                batch_size=1,
                fn_kwargs={"job": job},
                concurrency=at_once,
                num_gpus=num_gpus or None,
                max_retries=_MAX_RETRIES,
            )
        staged.context.enable_progress_bars = self._debug
        # Ray holds tasks back that might fill its object store; ours return some kilobytes each.
        staged.context.target_max_block_size = _RESULT_BYTES
        # It also reserves cores for each of its operators. With two cores that left one for the
        # files: tasks ran one after the other.
        staged.context.op_resource_reservation_enabled = False
        seen: set[int] = set()
        # Ray prints the death of a worker on stdout, which belongs to results.
        # Closing ends what Ray is still at when the caller has had enough.
        with (
            redirect_stdout(sys.stderr if self._debug else io.StringIO()),
            closing(_batches(staged)) as batches,
        ):
            for batch in batches:
                for outcome in map(pickle.loads, batch.column("outcome").to_pylist()):
                    if isinstance(outcome, LakeError):
                        raise outcome
                    # A task whose result was lost after it had been read is run again.
                    if outcome.index not in seen:
                        seen.add(outcome.index)
                        yield outcome


def _num_gpus() -> float:
    """How many GPUs the cluster has."""
    import ray

    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources.get("GPU", 0.0)


def _batches(staged: ray.data.Dataset) -> Generator[Any, None, None]:
    """The results as Arrow tables.

    Raises:
        LakeError: a task failed in a way that no one foresaw, or its worker died every time.
    """
    import ray

    try:
        yield from staged.iter_batches(batch_size=None, batch_format="pyarrow")
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        raise LakeError(
            "A worker failed",
            found=f"{type(cause).__name__}: {str(cause).strip().splitlines()[0]}",
            fix="What was committed stays; --debug shows more, and so does --executor local",
        ) from error


def _knock(address: str) -> None:
    """See that something listens at `address`: Ray itself would wait for minutes.

    Raises:
        StoreError: nothing does.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # `auto`, `local`: Ray knows where to look.
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_SECONDS).close()
    except OSError as error:
        raise _unavailable(address, error) from error


def _unavailable(address: str | None, error: Exception) -> StoreError:
    return StoreError(
        "The Ray cluster cannot be joined" if address else "Ray cannot be started",
        where=address or "this machine",
        found=" ".join(str(error).split()),
        fix="Work in this process (--executor local), or name another cluster (--ray-address)",
    )


def _stage(batch: Any, job: Job[Outcome]) -> dict[str, npt.NDArray[Any]]:
    """Stage the units whose indices are the column `id`; an error of ours is a result too."""
    outcomes = []
    for index in batch["id"]:
        outcome: Outcome | LakeError
        try:
            outcome = job.stage(int(index))
        except LakeError as error:
            outcome = error
        outcomes.append(pickle.dumps(outcome))
    return {"outcome": np.array(outcomes, dtype=object)}
