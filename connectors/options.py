"""Checks the options that a user gave a connector against those it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from datalake.connector import OptionSpec
from datalake.errors import ConfigError, nearest

__all__ = ["check_options", "choice", "group"]


def check_options(connector: str, given: Mapping[str, str], known: Sequence[OptionSpec]) -> None:
    """Refuse options that a connector does not have.

    A declared name such as `column.<name>` stands for all options that begin `column.`.

    Raises:
        ConfigError: names the nearest option.
    """
    names = [spec.name for spec in known]
    for option in given:
        prefix = option.partition(".")[0] + ".<name>"
        if option not in names and not ("." in option and prefix in names):
            raise ConfigError(
                f"The connector {connector} has no option {option!r}",
                fix=nearest(option, names) if names else "It takes no option",
            )


def group(given: Mapping[str, str], prefix: str, allowed: Sequence[str]) -> dict[str, str]:
    """The options `<prefix>.<name>`, by name.

    Raises:
        ConfigError: a name is not one of `allowed`.
    """
    found = {}
    for option, value in given.items():
        head, dot, name = option.partition(".")
        if not dot or head != prefix:
            continue
        if name not in allowed:
            raise ConfigError(
                f"The option {option!r} names nothing that is known",
                expected=f"{prefix}. and one of {', '.join(allowed)}",
                fix=nearest(name, allowed),
            )
        found[name] = value
    return found


def choice(given: Mapping[str, str], name: str, allowed: Sequence[str]) -> str | None:
    """The value of an option that has few; None if it was not given.

    Raises:
        ConfigError: the value is not one of `allowed` (case does not count).
    """
    value = given.get(name)
    if value is None:
        return None
    for candidate in allowed:
        if candidate.lower() == value.lower():
            return candidate
    raise ConfigError(
        f"The option {name} has no value {value!r}", expected=f"one of {', '.join(allowed)}"
    )
