"""JSON messages as fields. Numbers are doubles, as JSON has them, unless a schema says integer."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from connectors.mcap.message_fields import Fields, Nanoseconds, merged
from connectors.refused import RefusedError
from datalake.quarantine import Reason

__all__ = ["decode_json", "json_types"]

_SECONDS: Final = ("sec", "secs", "seconds")
_NANOSECONDS: Final = ("nsec", "nsecs", "nanosec", "nanos", "nanoseconds")
_DTYPES: Final = {"integer": "int64", "number": "float64", "boolean": "bool"}
_DEEPEST: Final = 16


def json_types(schema: bytes) -> dict[str, str]:
    """What a JSON Schema says of each path: integer, number, boolean, string or bytes.

    Elements of arrays have the path of the array. What cannot be understood says nothing.
    """
    try:
        found = json.loads(schema) if schema.strip() else {}
    except ValueError:
        return {}
    types: dict[str, str] = {}
    _walk(found, found, "", types, 0)
    return types


def decode_json(data: bytes, types: Mapping[str, str]) -> Fields:
    """The fields of a message; `types` is what `json_types` found.

    Raises:
        RefusedError: the bytes are no JSON object, or a value is not of its type.
    """
    try:
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError(f"expected an object, found {type(found).__name__}")
        fields: Fields = {}
        _read(found, "", types, fields)
    except (ValueError, OverflowError, binascii.Error) as error:
        raise RefusedError(
            Reason.CORRUPT, f"a message is no JSON of its schema: {error}"
        ) from error
    return fields


def _walk(node: Any, whole: Any, path: str, types: dict[str, str], depth: int) -> None:
    if not isinstance(node, dict) or depth > _DEEPEST:
        return
    if isinstance(reference := node.get("$ref"), str):
        _walk(_resolved(reference, whole), whole, path, types, depth + 1)
        return
    kind = node.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), None)
    if kind == "array":
        _walk(node.get("items"), whole, path, types, depth + 1)
    elif kind == "object" or "properties" in node:
        for name, child in (node.get("properties") or {}).items():
            _walk(child, whole, f"{path}.{name}" if path else name, types, depth + 1)
    elif kind == "string" and node.get("contentEncoding") == "base64":
        types[path] = "bytes"
    elif isinstance(kind, str):
        types[path] = kind


def _resolved(reference: str, whole: Any) -> Any:
    node = whole
    for part in reference.removeprefix("#").strip("/").split("/"):
        node = node.get(part) if isinstance(node, dict) and part else None
    return node


def _read(found: Mapping[str, Any], prefix: str, types: Mapping[str, str], fields: Fields) -> None:
    for name, value in found.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict):
            if (time := _time(value)) is None:
                _read(value, f"{path}.", types, fields)
            else:
                fields[path] = time
        elif isinstance(value, list):
            _read_list(value, path, types, fields)
        elif isinstance(value, str):
            is_bytes = types.get(path) == "bytes"
            fields[path] = np.frombuffer(base64.b64decode(value), np.uint8) if is_bytes else value
        elif value is not None:
            fields[path] = _numbers(value, path, types)


def _read_list(value: list[Any], path: str, types: Mapping[str, str], fields: Fields) -> None:
    if value and all(isinstance(each, dict) for each in value):
        rows: list[Fields] = []
        for each in value:
            row: Fields = {}
            _read(each, f"{path}.", types, row)
            rows.append(row)
        fields.update(merged(rows))
    elif value and all(isinstance(each, str) for each in value):
        fields[path] = value
    else:
        fields[path] = _numbers(value, path, types).reshape(-1)


def _numbers(value: Any, path: str, types: Mapping[str, str]) -> Any:
    kind = types.get(path)
    plain = np.asarray(value)
    if plain.dtype.kind not in "biuf":
        raise ValueError(f"{path} is neither a number nor an array of numbers")
    if kind is None:
        kind = "boolean" if plain.dtype == bool else "number"
    cast = plain.astype(_DTYPES.get(kind, "float64"))
    if not np.array_equal(cast, plain, equal_nan=cast.dtype.kind == "f"):
        raise ValueError(f"{path} is no {kind}")
    return cast


def _time(value: Mapping[str, Any]) -> Nanoseconds | None:
    if len(value) != 2:
        return None
    seconds = next((value[name] for name in _SECONDS if name in value), None)
    nanoseconds = next((value[name] for name in _NANOSECONDS if name in value), None)
    if isinstance(seconds, int) and isinstance(nanoseconds, int):
        return Nanoseconds(seconds * 1_000_000_000 + nanoseconds)
    return None
