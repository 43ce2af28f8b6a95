"""Masks of robot episodes: which frames training is not to see, told from state, action and time.

The flags of frames are those of `curation.quality.robot_frames`, with the robot's own scale, so the
numbers of `curate measure` and the spans of a mask say the same. Ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from curation.quality import robot_frames as flags
from curation.quality.robot_motion import Signal
from curation.quality.robot_reading import batches, features_of, read_frames
from curation.quality.robot_scales import scales_of
from curation.quality.robot_signals import alike, beside, signal_of
from curation.quality.segments import (
    Flags,
    Numbers,
    Places,
    differences,
    lengths_of_runs,
    owners,
    reduced,
)
from datalake.episodes import EpisodeSet
from datalake.episodes.masks import MASK_SPANS, Mask
from datalake.errors import InputError, NotFoundError, nearest

__all__ = ["REASONS", "make_mask"]

_SPELL_S: Final = 0.5
_JUMP_SHARE: Final = 0.1
_GAP_INTERVALS: Final = 1.5
_LEAST_SATURATED: Final = 3
_VERSION: Final = 1
"""Raised when a rule changes."""


@dataclass(frozen=True)
class _Judged:
    """Episodes of one robot, rate and set of features, as rules see them."""

    starts: Places
    timestamps: Numbers
    fps: float
    spell_s: float
    state: Signal | None
    moving: Signal | None
    """State and action side by side."""

    @property
    def spell(self) -> int:
        """Frames of a spell."""
        return max(2, round(self.spell_s * self.fps))


@dataclass(frozen=True)
class _Found:
    """What a rule says of the frames."""

    flags: Flags
    values: Numbers
    """Of each frame; the largest of a span is the span's. NaN where there is no number."""
    threshold: float
    """NaN where there is none."""


def _idle(judged: _Judged) -> _Found | None:
    """Neither state nor action moves for a spell; the value is its seconds."""
    if judged.moving is None:
        return None
    found = flags.idle(
        judged.moving.values, judged.starts, judged.moving.scale, window=judged.spell
    )
    return _lasting(found, judged, judged.spell)


def _frozen(judged: _Judged) -> _Found | None:
    """The state is the same to the bit for a spell; its seconds."""
    if judged.state is None:
        return None
    found = flags.frozen(judged.state.values, judged.starts, least=judged.spell)
    return _lasting(found, judged, judged.spell)


def _saturated(judged: _Judged) -> _Found | None:
    """At an end of the robot's range for three frames or more; their seconds."""
    if judged.moving is None:
        return None
    found = flags.saturated(
        judged.moving.values, judged.starts, judged.moving.scale, least=_LEAST_SATURATED
    )
    return _lasting(found, judged, _LEAST_SATURATED)


def _jump(judged: _Judged) -> _Found | None:
    """A dimension leaps; how far, a share of its range."""
    signal = judged.moving
    if signal is None:
        return None
    found = flags.jump(signal.values, judged.starts, signal.scale, share=_JUMP_SHARE)
    moves = signal.scale.moves & ~signal.scale.is_switch
    steps = np.abs(differences(signal.known(judged.starts)[:, moves], judged.starts))
    shares = (steps / signal.scale.extent[moves]).max(axis=1, initial=0.0)
    return _Found(found, shares, _JUMP_SHARE)


def _gap(judged: _Judged) -> _Found:
    """Later than expected after the frame before; by how many seconds."""
    found = flags.gap(judged.timestamps, judged.starts, judged.fps, intervals=_GAP_INTERVALS)
    later = differences(judged.timestamps, judged.starts)
    return _Found(found, later, _GAP_INTERVALS / judged.fps)


def _backward(judged: _Judged) -> _Found:
    """Not later than the frame before; by how many seconds."""
    later = differences(judged.timestamps, judged.starts)
    return _Found(flags.backward(judged.timestamps, judged.starts), later, 0.0)


def _non_finite(judged: _Judged) -> _Found | None:
    """A number is NaN, infinite or missing."""
    if judged.moving is None:
        return None
    found = flags.non_finite(judged.moving.values)
    return _Found(found, np.full(len(found), np.nan), np.nan)


_RULES: Final[Mapping[str, Callable[[_Judged], _Found | None]]] = {
    "idle": _idle,
    "frozen": _frozen,
    "saturated": _saturated,
    "jump": _jump,
    "gap": _gap,
    "backward": _backward,
    "non_finite": _non_finite,
}

REASONS: Final = tuple(_RULES)
"""What frames can be masked for."""


def make_mask(
    episodes: EpisodeSet,
    reasons: Sequence[str],
    *,
    trim_only: bool = False,
    spell_s: float = _SPELL_S,
    progress: Callable[[int, int], None] | None = None,
) -> Mask:
    """Judge all frames of an episode set. Nothing is saved.

    Two passes over state and action, in this process. Memory: a million numbers as float64 and some
    ten arrays like it, or an episode that is larger; 300 bytes an episode, and 100 a span.

    Args:
        episodes: the version to judge.
        reasons: of `REASONS`, one or more.
        trim_only: of idle frames mask only those before the robot begins to move and after it has
            stopped, where an episode that is idle throughout counts as both.
        spell_s: seconds that nothing moves before it counts as idle or frozen; two frames at least.
        progress: is told how many frames of how many are judged.

    Raises:
        NotFoundError: a reason is unknown (names the nearest).
        InputError: there is no reason; a reason needs a state or an action, and the set has none;
            `trim_only` without `idle`; or `spell_s` is not above 0.
    """
    wanted = tuple(dict.fromkeys(reasons))
    _check(episodes, wanted, trim_only=trim_only, spell_s=spell_s)
    states, actions = features_of(episodes)
    features = [*states, *actions]
    scales = scales_of(episodes, features) if features else {}
    rows = episodes.episodes.scan(["embodiment", "fps"]).read_all()
    robots = np.array([name or "" for name in rows["embodiment"].to_pylist()], object)
    fps = rows["fps"].to_numpy()
    lengths = episodes.index.lengths
    parts, unjudged, done = [MASK_SPANS.empty_table()], 0, 0
    for part in batches(lengths, sum(feature.num_elements for feature in features)):
        numbers = np.arange(part.start, part.stop)
        frames = read_frames(episodes, numbers, features)
        for group in alike(robots[part], fps[part], frames):
            own, at = frames.of(group), numbers[group]
            scale = scales.get(robots[at[0]], {})
            state, action = (signal_of(own, each, scale) for each in (states, actions))
            both = [each for each in (state, action) if each is not None]
            moving = both[0] if len(both) == 1 else beside(*both) if both else None
            judged = _Judged(own.starts, own.timestamps, float(fps[at[0]]), spell_s, state, moving)
            ids = episodes.index.episode_ids.take(pa.array(at))
            for reason in wanted:
                found = _RULES[reason](judged)
                if found is None:
                    unjudged += len(at)
                else:
                    ends_only = trim_only and reason == "idle"
                    parts.append(_spans(found, own.starts, ids, reason, ends_only=ends_only))
        done += int(lengths[part].sum())
        if progress is not None:
            progress(done, int(lengths.sum()))
    parameters: dict[str, object] = {
        "robot_masks": _VERSION,
        "reasons": list(wanted),
        "trim_only": trim_only,
        "spell_s": spell_s,
        # Episodes that lack what a reason is told from, counted once a reason.
        "num_not_judged": unjudged,
    }
    return Mask.of(episodes, pa.concat_tables(parts), reasons=wanted, parameters=parameters)


def _check(
    episodes: EpisodeSet, reasons: Sequence[str], *, trim_only: bool, spell_s: float
) -> None:
    if not reasons:
        raise InputError("A mask needs a reason", expected=", ".join(REASONS))
    for reason in reasons:
        if reason not in REASONS:
            raise NotFoundError(
                f"Frames are not masked for {reason!r}",
                expected=", ".join(REASONS),
                fix=nearest(reason, REASONS),
            )
    if trim_only and "idle" not in reasons:
        raise InputError(
            "Trimming concerns idle frames",
            expected="idle among the reasons",
            found=", ".join(reasons),
            fix="Add idle, or leave out trim_only (--trim-only)",
        )
    if not spell_s > 0:
        raise InputError("A spell has a length", expected="seconds above 0", found=f"{spell_s:g}")
    states, actions = features_of(episodes)
    of_state = [reason for reason in reasons if reason == "frozen"]
    of_motion = [reason for reason in reasons if reason not in ("frozen", "gap", "backward")]
    if (of_state and not states) or (of_motion and not states and not actions):
        raise InputError(
            "The set lacks what frames are judged by",
            where=episodes.name,
            expected="numeric features observation.state, observation.state.*, action, …",
            found=", ".join(feature.name for feature in episodes.features) or "no features",
            fix="Rename the features: datalake episodes rename-feature; or leave out "
            + ", ".join([*of_state, *of_motion]),
        )


def _lasting(found: Flags, judged: _Judged, least: int) -> _Found:
    """Runs whose value is how long they last."""
    runs = lengths_of_runs(found, judged.starts)
    return _Found(found, runs / judged.fps, least / judged.fps)


def _spans(
    found: _Found, starts: Places, ids: pa.StringArray, reason: str, *, ends_only: bool
) -> pa.Table:
    """The runs of flagged frames as rows of a mask.

    Args:
        found: of the frames of some episodes.
        starts: where each begins.
        ids: of the episodes.
        reason: of all spans.
        ends_only: leave out runs that touch neither end of their episode.
    """
    lengths = lengths_of_runs(found.flags, starts)
    owner = owners(starts)
    is_first = found.flags.copy()
    is_first[1:] &= ~found.flags[:-1] | (owner[1:] != owner[:-1])
    begins = np.flatnonzero(is_first)
    ends = begins + lengths[begins]
    if ends_only:
        kept = (begins == starts[owner[begins]]) | (ends == starts[owner[begins] + 1])
        begins, ends = begins[kept], ends[kept]
    of = owner[begins]
    values = _largest(found.values, begins, ends)
    return pa.table(
        {
            "episode_id": ids.take(pa.array(of)),
            "from_frame": begins - starts[of],
            "to_frame": ends - starts[of],
            "reason": pa.array([reason] * len(begins), pa.string()),
            "value": pa.array(values, pa.float64(), mask=np.isnan(values)),
            "threshold": pa.array(
                np.full(len(begins), found.threshold), pa.float64(), from_pandas=True
            ),
        },
        schema=MASK_SPANS,
    )


def _largest(values: Numbers, begins: Places, ends: Places) -> Numbers:
    """The largest value of each span, (num_spans,)."""
    lengths = ends - begins
    places = np.concatenate([[0], np.cumsum(lengths)])
    inside = np.arange(places[-1]) + np.repeat(begins - places[:-1], lengths)
    largest: Numbers = reduced(np.maximum, values[inside], places, np.nan)
    return largest
