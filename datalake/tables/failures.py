"""The one place where the libraries' exceptions become ours."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from datalake.errors import (
    ConflictError,
    CredentialsError,
    DiskFullError,
    InputError,
    LakeError,
    NotFoundError,
    StoreError,
)
from datalake.uri import Location

__all__ = ["translated", "translated_stream", "without_fork"]

_T = TypeVar("_T")

# What the libraries say; most of them raise one class for everything.
_CONFLICT: Final = re.compile(
    r"commit conflict|CommitConflict|incompatible with concurrent|Failed to commit transaction|"
    r"retryable commit|transaction conflict|concurrent transaction",
    re.IGNORECASE,
)
_REFUSED: Final = re.compile(
    r"permission denied|operation not permitted|access[ _]?denied|InvalidAccessKeyId|"
    r"SignatureDoesNotMatch|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|HTTP status 40[13]\b|"
    r"ExpiredToken|necessary privileges|403 forbidden|401 unauthorized|"
    r"(no|locate|load|loading|invalid) credentials",
    re.IGNORECASE,
)
_FULL: Final = re.compile(r"no space left|os error 28\b|quota exceeded", re.IGNORECASE)
_READ_ONLY: Final = re.compile(r"read-only file system|os error 30\b", re.IGNORECASE)
_UNREACHABLE: Final = re.compile(
    r"error sending request|connection refused|dns error|timed? ?out|tcp connect|unreachable|"
    r"failed to lookup|could not connect|client error \(connect\)",
    re.IGNORECASE,
)
_MISSING: Final = re.compile(
    r"not found|no such file|does not exist|NoSuchBucket|NoSuchKey|not a delta table|"
    r"no files in log segment",
    re.IGNORECASE,
)
_S3_ANSWER: Final = re.compile(
    r"<Code>(?P<code>\w+)</Code>\s*<Message>(?P<message>[^<]*?)\.?</Message>"
)
_WORDS_KEPT: Final = 150


@contextmanager
def translated(location: Location, doing: str) -> Iterator[None]:
    """Raise what a library raises within the block as an error of ours.

    Args:
        location: the table.
        doing: what was attempted, such as 'Opening the table'.
    """
    try:
        yield
    except LakeError:
        raise
    except (MemoryError, AssertionError, AttributeError, TypeError, NameError):
        raise  # Mistakes of ours are not the store's.
    except Exception as error:
        raise _ours(error, location, doing) from error
    except BaseException as error:
        # What a Rust library raises for a file that it cannot make sense of is no `Exception`.
        if type(error).__name__ != "PanicException":
            raise
        raise StoreError(
            f"{doing} failed, as the library gave up",
            where=location.uri,
            found=_in_brief(str(error)),
            fix="A file of the table may be damaged: restore it from a copy",
        ) from error


def translated_stream(location: Location, doing: str, items: Iterator[_T]) -> Iterator[_T]:
    """The items, with the errors that fetching them raises translated."""
    while True:
        with translated(location, doing):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def _ours(error: Exception, location: Location, doing: str) -> LakeError:
    where, number = location.uri, getattr(error, "errno", None)
    found = _in_brief(str(error))
    # What a folder is called says nothing about what failed.
    text = str(error).replace(where, "").replace(where.partition("://")[2] or where, "")
    if _CONFLICT.search(text) or type(error).__name__ == "CommitFailedError":
        return ConflictError(
            f"{doing} met another change of the table; nothing was published",
            where=where,
            found=found,
            fix="Open the table again and repeat the operation",
        )
    if number in {errno.ENOSPC, errno.EDQUOT} or _FULL.search(text):
        return DiskFullError(
            f"{doing} found no room",
            where=where,
            found=found,
            fix="Free some space and repeat; nothing was published",
        )
    if isinstance(error, PermissionError) or _REFUSED.search(text) or _READ_ONLY.search(text):
        return CredentialsError(
            f"{doing} was refused",
            where=where,
            expected=_access_wanted(location),
            found=found,
            fix=_access_fix(location),
        )
    if not location.is_local and _UNREACHABLE.search(text):
        return StoreError(
            f"{doing} failed, as the store does not answer",
            where=where,
            expected=f"an answer from {_endpoint(location)}",
            found=found,
            fix="Check the endpoint (AWS_ENDPOINT_URL or --endpoint) and the network",
        )
    broken = type(error).__name__ == "ArrowInvalid"  # "Magic bytes not found", for one.
    if isinstance(error, FileNotFoundError) or (_MISSING.search(text) and not broken):
        return NotFoundError(
            f"{doing} found nothing there",
            where=where,
            found=found,
            fix="Create the bucket first" if "NoSuchBucket" in text else "Check the address",
        )
    return StoreError(f"{doing} failed", where=where, found=found)


def _in_brief(text: str) -> str:
    """The library's words without the places in its own source; the store's words if it spoke."""
    answer = _S3_ANSWER.search(text)
    if answer:
        return f"{answer['code']}: {answer['message']}"
    flat = re.sub(r"\s*\x1b\[\d+m↳\x1b\[0m\s*", ": ", text.strip())
    flat = re.sub(r",? ?/[\w./-]+\.rs:\d+(:\d+)?", "", flat)
    flat = re.sub(r"\bLanceError\(\w+\): |: ?<\?xml.*", "", " ".join(flat.split()))
    if len(flat) <= 2 * _WORDS_KEPT:
        return flat
    return f"{flat[:_WORDS_KEPT]} … {flat[-_WORDS_KEPT:]}"  # What was done, and the root cause.


def _endpoint(location: Location) -> str:
    return location.options.resolved().endpoint or f"the {location.scheme} service"


def _access_wanted(location: Location) -> str:
    if location.is_local:
        return f"a folder that the user {os.getuid()} may read and write"
    return "credentials that may read and write there"


def _access_fix(location: Location) -> str:
    if location.is_local:
        return "Change the folder's permissions, or choose another place"
    if location.scheme == "s3":
        return (
            "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile (--profile), "
            "and the bucket's policy"
        )
    return "Check the credentials and the bucket's policy"


def without_fork(where: str, table_format: str) -> InputError:
    """The error for a forked process that would have to use a format that does not survive it."""
    return InputError(
        "A forked process cannot read from the store",
        where=where,
        expected=f"a spawned process: the format {table_format} does not survive a fork",
        fix='Start workers with multiprocessing_context="spawn", or use threads',
    )
