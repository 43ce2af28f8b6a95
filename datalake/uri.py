"""Addresses: one `Location` for local paths, `s3://`, `gs://`, `az://` and `memory://`.

A `Location` knows its uri and how to reach its store; every library that opens files gets its
options from here, so that a store is configured in one place.
"""

from __future__ import annotations

import configparser
import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from datalake.errors import (
    ConfigError,
    InputError,
    MissingPackageError,
    NotFoundError,
    nearest,
)

if TYPE_CHECKING:
    import fsspec

__all__ = ["Location", "StorageOptions", "locate"]

SCHEMES = {"file", "s3", "gs", "az", "memory"}


@dataclass(frozen=True)
class StorageOptions:
    """How to reach an object store. What is None comes from the standard environment.

    For S3: `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_DEFAULT_REGION`,
    `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_PROFILE` and the
    profile's files.
    """

    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    """Bucket in the path rather than the host. None: yes where an endpoint is given."""
    profile: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    reads_per_s: float | None = None
    """Requests a second that all processes of a machine together may send to the store when they
    stream from it. None: `DATALAKE_READS_PER_S`, or what `datalake.blocks.budget` grants."""

    def resolved(self, env: Mapping[str, str] | None = None) -> StorageOptions:
        """These options with the gaps filled from the environment and the profile's files.

        Raises:
            NotFoundError: there is no such profile.
            ConfigError: the endpoint is no address, or the rate no positive number.
        """
        env = os.environ if env is None else env
        profile = self.profile or env.get("AWS_PROFILE")
        stored = _profile(profile, env) if profile or not env.get("AWS_ACCESS_KEY_ID") else {}
        # An explicitly named profile wins over keys in the environment, as in the AWS tools.
        keys = {**_env_keys(env), **stored} if self.profile else {**stored, **_env_keys(env)}
        endpoint = self.endpoint or keys.get("endpoint_url")
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise ConfigError(
                "The endpoint is no address",
                expected="one such as http://127.0.0.1:8333 or https://s3.example.org",
                found=endpoint,
            )
        return replace(
            self,
            endpoint=endpoint,
            region=self.region or keys.get("region"),
            path_style=bool(endpoint) if self.path_style is None else self.path_style,
            profile=profile,
            access_key=self.access_key or keys.get("aws_access_key_id"),
            secret_key=self.secret_key or keys.get("aws_secret_access_key"),
            session_token=self.session_token or keys.get("aws_session_token"),
            reads_per_s=_reads_per_s(self.reads_per_s, env),
        )


def _reads_per_s(given: float | None, env: Mapping[str, str]) -> float | None:
    """Requests a second as they were given, or as the environment says.

    Raises:
        ConfigError: that is no positive number.
    """
    text = env.get("DATALAKE_READS_PER_S") if given is None else str(given)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ConfigError(
            "The requests a second are no rate",
            where="reads_per_s" if given is not None else "DATALAKE_READS_PER_S",
            expected="a positive number",
            found=text,
        )
    return number


def _env_keys(env: Mapping[str, str]) -> dict[str, str]:
    found = {
        "endpoint_url": env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL"),
        "region": env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION"),
        "aws_access_key_id": env.get("AWS_ACCESS_KEY_ID"),
        "aws_secret_access_key": env.get("AWS_SECRET_ACCESS_KEY"),
        "aws_session_token": env.get("AWS_SESSION_TOKEN"),
    }
    return {key: value for key, value in found.items() if value}


def _profile(name: str | None, env: Mapping[str, str]) -> dict[str, str]:
    """The keys of an AWS profile, from the shared credentials and config files.

    Raises:
        NotFoundError: the profile has a name and is in neither file.
    """
    home = Path(env.get("HOME", "~")).expanduser() / ".aws"
    files = (
        env.get("AWS_CONFIG_FILE") or home / "config",
        env.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials",
    )
    profiles: dict[str, dict[str, str]] = {}
    for file in files:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(file)
        # The config file says `profile` before every name but `default`.
        for section in sorted(parser.sections(), key=lambda name: not name.startswith("profile ")):
            keys = profiles.setdefault(section.removeprefix("profile ").strip(), {})
            keys.update(parser.items(section))
    if name is not None and name not in profiles:
        raise NotFoundError(
            f"There is no AWS profile {name!r}",
            where=" and ".join(map(str, files)),
            fix=nearest(name, profiles),
        )
    return profiles.get(name or "default", {})


@dataclass(frozen=True)
class Location:
    """A place that holds bytes: a uri and the options that reach it.

    `uri` is an absolute path for local files, and `scheme://…` without a trailing slash otherwise.
    """

    uri: str
    options: StorageOptions = field(default_factory=StorageOptions)

    @property
    def scheme(self) -> str:
        """`file`, `s3`, `gs`, `az` or `memory`."""
        head, sep, _ = self.uri.partition("://")
        return head if sep else "file"

    @property
    def is_local(self) -> bool:
        """Whether this is a path of this machine."""
        return self.scheme == "file"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.uri)

    def join(self, *parts: str) -> Location:
        """The location below this one."""
        return replace(self, uri=posixpath.join(self.uri, *parts))

    def __str__(self) -> str:
        return self.uri

    def filesystem(self) -> tuple[fsspec.AbstractFileSystem, str]:
        """The fsspec file system and the path within it.

        Raises:
            MissingPackageError: the driver of this scheme is not installed.
        """
        import fsspec

        kwargs: dict[str, object] = {}
        if self.scheme == "s3":
            opts = self.options.resolved()
            client: dict[str, object] = {}
            if opts.region:
                client["region_name"] = opts.region
            kwargs = {
                "key": opts.access_key,
                "secret": opts.secret_key,
                "token": opts.session_token,
                "endpoint_url": opts.endpoint,
                "client_kwargs": client,
                "config_kwargs": {
                    "s3": {"addressing_style": "path" if opts.path_style else "auto"},
                    # An endpoint that does not answer is reported within seconds.
                    "connect_timeout": 3,
                    "retries": {"max_attempts": 2, "mode": "standard"},
                },
            }
        try:
            fs: fsspec.AbstractFileSystem = fsspec.filesystem(
                "abfs" if self.scheme == "az" else self.scheme, **kwargs
            )
        except ImportError as error:
            package, extra = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gcs"), "az": ("adlfs", "az")}[
                self.scheme
            ]
            raise MissingPackageError.of(package, extra, f"Reading {self.scheme}://") from error
        return fs, self.uri if self.is_local else self.uri.partition("://")[2]


def locate(
    uri: str | os.PathLike[str] | Location, options: StorageOptions | None = None
) -> Location:
    """The location a user means by a path or a uri.

    Raises:
        InputError: the scheme is not one of ours, or a bucket is missing.
    """
    if isinstance(uri, Location):
        return uri
    text = os.fspath(uri)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "An address is not UTF-8", found=repr(text), fix="Rename the folder or file"
        ) from error
    scheme, sep, rest = text.partition("://")
    if not sep:
        if not text:
            raise InputError(
                "An address is empty", expected="a path or a uri such as s3://bucket/lake"
            )
        return Location(str(Path(text).expanduser().absolute()), options or StorageOptions())
    if scheme not in SCHEMES:
        raise InputError(
            f"The scheme {scheme}:// is not known",
            where=text,
            expected="a local path, s3://, gs://, az:// or memory://",
        )
    if scheme == "file":
        return Location(str(Path("/" + rest.lstrip("/"))), options or StorageOptions())
    bucket_is_missing = rest.startswith("/") and scheme != "memory"
    rest = rest.strip("/")
    if bucket_is_missing or not rest:
        raise InputError(
            "The address has no bucket or name", where=text, expected=f"{scheme}://name/path"
        )
    return Location(f"{scheme}://{rest}", options or StorageOptions())
