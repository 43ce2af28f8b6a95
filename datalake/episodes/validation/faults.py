"""How rules say what they found."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from datalake.quarantine import Reason
from datalake.recording import EpisodeData, Finding, Severity

__all__ = ["error", "first_of", "warning"]


def error(
    data: EpisodeData,
    reason: Reason,
    detail: str,
    *,
    frame: int | None = None,
    feature: str | None = None,
) -> Finding:
    """A fault that costs the episode."""
    return _finding(Severity.ERROR, data, reason, detail, frame, feature)


def warning(
    data: EpisodeData,
    reason: Reason,
    detail: str,
    *,
    frame: int | None = None,
    feature: str | None = None,
) -> Finding:
    """A fault that a person should know of."""
    return _finding(Severity.WARNING, data, reason, detail, frame, feature)


def first_of(bad: npt.NDArray[Any]) -> tuple[int, str]:
    """The first row in which something is true, and how many more there are, in words.

    Args:
        bad: booleans, shape (rows,), at least one of them true.
    """
    rows = np.flatnonzero(bad)
    more = f" (and in {len(rows) - 1:,} more frames)" if len(rows) > 1 else ""
    return int(rows[0]), more


def _finding(
    severity: Severity,
    data: EpisodeData,
    reason: Reason,
    detail: str,
    frame: int | None,
    feature: str | None,
) -> Finding:
    ref = data.ref
    return Finding(reason, severity, detail, ref.episode_id, frame, feature, ref.origin)
