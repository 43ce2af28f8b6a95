"""Message definitions of ROS 2 (`ros2msg` schemas): which fields a message has, and of what type.

Grammar: https://docs.ros.org/en/rolling/Concepts/Basic/About-Interfaces.html. A schema holds the
definition of its own type and, after lines of `=`, those of all types that it uses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from connectors.refused import RefusedError
from datalake.quarantine import Reason

__all__ = ["PRIMITIVES", "Definition", "Definitions", "Member", "parse_definitions"]

PRIMITIVES: Final[Mapping[str, str]] = {
    "bool": "bool",
    "byte": "uint8",
    "char": "uint8",
    **{
        name: name
        for name in (
            *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
            *("float32", "float64"),
        )
    },
}
"""The NumPy type of each type of numbers."""

_SEPARATOR: Final = re.compile(r"^={3,}\s*$", re.MULTILINE)
_OWN_NAME: Final = re.compile(r"^MSG:\s*(\S+)\s*$", re.MULTILINE)
_CONSTANT: Final = re.compile(r"^[\w/]+(<=\d+)?\s+\w+\s*=")
_MEMBER: Final = re.compile(
    r"^(?P<type>[\w/]+)(?:<=\d+)?"
    r"(?P<array>\[(?P<bound><=)?(?P<size>\d*)\])?"
    r"\s+(?P<name>[A-Za-z]\w*)(?:\s+.*)?$"
)


@dataclass(frozen=True)
class Member:
    """One field of a message."""

    name: str
    type: str
    """A key of `PRIMITIVES`, `string`, `wstring`, or the short name of a message type."""
    is_array: bool = False
    size: int | None = None
    """Elements of an array of fixed size; None: each message says."""


Definition: TypeAlias = tuple[Member, ...]
Definitions: TypeAlias = dict[str, Definition]
"""Members by the type's short name, such as `std_msgs/Header`."""


def parse_definitions(name: str, text: str) -> tuple[str, Definitions]:
    """The definitions in a schema, and the short name of its own type.

    Raises:
        RefusedError: a line is none of the grammar, or a type is used and not defined.
    """
    own = _short(name)
    found: Definitions = {}
    for number, part in enumerate(_SEPARATOR.split(text)):
        named = _OWN_NAME.search(part)
        if number and named is None:
            raise _bad(name, "a part has no line that begins MSG:")
        key = _short(named[1]) if number and named else own
        found[key] = _members(_OWN_NAME.sub("", part, count=1) if number else part, key)
    for key, members in found.items():
        for member in members:
            is_known = member.type in found or member.type in PRIMITIVES
            if not is_known and member.type not in ("string", "wstring"):
                raise _bad(name, f"{key} uses {member.type}, which is not defined")
    return own, found


def _members(text: str, owner: str) -> Definition:
    package = owner.partition("/")[0]
    members = []
    for line in text.splitlines():
        bare = line.partition("#")[0].strip()
        if not bare or _CONSTANT.match(bare):
            continue
        match = _MEMBER.match(bare)
        if match is None:
            raise _bad(owner, f"no field of a message: {bare!r}")
        size = int(match["size"]) if match["size"] and not match["bound"] else None
        kind = _resolved(match["type"], package)
        members.append(Member(match["name"], kind, match["array"] is not None, size))
    return tuple(members)


def _resolved(kind: str, package: str) -> str:
    if kind in PRIMITIVES or kind in ("string", "wstring"):
        return kind
    if kind == "Header":
        return "std_msgs/Header"
    return _short(kind) if "/" in kind else f"{package}/{kind}"


def _short(name: str) -> str:
    """`std_msgs/Header` for `std_msgs/msg/Header`."""
    parts = name.split("/")
    return f"{parts[0]}/{parts[-1]}" if len(parts) > 1 else name


def _bad(name: str, detail: str) -> RefusedError:
    return RefusedError(Reason.UNSUPPORTED, f"the definition of {name} cannot be read: {detail}")
