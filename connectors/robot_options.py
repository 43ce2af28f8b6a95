"""The options of robot formats that leave something unsaid, and the names they take instead."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping
from typing import Final

from datalake.connector import OptionSpec
from datalake.errors import ConfigError
from datalake.uri import Location

__all__ = ["EMBODIMENT", "FPS", "SOURCE", "TASK", "fps_option", "patterns_option", "source_of"]

SOURCE: Final = OptionSpec("source", "the dataset's name", "the name of the file or folder")
EMBODIMENT: Final = OptionSpec("embodiment", "the robot's name", "as the dataset says")
FPS: Final = OptionSpec("fps", "frames a second", "as the dataset says")
TASK: Final = OptionSpec("task", "the task, in words, of every episode", "as the dataset says")

_SUFFIXES: Final = re.compile(r"(\.zarr|\.zip|\.hdf5|\.hdf|\.h5)+$", re.IGNORECASE)
# Files that have these names lie in folders that say what they hold.
_ANY_DATASET: Final = re.compile(
    r"^(demo|low_dim|image|raw|dataset|data|replay_buffer|train|val)(_|\d|v\d|$)[\w.]*$",
    re.IGNORECASE,
)


def fps_option(options: Mapping[str, str]) -> float | None:
    """The frame rate that a user gave.

    Raises:
        ConfigError: it is no positive number.
    """
    if "fps" not in options:
        return None
    try:
        fps = float(options["fps"])
    except ValueError:
        fps = math.nan
    if not (math.isfinite(fps) and fps > 0):
        raise ConfigError(
            "The option fps is no frame rate",
            expected="a number above 0, such as 20",
            found=options["fps"],
        )
    return fps


def patterns_option(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The patterns of an option that takes several, separated by commas."""
    return tuple(word for part in options.get(name, "").split(",") if (word := part.strip()))


def source_of(root: Location, options: Mapping[str, str]) -> str:
    """The dataset's name: as the user gave it, else the path's last part without its suffixes.

    A name that every dataset has, such as `low_dim_v141` or `dataset`, gets the names of the two
    folders above it in front.

    Raises:
        ConfigError: the given name cannot be one.
    """
    if "source" in options:
        source = options["source"].strip()
        if not source or "/" in source:
            raise ConfigError(
                "The option source is no name",
                expected="a word without slashes",
                found=options["source"] or "nothing",
            )
        return source
    path = root.uri.partition("://")[2] or root.uri
    *folders, name = (part for part in path.split("/") if part)
    plain = _SUFFIXES.sub("", name) or name
    if plain != name and _ANY_DATASET.match(plain):
        return "_".join([*folders[-2:], plain])
    return posixpath.basename(plain)
