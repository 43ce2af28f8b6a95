"""An elastic data lake for speech and robot learning.

    import datalake

    lake = datalake.open_lake("./lake")
    lake["corpus"].count_rows()

Tables are versioned and live on disk or in an object store; selections and lineage live beside
them. Importing the package loads no engine: each is loaded by what first needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from datalake.errors import (
    ConfigError,
    ConflictError,
    CredentialsError,
    DiskFullError,
    ExistsError,
    InputError,
    LakeError,
    MissingPackageError,
    NotFoundError,
    PredicateError,
    SchemaError,
    StoppedError,
    StoreError,
)
from datalake.uri import Location, StorageOptions

if TYPE_CHECKING:
    from datalake.lake import Lake, Lineage, LogEntry, Selection, open_lake

__all__ = [
    "ConfigError",
    "ConflictError",
    "CredentialsError",
    "DiskFullError",
    "ExistsError",
    "InputError",
    "Lake",
    "LakeError",
    "Lineage",
    "Location",
    "LogEntry",
    "MissingPackageError",
    "NotFoundError",
    "PredicateError",
    "SchemaError",
    "Selection",
    "StoppedError",
    "StorageOptions",
    "StoreError",
    "open_lake",
]

_OF_LAKE: Final = frozenset({"Lake", "Lineage", "LogEntry", "Selection", "open_lake"})


def __getattr__(name: str) -> object:
    # The lake brings pyarrow; errors and addresses alone do not need it.
    if name in _OF_LAKE:
        return getattr(import_module("datalake.lake"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
