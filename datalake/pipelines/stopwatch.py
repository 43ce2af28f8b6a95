"""Seconds of the steps of a run, added up in its report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["timed"]


@contextmanager
def timed(report: object, field: str) -> Iterator[None]:
    """Add the seconds of the block to a field of the report."""
    started = time.monotonic()
    try:
        yield
    finally:
        setattr(report, field, getattr(report, field) + time.monotonic() - started)
