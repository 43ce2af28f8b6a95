"""The measures of one episode, by loops that can be read."""

from __future__ import annotations

import math

import numpy as np

from curation.quality.robot_scale import Scale
from tests.curation.quality.episodes import slow_filled


def slow_idle(values: np.ndarray, scale: Scale, window: int) -> list[bool]:
    moves = [dim for dim in range(values.shape[1]) if scale.moves[dim]]
    found = [False] * len(values)
    for start in range(len(values) - window + 1):
        part = values[start : start + window]
        if all(
            max(part[:, dim]) - min(part[:, dim])
            <= max(0.02 * scale.extent[dim], 5 * scale.noise[dim])
            for dim in moves
        ):
            found[start : start + window] = [True] * window
    return found


def slow_jump(values: np.ndarray, scale: Scale) -> list[bool]:
    found = [False] * len(values)
    for frame in range(1, len(values)):
        for dim in range(values.shape[1]):
            step = values[frame, dim] - values[frame - 1, dim]
            before = values[frame - 1, dim] - values[frame - 2, dim] if frame > 1 else 0.0
            last = frame + 1 == len(values)
            after = 0.0 if last else values[frame + 1, dim] - values[frame, dim]
            beside = max(before * np.sign(step), after * np.sign(step))
            large = abs(step) > max(10 * scale.step[dim], 0.1 * scale.extent[dim])
            able = scale.moves[dim] and not scale.is_switch[dim]
            found[frame] |= bool(able and large and 4 * beside < abs(step))
    return found


def slow_saturated(values: np.ndarray, scale: Scale, least: int) -> list[bool]:
    found = [False] * len(values)
    for dim in range(values.shape[1]):
        if not scale.moves[dim] or scale.is_switch[dim]:
            continue
        for end in (scale.low[dim], scale.high[dim]):
            for start in range(len(values) - least + 1):
                if all(value == end for value in values[start : start + least, dim]):
                    found[start : start + least] = [True] * least
    return found


def slow_frozen(values: np.ndarray, least: int) -> list[bool]:
    found = [False] * len(values)
    for start in range(len(values) - least + 1):
        first = values[start].tobytes()
        if all(frame.tobytes() == first for frame in values[start : start + least]):
            found[start : start + least] = [True] * least
    return found


def longest(flags: list[bool]) -> int:
    return max(len(run) for run in "".join(" x"[flag] for flag in flags).split(" "))


def slow_jerk(values: np.ndarray, scale: Scale, fps: float) -> tuple[float, float]:
    able = [d for d in range(values.shape[1]) if scale.moves[d] and not scale.is_switch[d]]
    known, sizes = slow_filled(values), []
    for n in range(3, len(values)):
        squares = []
        for dim in able:
            x = known[:, dim] / scale.extent[dim]
            squares.append(((x[n] - 3 * x[n - 1] + 3 * x[n - 2] - x[n - 3]) * fps**3) ** 2)
        sizes.append(math.sqrt(sum(squares) / len(squares)) if squares else math.nan)
    if not sizes or not able:
        return math.nan, math.nan
    return float(np.median(sizes)), float(np.quantile(sizes, 0.95))


def slow_lag(
    state: np.ndarray, action: np.ndarray, state_scale: Scale, action_scale: Scale, furthest: int
) -> tuple[float, float]:
    dims = [d for d in range(state.shape[1]) if state_scale.moves[d] and action_scale.moves[d]]
    moved = [
        np.vstack([np.zeros((1, len(dims))), np.diff(slow_filled(values)[:, dims], axis=0)])
        / scale.extent[dims]
        for values, scale in ((action, action_scale), (state, state_scale))
    ]
    best, correlation = math.nan, -math.inf
    for lag in sorted(range(-furthest, furthest + 1), key=lambda each: (abs(each), -each)):
        pairs = [(n, n + lag) for n in range(1, len(state)) if 1 <= n + lag < len(state)]
        if not dims or 2 * abs(lag) > len(state) - 1 or not pairs:
            continue
        one = np.concatenate([moved[0][n] for n, _ in pairs])
        two = np.concatenate([moved[1][m] for _, m in pairs])
        size = math.sqrt((one**2).sum()) * math.sqrt((two**2).sum())
        if size > 0 and float(one @ two) / size > correlation + 1e-9:
            best, correlation = lag, float(one @ two) / size
    if correlation == -math.inf:
        return math.nan, math.nan
    return (best if correlation >= 0.3 else math.nan), correlation


def slow_offset(state: np.ndarray, action: np.ndarray, idle: list[bool], scale: Scale) -> float:
    beside = (slow_filled(action) - slow_filled(state))[np.array(idle, bool)]
    if not len(beside):
        return math.nan
    able = scale.moves & ~scale.is_switch
    offsets = [
        abs(float(np.median(beside[:, dim]))) / scale.extent[dim]
        for dim in range(state.shape[1])
        if able[dim]
    ]
    return max(offsets, default=math.nan)
