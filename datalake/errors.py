"""Every error the toolkit raises on purpose.

    LakeError                                 anything below; catch this one
    ├── InputError          (ValueError)      an argument, a file or a row that cannot be used
    │   ├── SchemaError                       columns or types are not the ones expected
    │   ├── PredicateError                    a `where` that the table cannot evaluate
    │   └── ConfigError                       a configuration key or value
    ├── NotFoundError       (LookupError)     a table, version, tag, selection, file or plug-in
    ├── ExistsError         (FileExistsError) a name that is taken
    ├── ConflictError       (RuntimeError)    the table moved on since it was opened
    ├── StoreError          (OSError)         the disk or the object store refused
    │   ├── CredentialsError(PermissionError) ... because of who asks
    │   └── DiskFullError                     ... because there is no room
    ├── MissingPackageError (ImportError)     an extra is not installed
    ├── StalledError        (TimeoutError)    nothing moved for too long
    └── StoppedError        (RuntimeError)    a run gave up by its own rules (too many bad rows)

An error says what failed, where, what was expected, what was found and what to do. `str(error)` is
one paragraph that holds all of it, so it reads well in a traceback, in a log and at a prompt.
Errors survive pickling: one that a Ray worker raises arrives as the same error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ConfigError",
    "ConflictError",
    "CredentialsError",
    "DiskFullError",
    "ExistsError",
    "InputError",
    "LakeError",
    "MissingPackageError",
    "NotFoundError",
    "PredicateError",
    "SchemaError",
    "StalledError",
    "StoppedError",
    "StoreError",
    "nearest",
]


class LakeError(Exception):
    """Base of all errors of the toolkit.

    Args:
        what: what failed, as a sentence without its full stop.
        where: the place (uri, table, part, row, column).
        expected: what should have been there.
        found: what was there.
        fix: what the reader can do about it.
    """

    exit_code = 1

    def __init__(
        self, what: str, *, where: str = "", expected: str = "", found: str = "", fix: str = ""
    ) -> None:
        self.what = what
        self.where = where
        self.expected = expected
        self.found = found
        self.fix = fix
        super().__init__(self._paragraph())

    def _paragraph(self) -> str:
        parts = [self.what.rstrip(".")]
        if self.where:
            parts[0] += f" ({self.where})"
        if self.expected:
            parts.append(f"Expected {self.expected.rstrip('.')}")
        if self.found:
            parts.append(f"Found {self.found.rstrip('.')}")
        if self.fix:
            parts.append(self.fix.rstrip("."))
        paragraph = ". ".join(parts)
        return paragraph if paragraph.endswith(("?", "…")) else paragraph + "."

    def __str__(self) -> str:
        return self._paragraph()

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default; defined once for the whole tree.
        return (_rebuild, (type(self), self.what, self.where, self.expected, self.found, self.fix))


def _rebuild(
    kind: type[LakeError], what: str, where: str, expected: str, found: str, fix: str
) -> LakeError:
    return kind(what, where=where, expected=expected, found=found, fix=fix)


class InputError(LakeError, ValueError):
    """An argument, a file or a row that cannot be used. Exit code 2."""

    exit_code = 2


class SchemaError(InputError):
    """Columns or types are not the ones expected."""


class PredicateError(InputError):
    """A predicate that the table cannot parse or evaluate."""


class ConfigError(InputError):
    """A configuration key or value that is not known or not allowed."""


class NotFoundError(LakeError, LookupError):
    """A table, version, tag, selection, file or plug-in that is not there. Exit code 2."""

    exit_code = 2


class ExistsError(LakeError, FileExistsError):
    """A name that is taken. Exit code 2."""

    exit_code = 2


class ConflictError(LakeError, RuntimeError):
    """The table moved on between opening and committing; nothing was written."""


class StoreError(LakeError, OSError):
    """The disk or the object store refused or did not answer."""


class CredentialsError(StoreError, PermissionError):
    """The store or the file system refused the caller."""


class DiskFullError(StoreError):
    """There is no room left where the bytes should go."""


class MissingPackageError(LakeError, ImportError):
    """A package that an extra would bring is not installed."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingPackageError:
        """The error for `package`, which `pip install 'datalake[extra]'` brings."""
        return cls(
            f"{purpose} needs the package {package}",
            found="it is not installed",
            fix=f"Install it with: pip install 'datalake[{extra}]'",
        )


class StalledError(LakeError, TimeoutError):
    """Nothing moved for too long; says who waits for what."""


class StoppedError(LakeError, RuntimeError):
    """A run gave up by its own rules and kept what it had committed."""


def nearest(name: str, known: Iterable[str], *, limit: int = 3) -> str:
    """A hint that offers the names nearest to `name`: 'Did you mean a, b?', or what there is."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=limit, cutoff=0.5)
    if close:
        return "Did you mean " + " or ".join(close) + "?"
    if not names:
        return "There is none yet"
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return f"There is: {shown}"
