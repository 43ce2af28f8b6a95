"""Reads small metadata files whole, and says what is wrong with one instead of failing."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from connectors.tree import LFS_MARK, Tree
from datalake.errors import NotFoundError
from datalake.quarantine import Reason

__all__ = ["Problem", "read_bytes", "read_json", "read_object", "value_of"]

Problem: TypeAlias = tuple[Reason, str]
"""What is wrong with a file."""


def read_bytes(tree: Tree, path: str) -> bytes | Problem:
    """The bytes of a file, or what is wrong with it."""
    try:
        with tree.open(path) as handle:
            data = handle.read()
    except NotFoundError:
        return Reason.EMPTY_METADATA, "the file is not there"
    if not data.strip():
        return Reason.EMPTY_METADATA, "the file is empty"
    if data.startswith(LFS_MARK):
        return Reason.LFS_POINTER, "a Git-LFS pointer lies in its place: fetch it with git lfs pull"
    return data


def read_json(tree: Tree, path: str) -> Any | Problem:
    """The JSON value of a file, or what is wrong with the file."""
    data = read_bytes(tree, path)
    if isinstance(data, tuple):
        return data
    try:
        return value_of(data)
    except ValueError as error:
        return Reason.EMPTY_METADATA, f"it is no JSON: {error}"


def read_object(tree: Tree, path: str) -> dict[str, Any] | Problem:
    """The JSON object of a file, or what is wrong with the file."""
    found = read_json(tree, path)
    if isinstance(found, dict | tuple):
        return found
    return Reason.EMPTY_METADATA, f"expected a JSON object, found {type(found).__name__}"


def value_of(text: bytes) -> Any:
    """The JSON value of a text.

    Raises:
        ValueError: it is none, or has strings that are no Unicode (half of a pair of surrogates).
    """
    value = json.loads(text)
    if b"\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value
