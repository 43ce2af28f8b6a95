"""What an episode is like, told from its frames: the quality columns of the episodes table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from datalake.episodes.idle import idle_frames
from datalake.episodes.statistics import numbers_of
from datalake.recording import Feature

__all__ = ["domain_of", "quality_of"]

_REWARD: Final = Feature("next.reward", "float32")


def quality_of(frames: pa.Table, features: Sequence[Feature], fps: float) -> dict[str, Any]:
    """The columns of the episodes table that follow from an episode's frames.

    Args:
        frames: its frames, as stored.
        features: its features.
        fps: its frames a second.
    """
    head, tail = idle_frames(frames, features)
    return {
        "length": frames.num_rows,
        "duration_s": frames.num_rows / fps,
        "total_reward": _total_reward(frames, features),
        "idle_head": head,
        "idle_tail": tail,
        "max_timestamp_error_s": _timestamp_error_s(frames, fps),
    }


def domain_of(source: str, embodiment: str | None, task: str | None) -> str:
    """The group that mixing acts on: `<source>/<embodiment>/<task>`, of what there is."""
    return "/".join(part for part in (source, embodiment, task) if part)


def _total_reward(frames: pa.Table, features: Sequence[Feature]) -> float | None:
    has_rewards = any(f.name == _REWARD.name and f.is_numeric for f in features)
    if not has_rewards or _REWARD.column not in frames.column_names:
        return None
    rewards = numbers_of(frames[_REWARD.column])
    # Some may be NaN or infinite, and so is the sum then.
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.sum(rewards, dtype=np.float64)) if rewards.size else None


def _timestamp_error_s(frames: pa.Table, fps: float) -> float | None:
    if not frames.num_rows:
        return None
    steps = frames["frame_index"].to_numpy() / fps
    return float(np.abs(frames["timestamp"].to_numpy() - steps).max())
