"""ROS 2 messages from their bytes: CDR, read by the message's definition.

A reader of our own rather than one that makes Python floats: a float32 must stay one, and a joint
state of 14 joints takes two views of memory in place of 42 calls. Encapsulation: plain CDR (XCDR1)
of both byte orders, as all ROS 2 middlewares write by default; OMG DDSI-RTPS 2.5, 10.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from connectors.mcap.message_fields import Fields, Nanoseconds, merged
from connectors.mcap.ros2_definitions import PRIMITIVES, Definition, Definitions
from connectors.refused import RefusedError
from datalake.quarantine import Reason

__all__ = ["decode_cdr"]

_HEADER_BYTES: Final = 4
_TIMES: Final = frozenset({"builtin_interfaces/Time", "builtin_interfaces/Duration"})
_NANOSECONDS: Final = 1_000_000_000
_KINDS: Final = {
    order: {name: np.dtype(name).newbyteorder(order) for name in set(PRIMITIVES.values())}
    for order in ("<", ">")
}
_UINT32: Final = {order: struct.Struct(f"{order}I") for order in "<>"}
_INT32: Final = {order: struct.Struct(f"{order}i") for order in "<>"}


def decode_cdr(data: bytes, own: str, definitions: Definitions) -> Fields:
    """The fields of a message by their paths, such as `header.stamp`.

    Raises:
        RefusedError: the bytes end early, or are encoded another way.
    """
    if len(data) < _HEADER_BYTES or data[0] != 0 or data[1] > 1:
        raise RefusedError(
            Reason.UNSUPPORTED, f"a message begins {data[:2].hex() or 'nowhere'}, which is no CDR"
        )
    order: Literal["<", ">"] = "<" if data[1] else ">"
    found: Fields = {}
    try:
        _Cursor(data, _HEADER_BYTES, order, definitions).members(definitions[own], "", found)
    except (ValueError, IndexError, MemoryError, struct.error) as error:
        raise RefusedError(Reason.CORRUPT, f"a message of {own} ends early: {error}") from error
    return found


@dataclass
class _Cursor:
    """A place in a message."""

    data: bytes
    at: int
    order: Literal["<", ">"]
    definitions: Definitions

    def members(self, members: Definition, prefix: str, found: Fields) -> None:
        """Read the fields of a message into `found`."""
        if not members:
            # IDL knows no empty struct: it has one octet.
            self.at += 1
        for member in members:
            path = prefix + member.name
            if member.type in PRIMITIVES:
                count = self._count(member.size) if member.is_array else 1
                values = self._numbers(PRIMITIVES[member.type], count)
                found[path] = values if member.is_array else values.reshape(())
            elif member.type == "string":
                if member.is_array:
                    found[path] = [self._string() for _ in range(self._count(member.size))]
                else:
                    found[path] = self._string()
            elif member.type == "wstring":
                raise RefusedError(Reason.UNSUPPORTED, f"{path} is a wstring")
            elif member.is_array:
                count = self._count(member.size)
                found.update(self._messages(member.type, count, f"{path}."))
            elif member.type in _TIMES:
                found[path] = self._time()
            else:
                self.members(self.definitions[member.type], f"{path}.", found)

    def _messages(self, kind: str, count: int, prefix: str) -> Fields:
        if count > len(self.data):
            raise ValueError(f"an array of {count} messages")
        rows = []
        for _ in range(count):
            row: Fields = {}
            if kind in _TIMES:
                row[prefix[:-1]] = self._time()
            else:
                self.members(self.definitions[kind], prefix, row)
            rows.append(row)
        return merged(rows)

    def _count(self, fixed: int | None) -> int:
        return self._four(_UINT32) if fixed is None else fixed

    def _four(self, kinds: Mapping[str, struct.Struct]) -> int:
        """An integer of four bytes; many are read, and NumPy takes long for one."""
        at = self.at + -self.at % 4
        self.at = at + 4
        return int(kinds[self.order].unpack_from(self.data, at)[0])

    def _numbers(self, dtype: str, count: int) -> Any:
        kind = _KINDS[self.order][dtype]
        if count and kind.itemsize > 1:
            self.at += -(self.at - _HEADER_BYTES) % kind.itemsize
        end = self.at + count * kind.itemsize
        if end > len(self.data):
            raise ValueError(f"it has {len(self.data)} bytes, {end} at least were expected")
        values = np.frombuffer(self.data, kind, count, self.at)
        self.at = end
        # Few numbers are copied: a view would keep the whole message.
        return values.astype(dtype, copy=kind.itemsize * count < 1 << 12)

    def _string(self) -> str:
        size = self._count(None)
        end = self.at + size
        if end > len(self.data):
            raise ValueError(f"a text of {size} bytes")
        text = self.data[self.at : end]
        self.at = end
        return text.rstrip(b"\0").decode()

    def _time(self) -> Nanoseconds:
        seconds = self._four(_INT32)
        return Nanoseconds(seconds * _NANOSECONDS + self._four(_UINT32))
