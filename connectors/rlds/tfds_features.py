"""`features.json` of TensorFlow Datasets: what each name of a dataset's Examples holds.

TFDS nests features (dictionaries, sequences, a dataset of steps) and stores them flat: the picture
`observation.image` of each step is the list `steps/observation/image` of the episode's Example.
Two spellings of the file are read, that since TFDS 4.6 (`pythonClassName`, `featuresDict`, …) and
the older `type` and `content`. Reference: `tensorflow_datasets/core/features` of TFDS 4.9.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from datalake.recording import NUMERIC_DTYPES

__all__ = ["BadFeaturesError", "Kind", "Leaf", "parse_features"]

Kind: TypeAlias = str
"""`numbers`, `text`, `picture` (encoded bytes) or `unknown`."""

_TEXT_DTYPES: Final = frozenset({"string", "object", "str", "bytes"})
# Stored as float32, which holds all of its values.
_ALIASES: Final = {"bfloat16": "float32"}


class BadFeaturesError(ValueError):
    """The JSON is no features.json; the text says why."""


@dataclass(frozen=True)
class Leaf:
    """One name of the Examples: an array, a text or a picture."""

    path: tuple[str, ...]
    """Its keys, `steps` included."""
    kind: Kind
    dtype: str
    """Of its numbers, or of the picture's pixels; `string` for text, the class if unknown."""
    shape: tuple[int | None, ...] = ()
    """Of its value without `dimensions`; None: differs."""
    encoding: str = "none"
    """How each value's bytes are stored: none (a list of numbers), bytes or zlib."""
    dimensions: tuple[int | None, ...] = ()
    """Lengths of the sequences that it lies in, the outermost first; None: differs."""
    info: tuple[tuple[str, Any], ...] = ()
    """What else is said of it."""

    @property
    def key(self) -> str:
        """Its name in the Example."""
        return "/".join(self.path)

    @property
    def whole_shape(self) -> tuple[int | None, ...]:
        """Of its value, the sequences' lengths included."""
        return self.dimensions + self.shape


def parse_features(found: object) -> tuple[Leaf, ...]:
    """The leaves of a features.json, in its order.

    Raises:
        BadFeaturesError: the value is none.
    """
    try:
        return tuple(_leaves(_Node.of(found), Leaf((), "unknown", "")))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadFeaturesError(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class _Node:
    """A feature in either spelling."""

    class_name: str
    kind: str
    """featuresDict, sequence, tensor, image, text, classLabel, … (boundingBox, audio, video)."""
    content: Mapping[str, Any]

    @classmethod
    def of(cls, found: Any) -> _Node:
        if "type" in found:
            return cls._older(found["type"], found.get("content") or {}, found.get("proto_cls"))
        kinds = [key for key, value in found.items() if isinstance(value, dict)]
        name = found["pythonClassName"].rpartition(".")[2]
        if len(kinds) != 1:
            raise ValueError(f"a feature of the class {name} has the contents {kinds}")
        return cls(name, kinds[0], found[kinds[0]])

    @classmethod
    def _older(cls, class_path: str, content: Any, proto_class: str | None) -> _Node:
        name = class_path.rpartition(".")[2]
        if isinstance(content, str):
            content = json.loads(content)
        kind = {
            "FeaturesDict": "featuresDict",
            "Sequence": "sequence",
            "Dataset": "sequence",
            "Image": "image",
            "Text": "text",
            "ClassLabel": "classLabel",
            "Tensor": "tensor",
            "Scalar": "tensor",
        }.get(name, name)
        if kind == "featuresDict" and not proto_class:
            content = {"features": content}
        return cls(name, kind, content)


def _leaves(node: _Node, above: Leaf) -> Iterator[Leaf]:
    content = node.content
    if node.kind == "featuresDict":
        for name, feature in content.get("features", {}).items():
            yield from _leaves(_Node.of(feature), replace(above, path=(*above.path, name)))
    elif node.kind == "sequence":
        inner = _Node.of(content["feature"])
        if node.class_name != "Dataset" and above.path != ("steps",):
            length = content.get("length")
            length = None if length in (None, "-1", -1) else int(length)
            above = replace(above, dimensions=(*above.dimensions, length))
        yield from _leaves(inner, above)
    elif node.kind == "tensor":
        dtype = content.get("dtype", "float32")
        dtype = _ALIASES.get(dtype, dtype)
        kind = "text" if dtype in _TEXT_DTYPES else "numbers"
        if kind == "numbers" and dtype not in NUMERIC_DTYPES:
            kind = "unknown"
        encoding = str(content.get("encoding") or "none").lower()
        shape = _shape(content)
        # Nothing in the file tells such a list's values apart.
        if 0 in shape or (None in shape and encoding == "none"):
            kind = "unknown"
        dtype = "string" if kind == "text" else dtype
        yield replace(above, kind=kind, dtype=dtype, shape=shape, encoding=encoding)
    elif node.kind == "text":
        kind = "unknown" if content.get("use_encoder") else "text"
        yield replace(above, kind=kind, dtype="string")
    elif node.kind == "classLabel":
        count = content.get("numClasses", content.get("num_classes"))
        info = (("num_classes", int(count)),) if count is not None else ()
        yield replace(above, kind="numbers", dtype="int64", info=info)
    elif node.kind == "boundingBox":
        yield replace(above, kind="numbers", dtype="float32", shape=(4,))
    elif node.kind == "image":
        shape = _shape(content) or (None, None, 3)
        # Several pictures a step, such as those of a GIF, have no column.
        kind = "unknown" if above.dimensions or len(shape) != 3 else "picture"
        yield replace(above, kind=kind, dtype=content.get("dtype") or "uint8", shape=shape)
    else:
        yield replace(above, kind="unknown", dtype=node.class_name)


def _shape(content: Mapping[str, Any]) -> tuple[int | None, ...]:
    shape = content.get("shape") or ()
    if isinstance(shape, dict):
        shape = shape.get("dimensions") or ()
    return tuple(None if size is None or int(size) < 0 else int(size) for size in shape)
