"""An item that an ingest does not take."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Refused"]


class Refused(NamedTuple):
    """An item that is not taken, and why."""

    path: str
    utt_id: str | None
    reason: str
    """A value of `datalake.quarantine.Reason`."""
    detail: str
