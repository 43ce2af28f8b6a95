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
    picture: bytes | None = None
    fault: str | None = None
    """Why messages cannot be read."""
    is_steady: bool = True
    """Whether a message comes every second at least, by the median interval."""
    begins_s: float = 0.0
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
            if len(sample.times) <= _ENOUGH:
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
    if (stamp := stamp_of(fields)) is not None:
        sample.stamp_lags_s.append((log_time - stamp) / 1e9)


def _is_enough(found: dict[str, Sample], num_messages: int, num_bytes: int) -> bool:
    is_known = all(len(sample.times) >= _ENOUGH for sample in found.values())
    return is_known or num_messages >= _MOST_MESSAGES or num_bytes >= _MOST_BYTES


def _mark_steady(found: dict[str, Sample]) -> None:
    first = min((min(sample.times) for sample in found.values()), default=0)
    for sample in found.values():
        steps = np.diff(np.sort(np.asarray(sample.times, np.int64)))
        sample.is_steady = len(steps) > 1 and float(np.median(steps)) <= _SLOWEST_NS
        sample.begins_s = (min(sample.times) - first) / 1e9
