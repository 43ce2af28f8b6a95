"""One recording as an episode: its messages gathered by topic and taken at a common rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.encoded_pictures import shape_among
from connectors.frame_arrays import number_column
from connectors.mcap.channels import Channel, Decode, decoder_of
from connectors.mcap.message_fields import Fields, stamp_of
from connectors.mcap.pictures import picture_of
from connectors.mcap.plan import Camera, Plan, Source, Vector
from connectors.mcap.records import Message, read_messages
from connectors.mcap.resampling import Taken, Times, grid_of, interpolated, take
from connectors.refused import RefusedError
from connectors.tree import Tree
from datalake.quarantine import Reason
from datalake.recording import EpisodeData, EpisodeRef, Feature

__all__ = ["read_recording"]

_MOST_FRAMES: Final = 10_000_000


@dataclass
class _Track:
    """The messages of one topic."""

    channel: Channel
    decode: Decode
    times: list[int] = field(default_factory=list)
    values: dict[str, list[Any]] = field(default_factory=dict)
    """Of each field that is read, one a message; pictures under the empty name."""
    held: dict[str, dict[str, tuple[int, Any]]] = field(default_factory=dict)
    """Of each field of joints that come in turn: when each joint came last, and its value."""
    lags_s: list[float] = field(default_factory=list)
    num_unstamped: int = 0
    num_late: int = 0
    """Messages that lay after one of a later time."""

    def in_order(self) -> Times:
        """The times, ascending; values are put in the same order."""
        times = np.asarray(self.times, np.int64)
        self.num_late = int(np.count_nonzero(times[1:] < np.maximum.accumulate(times)[:-1]))
        if self.num_late:
            order = np.argsort(times, kind="stable")
            times = times[order]
            self.values = {
                name: [listed[index] for index in order] for name, listed in self.values.items()
            }
        return times


def read_recording(ref: EpisodeRef, tree: Tree, paths: Sequence[str], plan: Plan) -> EpisodeData:
    """The episode of a recording.

    Memory: the numbers of the recording, and its pictures as encoded bytes.

    Raises:
        RefusedError: it is damaged, lacks a topic of the plan or has gaps.
        NotFoundError: a file is not there.
    """
    tracks, salvaged = _gather(tree, paths, plan)
    times = {topic: track.in_order() for topic, track in tracks.items()}
    _refuse_endless(times, plan.fps)
    grid = grid_of(
        times[plan.reference],
        [found[0] for topic, found in times.items() if topic in plan.framed],
        [times[topic][-1] for topic in plan.main],
        plan.fps,
        plan.rule,
    )
    if not len(grid):
        raise RefusedError(Reason.EMPTY, _no_time_in_common(times))
    taken = {topic: take(found, grid, plan.rule, plan.max_age_s) for topic, found in times.items()}
    if not plan.keep_gaps:
        _refuse_gaps(taken, plan)
    columns: dict[str, pa.Array] = {}
    features: list[Feature] = []
    for vector in plan.vectors:
        columns[vector.feature.name] = _values(vector, tracks, taken, times, grid, plan.rule)
        features.append(vector.feature)
    for camera in plan.cameras:
        index = taken[camera.topic].index
        feature, column = _pictures(camera, tracks[camera.topic], index)
        columns[feature.name] = column
        features.append(feature)
    tasks = {0: plan.task_text} if plan.task_text else {}
    frames = pa.table({name: columns[name] for name in sorted(columns)})
    if plan.task:
        texts = pa.array(_texts(plan.task, tracks, taken), pa.string()).dictionary_encode()
        tasks = dict(enumerate(texts.dictionary.to_pylist()))
        frames = frames.append_column("task_index", texts.indices.cast(pa.int64()))
    seconds = np.arange(len(grid)) / plan.fps
    return EpisodeData(
        ref,
        frames.add_column(0, "timestamp", pa.array(seconds)),
        tuple(sorted(features, key=lambda feature: feature.name)),
        tasks=tasks,
        metadata=_metadata(plan, tracks, taken, grid, salvaged),
    )


# Gathering ----------------------------------------------------------------------------------------


def _gather(tree: Tree, paths: Sequence[str], plan: Plan) -> tuple[dict[str, _Track], str | None]:
    """The messages by topic, and why reading ended early if it did and that is allowed."""
    wanted = _fields_by_topic(plan)
    cameras = {camera.topic for camera in plan.cameras}
    tracks: dict[str, _Track] = {}
    salvaged = None
    try:
        for path in paths:
            for message in read_messages(tree, path, wanted.__contains__):
                _add(message, tracks, wanted, cameras, plan)
    except RefusedError as error:
        may_be = error.refusal.reason in (Reason.TRUNCATED, Reason.CORRUPT)
        if not (plan.salvage and may_be and any(track.times for track in tracks.values())):
            raise
        salvaged = error.refusal.detail
    for topic in sorted(wanted):
        if topic not in tracks:
            raise RefusedError(Reason.SHAPE_CHANGED, f"there is no message on {topic}")
        if not tracks[topic].times:
            raise RefusedError(Reason.SHAPE_CHANGED, f"some joints have no message on {topic}")
    return tracks, salvaged


def _fields_by_topic(plan: Plan) -> dict[str, dict[str, Source]]:
    """The fields to read of each topic, and the source whose joints put them in order."""
    found: dict[str, dict[str, Source]] = {topic: {} for topic in plan.topics}
    sources = [source for vector in plan.vectors for source in vector.sources]
    for source in (*sources, *([plan.task] if plan.task else [])):
        for name in source.fields:
            found[source.topic][name] = source
    return found


def _add(
    message: Message,
    tracks: dict[str, _Track],
    wanted: Mapping[str, Mapping[str, Source]],
    cameras: set[str],
    plan: Plan,
) -> None:
    topic = message.channel.topic
    track = tracks[topic] = _track_of(message.channel, tracks.get(topic))
    nth = len(track.times)
    recorded = message.publish_time if plan.clock == "publish" else message.log_time
    try:
        fields = track.decode(message.data)
        stamp = stamp_of(fields)
        time = stamp if plan.clock == "header" and stamp is not None else recorded
        values = {
            name: _held(track, fields, name, source, time, plan)
            if source.parts
            else _value(fields, name, source.joints)
            for name, source in wanted[topic].items()
        }
        if topic in cameras:
            values[""] = picture_of(track.channel.short_type, fields)
    except RefusedError as error:
        refusal = error.refusal
        detail = f"message {nth} of {topic}: {refusal.detail}"
        raise RefusedError(refusal.reason, detail) from error
    if any(value is None for value in values.values()):
        return
    if stamp is None:
        track.num_unstamped += 1
    else:
        track.lags_s.append((message.log_time - stamp) / 1e9)
    track.times.append(time)
    for name, value in values.items():
        track.values.setdefault(name, []).append(value)


def _track_of(channel: Channel, track: _Track | None) -> _Track:
    """The topic's messages so far; several channels may have a topic, but only one type."""
    if track is None:
        return _Track(channel, decoder_of(channel))
    if channel is not track.channel and channel != track.channel:
        if channel.type != track.channel.type:
            raise RefusedError(
                Reason.SHAPE_CHANGED,
                f"{channel.topic} has messages of {track.channel.type} and of {channel.type}",
            )
        track.channel, track.decode = channel, decoder_of(channel)
    return track


def _value(fields: Fields, name: str, joints: tuple[str, ...]) -> Any:
    if name not in fields:
        raise RefusedError(Reason.SHAPE_CHANGED, f"it has no field {name}")
    value = fields[name]
    if not joints:
        return value
    found = fields.get("name")
    if found == list(joints):
        return value
    if not isinstance(found, list) or len(found) != np.size(value):
        raise RefusedError(Reason.SHAPE_CHANGED, f"{name} has not one value for each joint")
    places = {joint: place for place, joint in enumerate(found)}
    missing = [joint for joint in joints if joint not in places]
    if missing:
        raise RefusedError(Reason.SHAPE_CHANGED, f"{name} lacks the joints {', '.join(missing)}")
    return value[[places[joint] for joint in joints]]


def _held(
    track: _Track, fields: Fields, name: str, source: Source, time: int, plan: Plan
) -> npt.NDArray[Any] | None:
    """All joints, of which a message brings some, at their latest; None: some have not come yet."""
    names = fields.get("name")
    joints = tuple(names) if isinstance(names, list) else ()
    if tuple(sorted(joints)) not in source.parts:
        return np.asarray(_value(fields, name, source.joints))
    held = track.held.setdefault(name, {})
    values = _value(fields, name, joints)
    if np.size(values) != len(joints):
        raise RefusedError(Reason.SHAPE_CHANGED, f"{name} has not one value for each joint")
    held.update((joint, (time, value)) for joint, value in zip(joints, values, strict=True))
    if len(held) < len(source.joints):
        return None
    oldest = min(source.joints, key=lambda joint: held[joint][0])
    age_s = (time - held[oldest][0]) / 1e9
    if age_s > plan.max_age_s and not plan.keep_gaps:
        raise RefusedError(
            Reason.FRAME_GAP,
            f"{name} of the joint {oldest} is {age_s:.3f} s old (options max_age and gaps=keep)",
        )
    return np.array([held[joint][1] for joint in source.joints], values.dtype)


# Taking -------------------------------------------------------------------------------------------


def _no_time_in_common(times: Mapping[str, Times]) -> str:
    last_start = max(times, key=lambda topic: int(times[topic][0]))
    first_end = min(times, key=lambda topic: int(times[topic][-1]))
    seconds = (int(times[last_start][0]) - int(times[first_end][-1])) / 1e9
    return (
        f"the topics have no time in common: {last_start} begins {seconds:.3f} s after the end of"
        f" {first_end}"
    )


def _refuse_endless(times: Mapping[str, Times], fps: float) -> None:
    """Refuse times so far apart that no recording has them: a damaged one costs all memory."""
    first = min(int(found[0]) for found in times.values())
    last_of = {topic: int(found[-1]) for topic, found in times.items()}
    topic = max(last_of, key=lambda topic: last_of[topic])
    seconds = (last_of[topic] - first) / 1e9
    if seconds * fps > _MOST_FRAMES:
        raise RefusedError(
            Reason.BAD_TIMESTAMPS,
            f"the last message of {topic} comes {seconds:.0f} s after the first message of all",
        )


def _refuse_gaps(taken: Mapping[str, Taken], plan: Plan) -> None:
    for topic in plan.main:
        frame = taken[topic].first_stale
        if frame is not None:
            raise RefusedError(
                Reason.FRAME_GAP,
                f"frame {frame} has no message of {topic} within {plan.max_age_s:g} s; the longest"
                f" wait is {taken[topic].max_age_s:.3f} s (options max_age and gaps=keep)",
            )


def _values(
    vector: Vector,
    tracks: Mapping[str, _Track],
    taken: Mapping[str, Taken],
    times: Mapping[str, Times],
    grid: Times,
    rule: str,
) -> pa.Array:
    feature = vector.feature
    if feature.dtype == "string":
        return pa.array(_texts(vector.sources[0], tracks, taken), pa.string())
    parts = []
    for source in vector.sources:
        for name in source.fields:
            values = _stacked(tracks[source.topic].values[name], source.topic, name)
            if rule == "interpolate" and values.dtype.kind == "f":
                parts.append(interpolated(times[source.topic], values, grid))
            else:
                parts.append(values[taken[source.topic].index])
    whole = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    if whole.shape[1] != feature.num_elements or whole.dtype.name != feature.dtype:
        found = f"{whole.shape[1]} values of {whole.dtype}"
        raise RefusedError(
            Reason.SHAPE_CHANGED,
            f"{feature.name} has {found}, not {feature.num_elements} of {feature.dtype}",
        )
    return number_column(whole, feature)


def _stacked(values: Sequence[Any], topic: str, name: str) -> npt.NDArray[Any]:
    """All messages' values: (messages, n)."""
    size = np.size(values[0])
    for nth, value in enumerate(values):
        if not isinstance(value, np.ndarray) or value.size != size:
            found = f"{np.size(value)} values" if isinstance(value, np.ndarray) else "no numbers"
            raise RefusedError(
                Reason.SHAPE_CHANGED,
                f"message {nth} of {topic} has {found} in {name}, the first had {size}",
            )
    return np.stack(values).reshape(len(values), size)


def _texts(source: Source, tracks: Mapping[str, _Track], taken: Mapping[str, Taken]) -> list[str]:
    values = tracks[source.topic].values[source.fields[0]]
    return [str(values[index]) for index in taken[source.topic].index]


def _pictures(
    camera: Camera, track: _Track, index: npt.NDArray[np.int64]
) -> tuple[Feature, pa.Array]:
    pictures = track.values[""]
    shape = shape_among(pictures[:8]) or camera.feature.shape
    column = pa.array([pictures[nth] for nth in index], pa.large_binary())
    return replace(camera.feature, shape=shape), column


def _metadata(
    plan: Plan,
    tracks: Mapping[str, _Track],
    taken: Mapping[str, Taken],
    grid: Times,
    salvaged: str | None,
) -> dict[str, Any]:
    topics = {}
    for topic in sorted(tracks):
        track = tracks[topic]
        said = {"type": track.channel.type, **taken[topic].as_dict(), "num_late": track.num_late}
        if track.lags_s:
            said["median_stamp_lag_s"] = round(float(np.median(track.lags_s)), 9)
        if plan.clock == "header":
            said["num_unstamped"] = track.num_unstamped
        topics[topic] = said
    found: dict[str, Any] = {
        "clock": plan.clock,
        "resample": plan.rule,
        "reference": plan.reference,
        "start_time_ns": int(grid[0]),
        "topics": topics,
    }
    return found if salvaged is None else {**found, "salvaged": salvaged}
