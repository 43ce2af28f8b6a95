"""Arguments of the form NAME=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

from datalake.errors import InputError

__all__ = ["read_pairs"]


def read_pairs(what: str, pairs: Iterable[str], *, expected: str = "NAME=VALUE") -> dict[str, str]:
    """The values by name.

    Args:
        what: what a pair is, for the message: 'An option of the connector'.
        pairs: texts such as `source=mine`; of two with one name the last counts.
        expected: what a pair looks like.

    Raises:
        InputError: one has no `=`.
    """
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{what} cannot be read", expected=expected, found=pair)
        values[name] = value
    return values
