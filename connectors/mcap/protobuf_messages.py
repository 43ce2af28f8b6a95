"""Protobuf messages as fields. Unset fields have their defaults, as proto3 has it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from connectors.mcap.message_fields import Fields, Nanoseconds, merged

__all__ = ["fields_of_protobuf"]

_TIMES: Final = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})
# Of `FieldDescriptor.type`.
_DTYPES: Final = {
    1: "float64",
    2: "float32",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "uint64",
    7: "uint32",
    8: "bool",
    13: "uint32",
    14: "int32",
    15: "int32",
    16: "int64",
    17: "int32",
    18: "int64",
}
_STRING: Final = 9
_MESSAGES: Final = frozenset({10, 11})
_BYTES: Final = 12


def fields_of_protobuf(message: Any) -> Fields:
    """The fields of a message of the protobuf library."""
    fields: Fields = {}
    _read(message, "", fields, frozenset())
    return fields


def _read(message: Any, prefix: str, fields: Fields, above: frozenset[str]) -> None:
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        path = f"{prefix}{field.name}"
        if field.type in _MESSAGES:
            kind = field.message_type
            # A map is no array, and a type within itself has no end.
            if kind.GetOptions().map_entry or kind.full_name in above:
                continue
            inner = above | {kind.full_name}
            if _is_repeated(field):
                rows: list[Fields] = []
                for each in value:
                    row: Fields = {}
                    _read(each, f"{path}.", row, inner)
                    rows.append(row)
                fields.update(merged(rows))
            elif kind.full_name in _TIMES:
                fields[path] = Nanoseconds(value.seconds * 1_000_000_000 + value.nanos)
            else:
                _read(value, f"{path}.", fields, inner)
        elif field.type == _STRING:
            fields[path] = list(value) if _is_repeated(field) else value
        elif field.type == _BYTES:
            data = b"".join(value) if _is_repeated(field) else value
            fields[path] = np.frombuffer(data, np.uint8)
        else:
            dtype = _DTYPES[field.type]
            fields[path] = np.array(list(value) if _is_repeated(field) else value, dtype)


def _is_repeated(field: Any) -> bool:
    # `label` was named so until protobuf 6.31.
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == 3)
