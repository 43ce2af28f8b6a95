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

from importlib import import_module
from typing import TYPE_CHECKING, Final

from datalake.errors import MissingPackageError

if TYPE_CHECKING:
    from datalake.loader.stream import Loader as Loader
    from datalake.loader.workers import WorkerLoader as WorkerLoader

__all__ = ["Loader", "WorkerLoader"]


_OF_TORCH: Final = {"Loader": "stream", "WorkerLoader": "workers"}


def __getattr__(name: str) -> object:
    # Importing torch takes seconds; whoever plans a run (positions, states) does without it.
    if name not in _OF_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_OF_TORCH[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingPackageError.of("torch", "torch", "Streaming into tensors") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
