"""A look at the beginning of a recording: its topics, how fast they are, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from connectors.mcap.channels import Channel, Decode, decoder_of
from connectors.mcap.message_fields import Fields, stamp_of
from connectors.mcap.pictures import COMPRESSED, RAW, picture_of
from connectors.mcap.records import read_messages
from connectors.refused import RefusedError
from connectors.tree import Tree

__all__ = ["Sample", "sample_recording"]

_MOST_MESSAGES: Final = 20_000
_MOST_BYTES: Final = 256 << 20
_SLOWEST_NS: Final = 1_000_000_000
_JOINTS: Final = "sensor_msgs/JointState"
_ENOUGH: Final = 40
"""Messages of a topic from which its rate is known."""


@dataclass
class Sample:
    """A topic, and what its first messages say."""

    channel: Channel
    times: list[int] = field(default_factory=list)
    """When the first messages were recorded, in nanoseconds."""
    stamp_lags_s: list[float] = field(default_factory=list)
    """How much later each was recorded than its own stamp says."""
    fields: Fields = field(default_factory=dict)
    """Of the first message."""
    joint_sets: dict[frozenset[str], list[Fields]] = field(default_factory=dict, repr=False)
    """The first two messages of each set of joints that messages name."""
    picture: bytes | None = None
    fault: str | None = None
    """Why messages cannot be read."""
    is_steady: bool = True
    """Whether a message comes every second at least, by the median interval."""
    begins_s: float = 0.0
    parts: tuple[tuple[str, ...], ...] = ()
    """The joints of each of several nodes that publish in turn; empty where all are in each."""
    """How long after the first message of all the topic's first comes."""

    @property
    def is_camera(self) -> bool:
        """Whether messages are single pictures."""
        return self.channel.short_type in COMPRESSED | RAW


def sample_recording(tree: Tree, paths: Sequence[str]) -> dict[str, Sample]:
    """The topics of a recording. Reads until the rates of all are known, or some 20,000 messages.

    Raises:
        RefusedError: the recording is damaged before any message.
        NotFoundError: a file is not there.
    """
    found: dict[str, Sample] = {}
    try:
        _scan(tree, paths, found)
    except RefusedError:
        if not found:
            raise
    _mark_steady(found)
    for sample in found.values():
        _join_parts(sample)
    return found


def _scan(tree: Tree, paths: Sequence[str], found: dict[str, Sample]) -> None:
    decoders: dict[str, Decode | None] = {}
    num_messages = num_bytes = 0
    for path in paths:
        for message in read_messages(tree, path, lambda _: True):
            num_messages += 1
            num_bytes += len(message.data)
            topic = message.channel.topic
            sample = found.setdefault(topic, Sample(message.channel))
            if topic not in decoders:
                decoders[topic] = _decoder(sample)
            sample.times.append(message.log_time)
            if len(sample.times) <= _ENOUGH or sample.channel.short_type == _JOINTS:
                _look(sample, decoders[topic], message.data, message.log_time)
            if num_messages % 256 == 0 and _is_enough(found, num_messages, num_bytes):
                return


def _decoder(sample: Sample) -> Decode | None:
    try:
        return decoder_of(sample.channel)
    except RefusedError as error:
        sample.fault = error.refusal.detail
        return None


def _look(sample: Sample, decode: Decode | None, data: bytes, log_time: int) -> None:
    if decode is None or sample.fault:
        return
    try:
        fields = decode(data)
        if not sample.fields:
            sample.fields = fields
            if sample.is_camera:
                sample.picture = picture_of(sample.channel.short_type, fields)
    except RefusedError as error:
        sample.fault = error.refusal.detail
        return
    names = fields.get("name")
    if sample.channel.short_type == _JOINTS and isinstance(names, list):
        firsts = sample.joint_sets.setdefault(frozenset(names), [])
        if len(firsts) < 2:
            firsts.append(fields)
    if (stamp := stamp_of(fields)) is not None:
        sample.stamp_lags_s.append((log_time - stamp) / 1e9)


def _is_enough(found: dict[str, Sample], num_messages: int, num_bytes: int) -> bool:
    is_known = all(len(sample.times) >= _ENOUGH for sample in found.values())
    return is_known or num_messages >= _MOST_MESSAGES or num_bytes >= _MOST_BYTES


def _join_parts(sample: Sample) -> None:
    """Make the first messages of several nodes one: an arm's and its gripper's, say.

    Each must come again and none may have a joint of another; all else is a fault of one message.
    """
    firsts = [seen[0] for seen in sample.joint_sets.values() if len(seen) > 1]
    names = [name for fields in firsts for name in fields["name"]]
    if len(firsts) < 2 or len(set(names)) != len(names):
        return
    joined = dict(firsts[0])
    for key, value in firsts[0].items():
        if not isinstance(value, np.ndarray) or value.ndim != 1:
            continue
        if all(np.size(fields[key]) == len(fields["name"]) for fields in firsts):
            joined[key] = np.concatenate([fields[key] for fields in firsts])
        else:
            del joined[key]
    joined["name"] = names
    sample.fields = joined
    sample.parts = tuple(tuple(sorted(fields["name"])) for fields in firsts)


def _mark_steady(found: dict[str, Sample]) -> None:
    first = min((min(sample.times) for sample in found.values()), default=0)
    for sample in found.values():
        steps = np.diff(np.sort(np.asarray(sample.times, np.int64)))
        sample.is_steady = len(steps) > 1 and float(np.median(steps)) <= _SLOWEST_NS
        sample.begins_s = (min(sample.times) - first) / 1e9
