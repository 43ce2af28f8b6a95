"""ROS 2 messages: fields equal to those of rosbags, for every type that it knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.interfaces import Nodetype

from connectors.mcap.message_fields import Nanoseconds
from connectors.mcap.ros2_cdr import decode_cdr
from connectors.mcap.ros2_definitions import parse_definitions
from connectors.refused import RefusedError
from datalake.quarantine import Reason
from tests.connectors.robots.recordings import STORE, TYPES, joint_state

MESSAGES = sorted(name for name in STORE.fielddefs if "/msg/" in name)


def _decode(name: str, data: bytes) -> dict[str, Any]:
    text, _ = STORE.generate_msgdef(name, ros_version=2)
    return decode_cdr(data, *parse_definitions(name, text))


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("little_endian", [True, False])
def test_every_type_of_rosbags(name: str, little_endian: bool) -> None:
    random = np.random.default_rng(MESSAGES.index(name))
    message = _random(name, random)
    data = bytes(STORE.serialize_cdr(message, name, little_endian=little_endian))
    expected: dict[str, Any] = {}
    _flatten(name, message, "", expected)
    found = _decode(name, data)
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[path].dtype == value.dtype, path
            assert np.array_equal(found[path], value), path
        else:
            assert found[path] == value, path
            assert isinstance(found[path], type(value))


def _random(name: str, random: np.random.Generator) -> Any:
    _, fields = STORE.fielddefs[name]
    return TYPES[name](**{key: _value(spec, random) for key, spec in fields})


def _value(spec: Any, random: np.random.Generator) -> Any:
    kind, detail = spec
    if kind == Nodetype.NAME:
        return _random(detail, random)
    if kind == Nodetype.BASE:
        return _base(detail[0], random)
    inner, size = detail
    count = size if kind == Nodetype.ARRAY else int(random.integers(0, 4))
    values = [_value(inner, random) for _ in range(count)]
    is_numbers = inner[0] == Nodetype.BASE and inner[1][0] != "string"
    return np.array(values, _dtype(inner[1][0])) if is_numbers else values


def _base(kind: str, random: np.random.Generator) -> Any:
    if kind == "string":
        return ["", "a", "größe", "x" * 9][random.integers(4)]
    dtype = np.dtype(_dtype(kind))
    if dtype.kind == "b":
        return bool(random.integers(2))
    if dtype.kind == "f":
        return float(dtype.type(random.standard_normal()))
    return int(random.integers(0, 100))


def _dtype(kind: str) -> str:
    return {"octet": "uint8", "byte": "uint8", "char": "uint8"}.get(kind, kind)


def _flatten(name: str, message: Any, prefix: str, found: dict[str, Any]) -> None:
    for key, (kind, detail) in STORE.fielddefs[name][1]:
        value, path = getattr(message, key), prefix + key
        if key == "structure_needs_at_least_one_member":
            continue
        if kind == Nodetype.BASE:
            is_text = detail[0] == "string"
            found[path] = value if is_text else np.array(value, _dtype(detail[0]))
        elif kind == Nodetype.NAME and detail.endswith(("/Time", "/Duration")):
            found[path] = Nanoseconds(value.sec * 1_000_000_000 + value.nanosec)
        elif kind == Nodetype.NAME:
            _flatten(detail, value, f"{path}.", found)
        elif detail[0][0] == Nodetype.BASE:
            found[path] = value
        else:
            rows = []
            for each in value:
                row: dict[str, Any] = {}
                _flatten(detail[0][1], each, f"{path}.", row)
                rows.append(row)
            for inner in rows[0] if rows else ():
                values = [row[inner] for row in rows if inner in row]
                if isinstance(values[0], Nanoseconds):
                    continue
                if isinstance(values[0], str):
                    found[inner] = values
                elif isinstance(values[0], list):
                    found[inner] = [text for texts in values for text in texts]
                else:
                    found[inner] = np.concatenate([np.atleast_1d(value) for value in values])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_message_that_ends_early_is_refused(data: st.DataObject) -> None:
    name = "sensor_msgs/msg/JointState"
    whole = bytes(STORE.serialize_cdr(joint_state(5, [1.0, 2.0, 3.0]), name))
    cut = data.draw(st.integers(0, len(whole) - 5))
    with pytest.raises(RefusedError):
        _decode(name, whole[:cut])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused_or_read_and_never_a_crash(noise: bytes) -> None:
    try:
        _decode("sensor_msgs/msg/JointState", b"\0\1\0\0" + noise)
    except RefusedError:
        return


DEFINITION = """
# A comment with = signs ====
uint8 MODE_A=1          # a constant
string NAME="a # b"
float32[3] fixed        # three
float64[<=4] bounded
string<=10 short "x"
int32 number 7
Inner[] inner
Header header
geometry_msgs/msg/Point point
===============
MSG: mine_msgs/Inner
bool[2] flags
byte octet
char letter
===
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
=====
MSG: geometry_msgs/Point
float64 x
"""


def test_definitions_are_read_as_they_are_written() -> None:
    own, definitions = parse_definitions("mine_msgs/msg/Mine", DEFINITION)
    assert own == "mine_msgs/Mine"
    members = {member.name: member for member in definitions[own]}
    assert list(members) == [
        *("fixed", "bounded", "short", "number", "inner", "header", "point"),
    ]
    assert (members["fixed"].is_array, members["fixed"].size) == (True, 3)
    assert (members["bounded"].is_array, members["bounded"].size) == (True, None)
    assert members["inner"].type == "mine_msgs/Inner"
    assert members["header"].type == "std_msgs/Header"
    assert members["point"].type == "geometry_msgs/Point"


@pytest.mark.parametrize("text", ["Absent x", "float64", "float64[ x", "a b\n===\nfloat64 y"])
def test_a_definition_that_cannot_be_read_says_so(text: str) -> None:
    with pytest.raises(RefusedError, match="mine_msgs") as caught:
        parse_definitions("mine_msgs/msg/Mine", text)
    assert caught.value.refusal.reason is Reason.UNSUPPORTED


@pytest.mark.parametrize("head", [b"\0\7\0\0", b"\x01\x00\0\0"])
def test_other_encapsulations_are_unsupported(head: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        _decode("std_msgs/msg/Float64", head + bytes(8))
    assert caught.value.refusal.reason is Reason.UNSUPPORTED
