"""What a source says of an episode's statistics, against the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.episodes.statistics import Accumulator, numbers_of
from datalake.episodes.validation.checks import Checks
from datalake.episodes.validation.faults import warning
from datalake.errors import InputError
from datalake.quarantine import Reason
from datalake.recording import EpisodeData, Feature, Finding

__all__ = ["wrong_stats"]

# Copied, not computed: off by no more than a number's way through text and float32.
_COPY_TOLERANCE: Final = 1e-6


def wrong_stats(data: EpisodeData, checks: Checks) -> Iterator[Finding]:
    """Declared count, min, max, mean or std that are not the data's.

    Numeric features only: pictures are sampled and read otherwise by every writer. Quantiles are
    passed over: LeRobot's come from a histogram, and no bound says how far off they may be.
    """
    for feature in data.features:
        said: Any = data.stats.get(feature.name)
        if not said or not feature.is_numeric:
            continue
        if not isinstance(said, Mapping):
            detail = f"expected figures by name, found {type(said).__name__}"
            yield warning(data, Reason.STATS_MISMATCH, detail, feature=feature.name)
            continue
        if feature.name not in data.frames.column_names:
            continue
        try:
            values = numbers_of(data.frames[feature.name])
        except InputError:
            # Named by another rule.
            continue
        found = Accumulator(values.shape[1])
        found.add(values)
        if difference := _difference(feature, said, len(values), found, checks):
            yield warning(data, Reason.STATS_MISMATCH, difference, feature=feature.name)


def _difference(
    feature: Feature, said: Mapping[str, Any], num_frames: int, found: Accumulator, checks: Checks
) -> str | None:
    count = _vector(said.get("count"))
    if count is not None and count.size and count[0] != num_frames:
        return f"the declared count is {count[0]:g}, of the data {num_frames}"
    scale = np.maximum(np.abs(found.min), np.abs(found.max))
    for name, part in (
        ("min", _COPY_TOLERANCE),
        ("max", _COPY_TOLERANCE),
        ("mean", checks.stats_tolerance),
        ("std", checks.stats_tolerance),
    ):
        declared, true = _vector(said.get(name)), getattr(found, name)
        if declared is None:
            continue
        if len(feature.shape) > 1 and declared.size == feature.shape[-1] != true.size:
            # LeRobot 0.4 takes the figures of an array over all of its axes but the last.
            continue
        if declared.size != true.size:
            return f"the declared {name} has {declared.size} numbers, the feature {true.size}"
        # Elements with NaN or infinite values are another rule's.
        usable = np.isfinite(true) & np.isfinite(scale)
        bad = usable & ~(np.abs(declared - true) <= part * scale)
        if name == "std":
            # Whoever normalises by it gets no number.
            bad |= usable & (declared == 0) & (true > _COPY_TOLERANCE * scale)
        if bad.any():
            element = int(np.argmax(bad))
            more = f", and in {bad.sum() - 1} more elements" if bad.sum() > 1 else ""
            where = f" of element {element}" if feature.num_elements > 1 else ""
            return (
                f"the declared {name}{where} is {declared[element]:g},"
                f" of the data {true[element]:g}{more}"
            )
    return None


def _vector(value: Any) -> npt.NDArray[np.float64] | None:
    """Numbers of any nesting, flat; None where they are none."""
    if value is None:
        return None
    try:
        return np.asarray(value, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        return np.zeros(0)
