"""`meta/info.json` of a LeRobot dataset: what it says, and what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from datalake.quarantine import Reason
from datalake.recording import BOOKKEEPING, NUMERIC_DTYPES, Feature

__all__ = ["Info", "InfoError", "parse_info"]

_MEDIA: Final = frozenset({"image", "video", "string"})
# Text under another name, in newer releases, and names that the library datasets also takes.
_ALIASES: Final = {
    "language": "string",
    "large_string": "string",
    "str": "string",
    "boolean": "bool",
    "int": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
}

# Of one frame's value; lists of a fixed size count in 32 bits.
_MOST_ELEMENTS: Final = 2**31 - 1

_DEFAULT_PATHS: Final = {
    2: (
        "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    ),
    3: (
        "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    ),
}


class InfoError(ValueError):
    """What is wrong with info.json, for a person."""

    def __init__(self, detail: str, reason: Reason = Reason.EMPTY_METADATA) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Info:
    """What `meta/info.json` says."""

    version: str
    """Such as `v2.1`."""
    fps: float
    robot_type: str | None
    features: tuple[Feature, ...]
    """Without those that number and time the frames."""
    data_path: str
    video_path: str
    chunks_size: int
    total_episodes: int | None
    total_frames: int | None
    total_tasks: int | None
    splits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """First episode and the one after the last, by the split's name."""

    @property
    def major(self) -> int:
        """2 or 3."""
        return int(self.version[1])

    @property
    def cameras(self) -> tuple[str, ...]:
        """The features that are videos."""
        return tuple(feature.name for feature in self.features if feature.dtype == "video")

    def split_of(self, episode_index: int) -> str | None:
        """The split that an episode is in."""
        for name, (first, end) in self.splits.items():
            if first <= episode_index < end:
                return name
        return None


def parse_info(found: object) -> Info:
    """The info that the JSON value says.

    Raises:
        InfoError: it is not that of a LeRobot dataset of version 2.0, 2.1 or 3.0.
    """
    if not isinstance(found, dict):
        raise InfoError(f"expected a JSON object, found {type(found).__name__}")
    version = found.get("codebase_version")
    if version not in ("v2.0", "v2.1", "v3.0"):
        reason = Reason.UNSUPPORTED if isinstance(version, str) else Reason.EMPTY_METADATA
        raise InfoError(f"expected codebase_version v2.0, v2.1 or v3.0, found {version!r}", reason)
    fps = found.get("fps")
    if not isinstance(fps, int | float) or isinstance(fps, bool) or not 0 < fps < 1e6:
        raise InfoError(f"expected fps, a number of frames a second, found {fps!r}")
    definitions = found.get("features")
    if not isinstance(definitions, dict) or not definitions:
        raise InfoError("expected features, a JSON object of definitions, found none")
    data_path, video_path = _DEFAULT_PATHS[int(version[1])]
    return Info(
        version=version,
        fps=float(fps),
        robot_type=str(found.get("robot_type") or "") or None,
        features=tuple(
            _feature(name, definition)
            for name, definition in definitions.items()
            if name not in BOOKKEEPING
        ),
        data_path=_template(found, "data_path", data_path),
        video_path=_template(found, "video_path", video_path),
        chunks_size=_chunks_size(found.get("chunks_size")),
        total_episodes=_count(found, "total_episodes"),
        total_frames=_count(found, "total_frames"),
        total_tasks=_count(found, "total_tasks"),
        splits=_splits(found.get("splits")),
    )


def _count(found: Mapping[str, Any], key: str) -> int | None:
    value = found.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _template(found: Mapping[str, Any], key: str, default: str) -> str:
    """A path with fields in braces, which leads to a place within the dataset."""
    template = found.get(key) or default
    fields = ("episode_chunk", "episode_index", "chunk_index", "file_index")
    try:
        path = template.format(video_key="camera", **dict.fromkeys(fields, 0))
        path.encode()
    except (AttributeError, LookupError, TypeError, ValueError):
        raise InfoError(f"expected {key}, such as {default!r}, found {template!r}") from None
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise InfoError(f"expected {key} within the dataset, found {template!r}")
    return str(template)


def _chunks_size(found: object) -> int:
    if found is None:
        return 1000
    if not isinstance(found, int) or found < 1:
        raise InfoError(f"expected chunks_size, a number of at least 1, found {found!r}")
    return found


def _feature(name: str, definition: object) -> Feature:
    if not isinstance(definition, dict):
        raise InfoError(f"expected the definition of the feature {name}, found {definition!r}")
    dtype = str(definition.get("dtype"))
    dtype = _ALIASES.get(dtype, dtype)
    if dtype not in NUMERIC_DTYPES and dtype not in _MEDIA:
        raise InfoError(f"the feature {name} has the dtype {definition.get('dtype')!r}")
    shape = definition.get("shape") or ()
    if (
        not isinstance(shape, list | tuple)
        or not all(isinstance(size, int) and size > 0 for size in shape)
        or math.prod(shape) > _MOST_ELEMENTS
    ):
        raise InfoError(f"the feature {name} has the shape {definition.get('shape')!r}")
    rest = {key: value for key, value in definition.items() if key not in ("dtype", "shape")}
    return Feature(name, dtype, tuple(shape), _names(definition.get("names")), info=rest)


def _names(found: object) -> tuple[str, ...]:
    """All names, whether they stand in a list, in lists of a list or under keys (`motors`)."""
    if isinstance(found, dict):
        found = list(found.values()) if all(isinstance(v, list) for v in found.values()) else None
    if not isinstance(found, list):
        return ()
    flat: list[str] = []
    for item in found:
        flat.extend(_names(item) if isinstance(item, list) else (str(item),))
    return tuple(flat)


def _splits(found: object) -> dict[str, tuple[int, int]]:
    splits = {}
    for name, text in found.items() if isinstance(found, dict) else ():
        first, colon, end = str(text).partition(":")
        if colon and first.isdigit() and end.isdigit():
            splits[str(name)] = (int(first), int(end))
    return splits
