"""`tf.train.Example` from its bytes, without TensorFlow and without copying what is large.

An Example is a protobuf message: a map of names to lists of bytes, float32 or int64. A parser of
generated code makes a Python object of every number; here a packed list becomes one array, and
bytes stay views of the record. Wire format: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from connectors.refused import RefusedError
from datalake.quarantine import Reason

__all__ = ["Values", "parse_example"]

Values: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.int64] | list[memoryview]
"""The list that a name has."""

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5

# Field numbers of Feature.
_BYTES_LIST: Final = 1
_FLOAT_LIST: Final = 2
_INT64_LIST: Final = 3

_BLOCK: Final = 1 << 14
_NO_FLOAT: Final = np.empty(0, np.float32)
_NO_INTEGER: Final = np.empty(0, np.int64)


def parse_example(data: memoryview) -> dict[str, Values]:
    """The lists of an Example, by name. A name without a list has an empty one.

    Raises:
        RefusedError: the bytes are no Example.
    """
    found: dict[str, Values] = {}
    try:
        for number, features in _fields(data):
            if number != 1 or not isinstance(features, memoryview):
                raise _bad(f"an Example has no field {number}")
            for _, entry in _fields(features):
                name, values = _entry(entry)
                found[name] = values
    except (IndexError, UnicodeDecodeError) as error:
        raise _bad("a field reaches beyond the end of the bytes") from error
    return found


def _entry(entry: memoryview | int) -> tuple[str, Values]:
    name = ""
    values: Values = []
    for number, value in _fields(_message(entry)):
        if number == 1:
            name = str(_message(value), "utf-8")
        elif number == 2:
            for kind, listed in _fields(_message(value)):
                values = _list(kind, _message(listed))
    return name, values


def _list(kind: int, data: memoryview) -> Values:
    if kind == _BYTES_LIST:
        return [_message(value) for _, value in _fields(data)]
    if kind == _FLOAT_LIST:
        floats = [_floats(value) for _, value in _fields(data)]
        return floats[0] if len(floats) == 1 else np.concatenate([_NO_FLOAT, *floats])
    if kind == _INT64_LIST:
        integers = [_integers(value) for _, value in _fields(data)]
        return integers[0] if len(integers) == 1 else np.concatenate([_NO_INTEGER, *integers])
    raise _bad(f"a Feature has no field {kind}")


def _floats(value: memoryview | int) -> npt.NDArray[np.float32]:
    # A packed list, or one number that was not packed; both are little-endian float32.
    data = _message(value)
    if len(data) % 4:
        raise _bad(f"{len(data)} bytes are no whole number of float32")
    return np.frombuffer(data, "<f4")


def _integers(value: memoryview | int) -> npt.NDArray[np.int64]:
    if isinstance(value, int):
        return np.array([value], np.uint64).view(np.int64)
    octets = np.frombuffer(value, np.uint8)
    is_last = octets < 128
    if is_last.all():
        return octets.astype(np.int64)
    if not is_last[-1]:
        raise _bad("the last integer of a list has no end")
    ends = np.flatnonzero(is_last)
    found = np.empty(len(ends), np.uint64)
    start = 0
    # Block by block, so that what is computed between stays in the cache.
    for first in range(0, len(ends), _BLOCK):
        block = ends[first : first + _BLOCK]
        found[first : first + _BLOCK] = _varints(octets[start : block[-1] + 1], block - start)
        start = int(block[-1]) + 1
    return found.view(np.int64)


def _varints(octets: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The integers of which the last octets stand at `ends`: all are read from there at once."""
    starts = np.concatenate([[0], ends[:-1] + 1])
    longest = int((ends - starts).max()) + 1
    if longest > 10:
        raise _bad("an integer has more than 64 bits")
    found = octets[ends].astype(np.uint64)
    for back in range(1, longest):
        places = ends - back
        part = octets[np.maximum(places, 0)] & np.uint8(127)
        found = np.where(places >= starts, (found << np.uint64(7)) | part, found)
    return found


def _message(value: memoryview | int) -> memoryview:
    if isinstance(value, int):
        raise _bad("a number stands where bytes should")
    return value


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """The fields of a message: numbers, and the bytes of what has a length or a fixed size."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            raise _bad(f"there is no wire type {wire}")
        if at + size > end:
            raise _bad(f"a field of {size} bytes reaches beyond the end of the bytes")
        yield number, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    found = data[at]
    if found < 128:
        return found, at + 1
    found &= 127
    for shift in range(7, 70, 7):
        at += 1
        octet = data[at]
        found |= (octet & 127) << shift
        if octet < 128:
            return found & 0xFFFFFFFFFFFFFFFF, at + 1
    raise _bad("an integer has more than 64 bits")


def _bad(detail: str) -> RefusedError:
    return RefusedError(Reason.CORRUPT, f"the record is no tf.train.Example: {detail}")
