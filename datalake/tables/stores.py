"""How the table libraries are told to reach a store. One source: `Location.options`."""

from __future__ import annotations

import uuid
from contextlib import suppress
from functools import lru_cache

from datalake.errors import StoreError
from datalake.tables.failures import translated
from datalake.uri import Location, StorageOptions

__all__ = ["delta_options", "ensure_safe_commits", "lance_options"]

# An endpoint that does not answer is reported within some ten seconds, not after minutes.
_PATIENCE = {"connect_timeout": "3s", "timeout": "60s"}


def lance_options(location: Location) -> dict[str, str]:
    """`storage_options` for Lance."""
    if location.is_local:
        return {}
    return {**_PATIENCE, "client_max_retries": "3", "client_retry_timeout": "8", **_s3(location)}


def delta_options(location: Location) -> dict[str, str]:
    """`storage_options` for Delta."""
    if location.is_local:
        return {}
    return {
        **_PATIENCE,
        "max_retries": "3",
        "retry_timeout": "8s",
        **_s3(location),
        **({"aws_conditional_put": "etag"} if location.scheme == "s3" else {}),
    }


def _s3(location: Location) -> dict[str, str]:
    if location.scheme != "s3":
        return {}
    options = location.options.resolved()
    given = {
        "aws_access_key_id": options.access_key,
        "aws_secret_access_key": options.secret_key,
        "aws_session_token": options.session_token,
        "aws_endpoint": options.endpoint,
        # Self-hosted stores have no regions, and the libraries insist on one.
        "aws_region": options.region or ("us-east-1" if options.endpoint else None),
        "aws_virtual_hosted_style_request": "false" if options.path_style else "true",
    }
    if (options.endpoint or "").startswith("http://"):
        given["allow_http"] = "true"
    return {key: value for key, value in given.items() if value}


def ensure_safe_commits(location: Location) -> None:
    """Refuse an S3-compatible store on which two writers can publish the same version.

    Both table formats rely on a PUT that fails if the key is there (`If-None-Match: *`). Some
    servers ignore the header, and then commits vanish without a word. A store behind an endpoint of
    its own is tried once a process, by writing a tiny key twice.

    Raises:
        StoreError: the store overwrites the key.
        MissingPackageError: s3fs is not installed.
    """
    if location.scheme == "s3" and location.options.resolved().endpoint:
        bucket = location.uri.split("/")[2]
        _try_twice(bucket, location.options)


@lru_cache(maxsize=64)
def _try_twice(bucket: str, options: StorageOptions) -> None:
    # An unsafe store raises, and so is tried again at the next commit: nothing is remembered.
    probe = Location(f"s3://{bucket}/.datalake-probe-{uuid.uuid4().hex}", options)
    fs, path = probe.filesystem()
    with translated(Location(f"s3://{bucket}", options), "Trying the store"):
        fs.pipe_file(path, b"first")
        # What the refusal looks like differs between drivers; what lies there does not.
        with suppress(OSError):
            fs.pipe_file(path, b"second", mode="create")
        kept = fs.cat_file(path)
        fs.rm_file(path)
    if kept == b"first":
        return
    raise StoreError(
        "The object store cannot hold tables",
        where=f"{options.resolved().endpoint} bucket {bucket}",
        expected="a store on which a PUT with If-None-Match: * fails if the key is there",
        found="one that overwrites the key, so that commits of two writers would be lost",
        fix="Use AWS S3, Ceph, SeaweedFS, MinIO or another store that honours the header",
    )
