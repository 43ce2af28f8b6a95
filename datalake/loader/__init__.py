"""From tables to batches of tensors: shuffled, exact, resumable on any number of ranks.

    order      which example stands at a position of an epoch (pure functions)
    sources    what becomes an example: `Utterances`, `EpisodeWindows`, `Episodes`, `Rows`
    sampling   which row of which source stands at a position: `Weighted`, `Mixture`
    batching   which positions make a rank's step: `Fixed`, `ByCost`, `Packed`
    state      where a stream stands, as plain data
    engine     batches made ahead, in recycled memory, watched
    stream     `Loader`, the whole, as an iterable dataset
    workers    `WorkerLoader`, the same through worker processes

All but `engine`, `stream` and `workers` need numpy and pyarrow only; torch is imported with
`Loader`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from datalake.errors import MissingPackageError

if TYPE_CHECKING:
    from datalake.loader.batching import ByCost as ByCost
    from datalake.loader.batching import Fixed as Fixed
    from datalake.loader.batching import Packed as Packed
    from datalake.loader.sampling import Mixture as Mixture
    from datalake.loader.sampling import Selected as Selected
    from datalake.loader.sampling import Weighted as Weighted
    from datalake.loader.sources.episodes import Episodes as Episodes
    from datalake.loader.sources.rows import Rows as Rows
    from datalake.loader.sources.utterances import Utterances as Utterances
    from datalake.loader.sources.windows import EpisodeWindows as EpisodeWindows
    from datalake.loader.stream import Loader as Loader
    from datalake.loader.stream import Passes as Passes
    from datalake.loader.workers import WorkerLoader as WorkerLoader

__all__ = [
    "ByCost",
    "EpisodeWindows",
    "Episodes",
    "Fixed",
    "Loader",
    "Mixture",
    "Packed",
    "Passes",
    "Rows",
    "Selected",
    "Utterances",
    "Weighted",
    "WorkerLoader",
]

# Looked up when asked for: torch takes seconds, and who plans a run does without it.
_HOMES: Final = {
    "ByCost": "batching",
    "EpisodeWindows": "sources.windows",
    "Episodes": "sources.episodes",
    "Fixed": "batching",
    "Loader": "stream",
    "Mixture": "sampling",
    "Packed": "batching",
    "Passes": "stream",
    "Rows": "sources.rows",
    "Selected": "sampling",
    "Utterances": "sources.utterances",
    "Weighted": "sampling",
    "WorkerLoader": "workers",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingPackageError.of("torch", "torch", "Streaming into tensors") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
