"""Configuration files in YAML; most have the option names of one command as keys."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from datalake.errors import ConfigError, NotFoundError, nearest

__all__ = ["Value", "read_config", "read_mapping"]

Value = str | int | float | bool | list[str]
"""What an option may be set to."""


def read_config(path: str | os.PathLike[str], known: Iterable[str]) -> dict[str, Value]:
    """The options that a file sets, by name.

    A key is an option's name without its leading dashes (`max-bad-fraction`; `_` will do for `-`).
    A list sets an option that may be given several times, and so does a mapping, as `key=value`.
    An empty value leaves the option alone.

    Args:
        path: the file.
        known: the names that the command has.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: it is no YAML, no mapping, or has a key or value that no option takes.
    """
    options = {name.replace("_", "-"): name for name in known}
    settings: dict[str, Value] = {}
    for key, value in read_mapping(path).items():
        spelled = str(key).replace("_", "-")
        if spelled not in options:
            raise ConfigError(
                f"The configuration has an unknown key {str(key)!r}",
                where=str(path),
                fix=nearest(spelled, options),
            )
        if value is not None:
            settings[options[spelled]] = _value(value, where=f"{path}: {key}")
    return settings


def read_mapping(path: str | os.PathLike[str]) -> dict[object, object]:
    """What a file says, as YAML gives it; an empty file says nothing.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: it is no YAML, or no mapping.
    """
    # yaml is wanted only where a file is given.
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFoundError("There is no configuration file", where=str(path)) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(
            "The configuration cannot be read",
            where=str(path),
            expected="a YAML file",
            found=" ".join(str(error).split()),
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            "The configuration is no mapping",
            where=str(path),
            expected="lines such as `table: corpus`",
            found=f"a {type(content).__name__}",
        )
    return content


def _value(value: object, *, where: str) -> Value:
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return [str(item) for item in value]
    if isinstance(value, dict) and all(isinstance(item, str | int) for item in value.values()):
        return [f"{key}={item}" for key, item in value.items()]
    raise ConfigError(
        "A configuration value cannot be used",
        where=where,
        expected="a text, a number, true or false, a list of them, or a mapping to them",
        found=repr(value),
    )
