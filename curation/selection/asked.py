"""Plug-ins and the options they read."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Protocol, TypeVar

from datalake import plugins
from datalake.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["method_of", "options_used"]


class _Method(Protocol):
    uses: frozenset[str]


_T = TypeVar("_T", bound=_Method)


def method_of(group: str, name: str, kind: type[_T], expected: str) -> _T:
    """The plug-in `name` of an entry point group.

    Raises:
        NotFoundError: there is none of that name.
        InputError: it is something else.
    """
    found = plugins.load(group, name)
    if not isinstance(found, kind):
        raise InputError(
            f"The plug-in {name} cannot be used here",
            where=group,
            expected=expected,
            found=type(found).__name__,
        )
    return found


def options_used(
    name: str, method: _Method, options: DataclassInstance, *, kind: str = "method"
) -> dict[str, object]:
    """The options that a method (or what `kind` says) reads, by name.

    Raises:
        InputError: another one was set.
    """
    used: dict[str, object] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name in method.uses:
            used[field.name] = value
        elif value != field.default:
            raise InputError(
                f"The {kind} {name} does not use {field.name}",
                expected=", ".join(sorted(method.uses)) or "no options but the seed",
                found=f"{field.name} = {value}",
                fix=f"Leave {field.name} out, or choose another {kind}",
            )
    return used
