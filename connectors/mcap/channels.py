"""Channels of a recording: a topic, what its messages are, and how they are decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from connectors.mcap.json_messages import decode_json, json_types
from connectors.mcap.message_fields import Fields
from connectors.mcap.protobuf_messages import fields_of_protobuf
from connectors.mcap.ros2_cdr import decode_cdr
from connectors.mcap.ros2_definitions import parse_definitions
from connectors.refused import RefusedError
from datalake.errors import MissingPackageError
from datalake.quarantine import Reason

__all__ = ["Channel", "Decode", "decoder_of"]

Decode: TypeAlias = Callable[[bytes], Fields]
"""Raises RefusedError for bytes that are no such message."""

_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Channel:
    """A topic and the type of its messages."""

    topic: str
    encoding: str
    """cdr, json or protobuf; others are not decoded."""
    type: str
    """The name of the schema, such as `sensor_msgs/msg/JointState`; empty without one."""
    schema_encoding: str
    schema: bytes

    @property
    def short_type(self) -> str:
        """The type in one spelling: `sensor_msgs/JointState`, `foxglove/CompressedImage`."""
        parts = self.type.replace(".", "/").split("/")
        return f"{parts[0]}/{parts[-1]}".replace("foxglove_msgs/", "foxglove/")


def decoder_of(channel: Channel) -> Decode:
    """What makes fields of the channel's messages.

    Raises:
        RefusedError: the encoding or the schema is not supported.
        MissingPackageError: mcap-protobuf-support is not installed.
    """
    if channel.encoding == "json":
        types = json_types(channel.schema) if channel.schema_encoding == "jsonschema" else {}
        return lambda data: decode_json(data, types)
    if channel.encoding == "cdr" and channel.schema_encoding == "ros2msg":
        text = channel.schema[:_MOST_BYTES].decode("utf-8", "replace")
        own, definitions = parse_definitions(channel.type, text)
        return lambda data: decode_cdr(data, own, definitions)
    if channel.encoding == "protobuf" and channel.schema_encoding == "protobuf":
        return _protobuf(channel)
    raise RefusedError(
        Reason.UNSUPPORTED,
        f"messages are {channel.encoding or 'nothing named'} with a schema in"
        f" {channel.schema_encoding or 'nothing named'}; read are cdr with ros2msg, json and"
        " protobuf",
    )


def _protobuf(channel: Channel) -> Decode:
    try:
        from google.protobuf.message import DecodeError
        from mcap.exceptions import McapError
        from mcap.records import Schema
        from mcap_protobuf.decoder import DecoderFactory
    except ImportError as error:
        raise MissingPackageError.of(
            "mcap-protobuf-support", "robot", "Reading protobuf messages"
        ) from error
    schema = Schema(id=1, name=channel.type, encoding="protobuf", data=channel.schema)
    try:
        found = DecoderFactory().decoder_for("protobuf", schema)
    except (McapError, DecodeError, TypeError, ValueError, KeyError) as error:
        raise RefusedError(
            Reason.UNSUPPORTED, f"the schema of {channel.type} cannot be used: {error}"
        ) from error
    assert found is not None
    decode: Callable[[bytes], Any] = found

    def fields(data: bytes) -> Fields:
        try:
            return fields_of_protobuf(decode(data))
        except DecodeError as error:
            raise RefusedError(
                Reason.CORRUPT, f"a message is no {channel.type}: {error}"
            ) from error

    return fields
