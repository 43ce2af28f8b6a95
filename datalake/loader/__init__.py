"""From a table to batches of tensors: exact, shuffled, resumable on any number of ranks.

    order      which example stands at a global position of an epoch (a pure function)
    split      which positions a rank, a step and a worker get (a pure function)
    examples   which row of the table an example is
    state      where a stream stands, as plain data
    clips      crop and pad one clip
    prefetch   work a little ahead, in order and within a bound
    assembly   rows to one batch of tensors: read, decode, fit
    stream     `Loader`, the whole, as an iterable dataset
    workers    `WorkerLoader`, the same through worker processes

`order`, `split`, `examples`, `state` and `clips` need numpy and pyarrow only; torch is imported
with `Loader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datalake.loader.stream import Loader as Loader
    from datalake.loader.workers import WorkerLoader as WorkerLoader

__all__ = ["Loader", "WorkerLoader"]


def __getattr__(name: str) -> object:
    # Importing torch takes seconds; whoever plans a run (positions, states) does without it.
    if name == "Loader":
        from datalake.loader.stream import Loader

        return Loader
    if name == "WorkerLoader":
        from datalake.loader.workers import WorkerLoader

        return WorkerLoader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
