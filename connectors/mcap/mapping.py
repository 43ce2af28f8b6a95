"""Which topic becomes which feature: what the options say, and else what topics look like."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from connectors.mcap.cameras import find_cameras
from connectors.mcap.message_fields import Nanoseconds
from connectors.mcap.plan import Camera, Source, Vector
from connectors.mcap.sampling import Sample
from datalake.errors import ConfigError, nearest
from datalake.recording import Feature

__all__ = ["Mapped", "map_topics", "task_source"]

_ACTION: Final = re.compile(
    r"action|cmd|command|target|desired|goal|setpoint|leader|master|teleop|control"
)
_STATE: Final = re.compile(r"state|proprio|qpos|joint|position|observation")
# The array that is a topic's value, the likeliest first.
_MAIN_FIELDS: Final = (
    *("position", "positions", "joint_positions", "q", "qpos", "data", "values", "value"),
    *("action", "actions", "state", "points.positions"),
)
_LEFT_OUT: Final = re.compile(
    r"tf2_msgs/|rcl_interfaces/|rosgraph_msgs/|diagnostic_msgs/|visualization_msgs/|rosbag2_"
    r"|/(CameraInfo|PointCloud2?|LaserScan|OccupancyGrid|Log|CameraCalibration|FrameTransforms?"
    r"|SceneUpdate|Grid|CompressedVideo|ImageAnnotations)$"
)
_NO_VALUES: Final = re.compile(r"^header\.|^layout\.|(^|\.)frame_id$")
_MOST_ELEMENTS: Final = 4096
_LATEST_BEGIN_S: Final = 1.0


@dataclass(frozen=True)
class Mapped:
    """Features and their topics."""

    vectors: tuple[Vector, ...]
    cameras: tuple[Camera, ...]
    main: frozenset[str]
    reference: str
    """The slowest camera; without one the topic of the state, or of the action."""
    notes: tuple[str, ...]
    """What was chosen that no option says, as sentences."""
    left_out: Mapping[str, str]
    """Why each other topic is no feature."""


def map_topics(samples: Mapping[str, Sample], options: Mapping[str, str]) -> Mapped:
    """The features of a recording.

    Raises:
        ConfigError: an option names a topic or a field that there is not.
    """
    notes: list[str] = []
    left_out = {topic: sample.fault for topic, sample in samples.items() if sample.fault}
    cameras = list(find_cameras(samples, options, left_out, notes))
    action = _vector("action", samples, options, _ACTION, None, notes)
    state = _vector("observation.state", samples, options, _STATE, action, notes)
    vectors = [vector for vector in (state, action) if vector]
    taken = {(s.topic, name) for vector in vectors for s in vector.sources for name in s.fields}
    main = frozenset(topic for topic, _ in taken) | {camera.topic for camera in cameras}
    for topic in sorted(set(samples) - {camera.topic for camera in cameras} - set(left_out)):
        why = _why_not(topic, samples[topic], options, main)
        if why:
            left_out[topic] = why
            continue
        vectors += _others(topic, samples[topic], taken, notes)
    for vector in vectors:
        main |= (
            {s.topic for s in vector.sources} if vector.feature.name == "action" else frozenset()
        )
    notes += [
        f"{topic} has messages of {' and of '.join(str(len(part)) for part in sample.parts)} joints"
        " in turn: a frame takes the latest of each"
        for topic, sample in sorted(samples.items())
        if sample.parts
    ]
    used = main | {s.topic for vector in vectors for s in vector.sources}
    names = [vector.feature.name for vector in vectors]
    names += [camera.feature.name for camera in cameras]
    for name in {name for name in names if names.count(name) > 1}:
        raise ConfigError(
            f"Two topics would become the feature {name}",
            fix="Name cameras with camera.<name>=/topic, and limit the others with topics=",
        )
    reference = _reference(samples, cameras, vectors)
    return Mapped(
        tuple(vectors),
        tuple(cameras),
        main or frozenset({reference} if reference else ()),
        reference,
        tuple(notes),
        {topic: why for topic, why in left_out.items() if topic not in used},
    )


def _asked(text: str, samples: Mapping[str, Sample]) -> Source:
    """The source that `/topic` or `/topic:field` names.

    Raises:
        ConfigError: there is no such topic or field, or it cannot be read.
    """
    topic, _, wanted = text.strip().partition(":")
    sample = samples.get(topic)
    if sample is None:
        raise ConfigError(f"There is no topic {topic!r}", fix=nearest(topic, samples))
    if sample.fault:
        raise ConfigError(f"The topic {topic} cannot be read", found=sample.fault)
    fields = _numeric(sample)
    if wanted and wanted not in sample.fields:
        raise ConfigError(
            f"The topic {topic} has no field {wanted!r}", fix=nearest(wanted, sample.fields)
        )
    if wanted:
        return _source(sample, (wanted,))
    if (source := _main_source(sample)) is None:
        raise ConfigError(f"The topic {topic} has no numbers", found=", ".join(fields) or "none")
    return source


def task_source(text: str, samples: Mapping[str, Sample]) -> Source:
    """The text that `/topic:field` names; without a field the topic's only text.

    Raises:
        ConfigError: there is no such topic, or no such text.
    """
    topic, _, wanted = text.strip().partition(":")
    if topic not in samples:
        raise ConfigError(f"There is no topic {topic!r}", fix=nearest(topic, samples))
    texts = [
        name
        for name, value in samples[topic].fields.items()
        if isinstance(value, str) and not _NO_VALUES.search(name)
    ]
    if not wanted and len(texts) == 1:
        wanted = texts[0]
    if wanted not in texts:
        raise ConfigError(f"The topic {topic} has no text {wanted!r}", fix=nearest(wanted, texts))
    return Source(topic, (wanted,))


# Numbers ------------------------------------------------------------------------------------------


def _vector(
    name: str,
    samples: Mapping[str, Sample],
    options: Mapping[str, str],
    looks_like: re.Pattern[str],
    other: Vector | None,
    notes: list[str],
) -> Vector | None:
    option = name.rpartition(".")[2]
    if option in options:
        asked = [part for part in options[option].split(",") if part.strip()]
        return _joined(name, [_asked(part, samples) for part in asked], samples)
    used = {source.topic for source in other.sources} if other else set()
    found = []
    for topic, sample in samples.items():
        is_other = topic in used or (name != "action" and _ACTION.search(topic.lower()))
        if sample.fault or sample.is_camera or is_other or not sample.is_steady:
            continue
        if not looks_like.search(topic.lower()) or _LEFT_OUT.search(sample.channel.short_type):
            continue
        source = _main_source(sample)
        if source is not None:
            is_joints = sample.channel.short_type == "sensor_msgs/JointState"
            found.append((not is_joints, len(topic), topic, source))
    if not found:
        notes.append(f"no topic looks like {name}: the option {option} names one")
        return None
    found.sort(key=lambda each: each[:3])
    source = found[0][3]
    others = f", out of {', '.join(each[2] for each in found)}" if len(found) > 1 else ""
    notes.append(f"{name} is {source}{others} (option {option})")
    return _joined(name, [source], samples)


def _joined(name: str, sources: Sequence[Source], samples: Mapping[str, Sample]) -> Vector:
    values, names = [], []
    for source in sources:
        sample = samples[source.topic]
        for field in source.fields:
            value = sample.fields[field]
            if not isinstance(value, np.ndarray):
                raise ConfigError(f"The field {field} of {source.topic} is no number")
            values.append(value.reshape(-1))
            names += _element_names(source, field, value)
    if len(set(names)) != len(names):
        names = [f"{index}" for index in range(len(names))]
    whole = np.concatenate(values) if values else np.empty(0)
    if not whole.size:
        raise ConfigError(f"The topics of {name} hold no number in their first message")
    feature = Feature(name, whole.dtype.name, whole.shape, tuple(names))
    return Vector(feature, tuple(sources))


def _element_names(source: Source, field: str, value: np.ndarray) -> list[str]:
    if value.ndim == 0:
        return [field]
    if source.joints and len(source.joints) == len(value):
        return list(source.joints)
    return [f"{field}.{index}" for index in range(len(value))]


def _main_source(sample: Sample) -> Source | None:
    """A topic's value: its main array, its only array, or all of its numbers one after another."""
    numeric = _numeric(sample)
    arrays = [name for name in numeric if sample.fields[name].ndim]
    for name in _MAIN_FIELDS:
        if name in numeric and sample.fields[name].size:
            return _source(sample, (name,))
    if len(arrays) == 1:
        return _source(sample, (arrays[0],))
    scalars = tuple(name for name in numeric if not sample.fields[name].ndim)
    return _source(sample, scalars) if scalars else None


def _source(sample: Sample, fields: tuple[str, ...]) -> Source:
    joints = sample.fields.get("name")
    is_joints = isinstance(joints, list) and all(
        np.size(sample.fields[name]) == len(joints) for name in fields
    )
    if not joints or not is_joints:
        return Source(sample.channel.topic, fields)
    return Source(sample.channel.topic, fields, tuple(joints), sample.parts)


def _numeric(sample: Sample) -> list[str]:
    return [
        name
        for name, value in sample.fields.items()
        if isinstance(value, np.ndarray)
        and 0 < value.size <= _MOST_ELEMENTS
        and not _NO_VALUES.search(name)
    ]


def _others(
    topic: str, sample: Sample, taken: set[tuple[str, str]], notes: list[str]
) -> Iterator[Vector]:
    """Each field of a topic that is a number, an array of numbers or a text.

    NaN in the first message stands for what a robot does not have, such as joints without effort in
    ROS 2's joint_state_broadcaster.
    """
    for name, value in sample.fields.items():
        if (topic, name) in taken or _NO_VALUES.search(name) or isinstance(value, Nanoseconds):
            continue
        feature_name = f"observation.{topic.strip('/').replace('/', '.')}.{name}"
        if isinstance(value, str):
            source = Source(topic, (name,))
            yield Vector(Feature(feature_name, "string", (1,)), (source,))
        elif name in _numeric(sample):
            if np.isnan(value.astype(np.float64)).any():
                notes.append(f"{topic}:{name} is left out: its first message holds NaN")
                continue
            source = _source(sample, (name,))
            names = tuple(_element_names(source, name, value)) if value.ndim else ()
            shape = value.shape or (1,)
            yield Vector(Feature(feature_name, value.dtype.name, shape, names), (source,))


def _why_not(
    topic: str, sample: Sample, options: Mapping[str, str], main: frozenset[str]
) -> str | None:
    """Why a topic that was not asked for is left out; None: it is taken."""
    if "topics" in options:
        patterns = [part.strip() for part in options["topics"].split(",")]
        if any(fnmatch.fnmatch(topic, pattern) for pattern in patterns):
            return None
        return "the option topics does not name it"
    if sample.is_camera:
        return "the option camera.<name> names others"
    if _LEFT_OUT.search(sample.channel.short_type):
        return f"{sample.channel.short_type} is no state of a robot"
    if topic not in main and not sample.is_steady:
        return "it has less than a message a second"
    if topic not in main and sample.begins_s > _LATEST_BEGIN_S:
        return f"it begins {sample.begins_s:.1f} s after the others, and frames begin with all"
    if not any(not _NO_VALUES.search(name) for name in sample.fields):
        return "its messages hold no value"
    return None


def _reference(
    samples: Mapping[str, Sample], cameras: Sequence[Camera], vectors: Sequence[Vector]
) -> str:
    if cameras:
        rates = {camera.topic: _interval_s(samples[camera.topic]) for camera in cameras}
        return max(sorted(rates), key=lambda topic: rates[topic])
    for name in ("observation.state", "action"):
        for vector in vectors:
            if vector.feature.name == name:
                return vector.sources[0].topic
    return vectors[0].sources[0].topic if vectors else ""


def _interval_s(sample: Sample) -> float:
    steps = np.diff(np.sort(np.asarray(sample.times)))
    return float(np.median(steps)) / 1e9 if len(steps) else 0.0
