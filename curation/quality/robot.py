"""Measures of robot episodes as an annotator of `<set>.episodes`: one pass over state and action.

Many episodes are measured at once (`curation.quality.segments`); an episode's numbers do not hang
on those beside it, and are relative to the scale of its robot, which is told from the whole set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from curation.embed.episodes import SetAddress, SetReader
from curation.quality import robot_frames as flags
from curation.quality import robot_lag, robot_motion, robot_timing
from curation.quality.robot_motion import Signal
from curation.quality.robot_reading import Frames, batches, features_of, read_frames
from curation.quality.robot_scales import Scales, scales_of
from curation.quality.robot_signals import alike, beside, signal_of
from curation.quality.segments import Flags, Numbers
from datalake.errors import InputError
from datalake.lake import Lake
from datalake.pipelines.annotation.annotator import Annotate
from datalake.recording import Feature

__all__ = ["MEASURES", "RobotMeasures"]

MEASURES: Final = pa.schema(
    [
        # Of the state, or where there is none of the action: ranges a second cubed.
        pa.field("jerk_median", pa.float32()),
        pa.field("jerk_p95", pa.float32()),
        # Frames of spells of half a second or more in which nothing moves.
        pa.field("idle_share", pa.float32()),
        pa.field("num_leading_idle", pa.int32()),
        pa.field("num_trailing_idle", pa.int32()),
        # The longest run of values that are the same to the bit.
        pa.field("frozen_action_share", pa.float32()),
        pa.field("frozen_state_share", pa.float32()),
        # Frames at an end of the robot's range, three or more in a row.
        pa.field("saturation_share", pa.float32()),
        pa.field("num_jumps", pa.int32()),
        pa.field("num_constant_dims", pa.int32()),
        # Constant here, and not in other episodes of the robot.
        pa.field("num_frozen_dims", pa.int32()),
        # Numbers that are NaN, infinite or missing.
        pa.field("num_non_finite", pa.int32()),
        pa.field("num_gaps", pa.int32()),
        pa.field("num_backward", pa.int32()),
        pa.field("fps_drift", pa.float32()),
        pa.field("action_lag_s", pa.float32()),
        pa.field("action_correlation", pa.float32()),
        # Between action and state at rest, a share of the range.
        pa.field("action_offset", pa.float32()),
    ]
)
"""What is measured."""

_SPELL_S: Final = 0.5
_FURTHEST_LAG_S: Final = 0.5
_VERSION: Final = 1
"""Raised when a measure's value changes, so that a run under way is not gone on with."""


@dataclass(frozen=True)
class RobotMeasures:
    """Measures episodes by their state, action and timestamps; an `Annotator`.

    The scales of robots are of the version that is the latest when this is made, and cost a pass
    over the columns (`scales_of` says what memory). They are settings.

    Memory when annotating: a million numbers as float64 and some ten arrays like it, or an episode
    that is larger; and some 300 bytes an episode of the set.

    Args:
        lake: where the set is.
        table: its table of episodes.

    Raises:
        InputError: the table holds no episodes, or these have neither state nor action.
    """

    lake: Lake
    table: str
    states: tuple[Feature, ...] = field(init=False)
    actions: tuple[Feature, ...] = field(init=False)
    scales: Scales = field(init=False, repr=False, hash=False)

    def __post_init__(self) -> None:
        episodes = self._address.open()
        states, actions = features_of(episodes)
        if not states and not actions:
            raise InputError(
                "The set has no movement to measure",
                where=episodes.name,
                expected="numeric features observation.state, observation.state.*, action, …",
                found=", ".join(feature.name for feature in episodes.features),
                fix="Rename the features: datalake episodes rename-feature",
            )
        object.__setattr__(self, "states", tuple(states))
        object.__setattr__(self, "actions", tuple(actions))
        object.__setattr__(self, "scales", scales_of(episodes, [*states, *actions]))

    @property
    def _address(self) -> SetAddress:
        return SetAddress.of_table(self.lake, self.table)

    @property
    def reads(self) -> tuple[str, ...]:
        """The episode's id, robot and rate, and what changes with its frames."""
        return ("episode_id", "embodiment", "fps", "length", "stamp")

    @property
    def adds(self) -> pa.Schema:
        """`MEASURES`."""
        return MEASURES

    @property
    def settings(self) -> Mapping[str, object]:
        """The version of the measures, the features, and the scales of robots."""
        parts = ("low", "high", "step", "noise")
        return {
            "robot_measures": _VERSION,
            "set": str(self._address),
            "states": [feature.name for feature in self.states],
            "actions": [feature.name for feature in self.actions],
            "scales": {
                robot: {
                    name: {part: getattr(scale, part).tolist() for part in parts}
                    for name, scale in scales.items()
                }
                for robot, scales in self.scales.items()
            },
        }

    def open(self) -> Annotate:
        """Open the set."""
        reader = SetReader(self._address)
        features = [*self.states, *self.actions]
        width = sum(feature.num_elements for feature in features)

        def annotate(rows: pa.Table) -> pa.Table:
            ids = rows["episode_id"].to_pylist()
            found = [reader.row_of(episode_id) for episode_id in ids]
            robots = np.array([name or "" for name in rows["embodiment"].to_pylist()], object)
            errors = [self._why_not(row, robots[at]) for at, row in enumerate(found)]
            there = np.array([at for at, why in enumerate(errors) if why is None], np.int64)
            places = np.array([found[at] for at in there], np.int64)
            # As they lie in the table, so that they can be read in one go.
            order = np.argsort(places, kind="stable")
            there, places = there[order], places[order]
            fps = rows["fps"].to_numpy()
            values = {name: np.full(len(ids), np.nan) for name in MEASURES.names}
            for part in batches(reader.set.index.lengths[places], width):
                frames = read_frames(reader.set, places[part], features)
                own = there[part]
                for group in alike(robots[own], fps[own], frames):
                    at = own[group]
                    made = self._measured(frames.of(group), robots[at[0]], float(fps[at[0]]))
                    for name, column in made.items():
                        values[name][at] = column
            columns = {each.name: _column(values[each.name], each.type) for each in MEASURES}
            return pa.table({**columns, "error": pa.array(errors, pa.string())})

        return annotate

    def _why_not(self, row: int | None, robot: str) -> str | None:
        if row is None:
            return "the episode is not in the set any more"
        if robot not in self.scales:
            return f"the robot came in after scales were told: {robot}"
        return None

    def _measured(self, frames: Frames, robot: str, fps: float) -> dict[str, Numbers]:
        """The measures of episodes of one robot, rate and set of features."""
        starts, times = frames.starts, frames.timestamps
        state = signal_of(frames, self.states, self.scales[robot])
        action = signal_of(frames, self.actions, self.scales[robot])
        found = {
            "num_gaps": robot_timing.num_gaps(times, starts, fps),
            "num_backward": robot_timing.num_backward(times, starts),
            "fps_drift": robot_timing.fps_drift(times, starts, fps),
        }
        signals = [each for each in (state, action) if each is not None]
        if not signals:
            return found
        both = signals[0] if len(signals) == 1 else beside(signals[0], signals[1])
        window = max(2, round(_SPELL_S * fps))
        idle = flags.idle(both.values, starts, both.scale, window=window)
        saturated = flags.saturated(both.values, starts, both.scale)
        found["jerk_median"], found["jerk_p95"] = robot_motion.jerk(signals[0], starts, fps)
        share, leading, trailing = robot_motion.idleness(idle, starts)
        found |= {
            "idle_share": share,
            "num_leading_idle": leading,
            "num_trailing_idle": trailing,
            "saturation_share": robot_motion.share(saturated, starts),
            "num_jumps": robot_motion.num_jumps(both, starts),
            "num_non_finite": robot_motion.num_non_finite(both, starts),
        }
        constant, frozen = robot_motion.dead_dimensions(both, starts)
        found |= {"num_constant_dims": constant, "num_frozen_dims": frozen}
        for name, signal in (("action", action), ("state", state)):
            if signal is not None:
                hung = flags.frozen(signal.values, starts, least=2)
                found[f"frozen_{name}_share"] = robot_motion.longest_share(hung, starts)
        if state is not None and action is not None:
            found |= self._followed(frames, state, action, idle, fps)
        return found

    def _followed(
        self, frames: Frames, state: Signal, action: Signal, idle: Flags, fps: float
    ) -> dict[str, Numbers]:
        names = [
            [_names(each) for each in features if frames.present[each.name].any()]
            for features in (self.states, self.actions)
        ]
        of_state, of_action = robot_lag.paired(*(list(chain(*parts)) for parts in names))
        if not of_state:
            # What stands beside the main feature may have no other side.
            of_state, of_action = robot_lag.paired(*(parts[0] for parts in names))
        if not of_state:
            return {}
        state, action = state.only(of_state), action.only(of_action)
        furthest = max(1, round(_FURTHEST_LAG_S * fps))
        lag, correlation = robot_lag.lag(state, action, frames.starts, furthest=furthest)
        return {
            "action_lag_s": lag / fps,
            "action_correlation": correlation,
            "action_offset": robot_lag.offset(state, action, idle, frames.starts),
        }


def _names(feature: Feature) -> list[str]:
    known = len(feature.names) == feature.num_elements
    return list(feature.names) if known else [""] * feature.num_elements


def _column(values: Numbers, kind: pa.DataType) -> pa.Array:
    """As stored, NaN as null."""
    if pa.types.is_integer(kind):
        known = np.where(np.isnan(values), 0, values).astype(np.int32)
        return pa.array(known, kind, mask=np.isnan(values))
    return pa.array(values.astype(np.float32), kind, mask=np.isnan(values))
