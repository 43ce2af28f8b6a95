"""Keeping short commands short."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["hide_pandas"]


class _NoPandas:
    """Answers the import of pandas as if it were not installed."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 (the import system passes them)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden from commands that only look", name=name)
        return None


def hide_pandas() -> None:
    """Hide pandas from this process, for a command that makes no data frame.

    pyarrow loads pandas, where it is installed, along with its first scalar; that takes longer than
    all the rest of a short command.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())
