"""Recordings for tests, written by the formats' own libraries: `mcap`, `rosbags`, protobuf."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from mcap.writer import CompressionType, Writer
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as BagWriter
from rosbags.typesys import Stores, get_typestore

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
STORE = get_typestore(Stores.ROS2_HUMBLE)
TYPES = STORE.types


@dataclass(frozen=True)
class Sent:
    """One message that a test sends."""

    topic: str
    time: int
    """When it is recorded, in nanoseconds."""
    value: Any
    publish_time: int | None = None


def times(rate_hz: float, seconds: float, start: int = START) -> list[int]:
    """The times of a steady topic."""
    count = round(rate_hz * seconds)
    return [start + round(nth * SECOND / rate_hz) for nth in range(count)]


def jpeg(seed: int, height: int = 12, width: int = 16) -> bytes:
    """A small picture, another one for each seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return bytes(imagecodecs.jpeg8_encode(pixels, level=80))


# ROS 2 --------------------------------------------------------------------------------------------


def header(stamp: int, frame_id: str = "base") -> Any:
    """A `std_msgs/Header`."""
    sec, nanosec = divmod(stamp, SECOND)
    time = TYPES["builtin_interfaces/msg/Time"](sec=sec, nanosec=nanosec)
    return TYPES["std_msgs/msg/Header"](stamp=time, frame_id=frame_id)


def joint_state(stamp: int, positions: Iterable[float], names: Iterable[str] | None = None) -> Any:
    """A `sensor_msgs/JointState`; velocities are the positions' doubles."""
    position = np.asarray(list(positions), np.float64)
    return TYPES["sensor_msgs/msg/JointState"](
        header=header(stamp),
        name=list(names) if names is not None else [f"j{nth}" for nth in range(len(position))],
        position=position,
        velocity=position * 2,
        effort=np.empty(0),
    )


def float_array(values: Iterable[float]) -> Any:
    """A `std_msgs/Float64MultiArray`."""
    layout = TYPES["std_msgs/msg/MultiArrayLayout"](dim=[], data_offset=0)
    data = np.asarray(list(values), np.float64)
    return TYPES["std_msgs/msg/Float64MultiArray"](layout=layout, data=data)


def compressed(stamp: int, data: bytes, kind: str = "jpeg") -> Any:
    """A `sensor_msgs/CompressedImage`."""
    octets = np.frombuffer(data, np.uint8)
    return TYPES["sensor_msgs/msg/CompressedImage"](header=header(stamp), format=kind, data=octets)


def raw_image(stamp: int, pixels: np.ndarray, encoding: str, padding: int = 0) -> Any:
    """A `sensor_msgs/Image` whose rows end with so many bytes of padding."""
    rows = np.ascontiguousarray(pixels).reshape(pixels.shape[0], -1).view(np.uint8)
    rows = np.pad(rows, [(0, 0), (0, padding)])
    return TYPES["sensor_msgs/msg/Image"](
        header=header(stamp),
        height=pixels.shape[0],
        width=pixels.shape[1],
        encoding=encoding,
        is_bigendian=0,
        step=rows.shape[1],
        data=rows.reshape(-1),
    )


def text(value: str) -> Any:
    """A `std_msgs/String`."""
    return TYPES["std_msgs/msg/String"](data=value)


def write_bag(folder: Path, sent: Iterable[Sent], *, storage: str = "mcap") -> None:
    """A rosbag2 folder, by rosbags."""
    plugin = StoragePlugin.MCAP if storage == "mcap" else StoragePlugin.SQLITE3
    with BagWriter(folder, version=9, storage_plugin=plugin) as writer:
        connections: dict[str, Any] = {}
        for message in sent:
            kind = message.value.__msgtype__
            if message.topic not in connections:
                connections[message.topic] = writer.add_connection(
                    message.topic, kind, typestore=STORE
                )
            data = STORE.serialize_cdr(message.value, kind)
            writer.write(connections[message.topic], message.time, data)


def ros_mcap(sent: Iterable[Sent], **options: Any) -> bytes:
    """One MCAP file of ROS 2 messages, by mcap."""

    def encoded() -> Iterator[tuple[Sent, str, str, bytes, bytes]]:
        for message in sent:
            kind = message.value.__msgtype__
            schema, _ = STORE.generate_msgdef(kind, ros_version=2)
            data = bytes(STORE.serialize_cdr(message.value, kind))
            yield message, kind, "ros2msg", schema.encode(), data

    return _mcap(encoded(), "cdr", **options)


# JSON and Protobuf --------------------------------------------------------------------------------


def json_mcap(
    sent: Iterable[Sent], schemas: Mapping[str, tuple[str, Any]] | None = None, **options: Any
) -> bytes:
    """One MCAP file of JSON messages; `schemas` gives a topic its type and JSON Schema."""

    def encoded() -> Iterator[tuple[Sent, str, str, bytes, bytes]]:
        for message in sent:
            name, schema = (schemas or {}).get(message.topic, ("", None))
            encoding = "jsonschema" if schema is not None else ""
            data = json.dumps(schema).encode() if schema is not None else b""
            yield message, name, encoding, data, json.dumps(message.value).encode()

    return _mcap(encoded(), "json", **options)


def json_picture(stamp: int, data: bytes) -> dict[str, Any]:
    """A `foxglove.CompressedImage` as JSON."""
    sec, nsec = divmod(stamp, SECOND)
    return {
        "timestamp": {"sec": sec, "nsec": nsec},
        "frame_id": "cam",
        "data": base64.b64encode(data).decode(),
        "format": "jpeg",
    }


JSON_PICTURE = (
    "foxglove.CompressedImage",
    {
        "type": "object",
        "properties": {
            "timestamp": {
                "type": "object",
                "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}},
            },
            "frame_id": {"type": "string"},
            "data": {"type": "string", "contentEncoding": "base64"},
            "format": {"type": "string"},
        },
    },
)


def protobuf_classes() -> dict[str, Any]:
    """`robot.State` and `foxglove.CompressedImage`, and the bytes of their descriptors."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="robot.proto", package="robot", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    pose = file.message_type.add(name="Pose")
    for number, name in enumerate(("x", "y"), start=1):
        pose.field.add(name=name, number=number, type=field.TYPE_DOUBLE, label=1)
    state = file.message_type.add(name="State")
    stamp_type = ".google.protobuf.Timestamp"
    state.field.add(name="timestamp", number=1, type=11, type_name=stamp_type, label=1)
    state.field.add(name="positions", number=2, type=field.TYPE_FLOAT, label=3)
    state.field.add(name="mode", number=3, type=field.TYPE_UINT32, label=1)
    state.field.add(name="ready", number=4, type=field.TYPE_BOOL, label=1)
    state.field.add(name="pose", number=5, type=11, type_name=".robot.Pose", label=1)
    state.field.add(name="points", number=6, type=11, type_name=".robot.Pose", label=3)
    picture = descriptor_pb2.FileDescriptorProto(
        name="picture.proto", package="foxglove", syntax="proto3"
    )
    picture.dependency.append("google/protobuf/timestamp.proto")
    image = picture.message_type.add(name="CompressedImage")
    image.field.add(name="timestamp", number=1, type=11, type_name=stamp_type, label=1)
    image.field.add(name="frame_id", number=4, type=field.TYPE_STRING, label=1)
    image.field.add(name="data", number=2, type=field.TYPE_BYTES, label=1)
    image.field.add(name="format", number=3, type=field.TYPE_STRING, label=1)
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.extend([file, picture])
    for each in files.file:
        pool.Add(each)
    names = ("robot.State", "foxglove.CompressedImage")
    found: dict[str, Any] = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names
    }
    return {**found, "schema": files.SerializeToString()}


def protobuf_mcap(sent: Iterable[Sent], schema: bytes, **options: Any) -> bytes:
    """One MCAP file of Protobuf messages."""

    def encoded() -> Iterator[tuple[Sent, str, str, bytes, bytes]]:
        for message in sent:
            name = message.value.DESCRIPTOR.full_name
            yield message, name, "protobuf", schema, message.value.SerializeToString()

    return _mcap(encoded(), "protobuf", **options)


def _mcap(
    encoded: Iterator[tuple[Sent, str, str, bytes, bytes]],
    encoding: str,
    *,
    compression: CompressionType = CompressionType.NONE,
    use_chunking: bool = True,
    chunk_size: int = 4096,
    summary: bool = True,
) -> bytes:
    sink = io.BytesIO()
    writer = Writer(
        sink,
        compression=compression,
        use_chunking=use_chunking,
        chunk_size=chunk_size,
        use_statistics=summary,
        use_summary_offsets=summary,
        repeat_channels=summary,
        repeat_schemas=summary,
    )
    writer.start(profile="ros2" if encoding == "cdr" else "", library="tests")
    schemas: dict[str, int] = {}
    channels: dict[str, int] = {}
    for number, (message, name, schema_encoding, schema, data) in enumerate(encoded):
        if message.topic not in channels:
            if name and name not in schemas:
                schemas[name] = writer.register_schema(name, schema_encoding, schema)
            channels[message.topic] = writer.register_channel(
                message.topic, encoding, schemas.get(name, 0)
            )
        writer.add_message(
            channels[message.topic],
            log_time=message.time,
            publish_time=message.publish_time or message.time,
            sequence=number,
            data=data,
        )
    writer.finish()
    return sink.getvalue()
