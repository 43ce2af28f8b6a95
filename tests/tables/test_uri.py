"""Addresses, and where the options of a store come from."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from datalake.errors import ConfigError, InputError, NotFoundError
from datalake.tables.stores import delta_options, lance_options
from datalake.uri import Location, StorageOptions, locate


@pytest.mark.parametrize(
    ("given", "uri", "scheme", "name"),
    [
        ("/a/b.lance", "/a/b.lance", "file", "b.lance"),
        ("/a/b/", "/a/b", "file", "b"),
        ("file:///a/b", "/a/b", "file", "b"),
        ("s3://bucket/a/b/", "s3://bucket/a/b", "s3", "b"),
        ("s3://bucket", "s3://bucket", "s3", "bucket"),
        ("memory://t", "memory://t", "memory", "t"),
    ],
)
def test_addresses(given: str, uri: str, scheme: str, name: str) -> None:
    location = locate(given)
    assert (location.uri, location.scheme, location.name) == (uri, scheme, name)
    assert location.is_local == (scheme == "file")
    assert locate(location) is location
    assert location.join("x", "y").uri == f"{uri}/x/y"
    assert pickle.loads(pickle.dumps(location)) == location


def test_paths_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate("lake").uri == str(tmp_path / "lake")
    assert locate(Path("lake")).uri == str(tmp_path / "lake")
    monkeypatch.setenv("HOME", "/home/someone")
    assert locate("~/lake").uri == "/home/someone/lake"


@pytest.mark.parametrize(
    "bad", ["", "s3://", "s3:///", "s3:///x", "ftp://host/x", "hdfs://x", os.fsdecode(b"/caf\xe9")]
)
def test_bad_addresses_are_told(bad: str) -> None:
    with pytest.raises(InputError):
        locate(bad)


def resolved(options: StorageOptions, **env: str) -> StorageOptions:
    return options.resolved({"HOME": "/nonexistent", **env})


def test_what_is_given_wins_over_the_environment() -> None:
    env = {
        "AWS_ENDPOINT_URL": "http://general",
        "AWS_REGION": "eu-1",
        "AWS_ACCESS_KEY_ID": "env-key",
        "AWS_SECRET_ACCESS_KEY": "env-secret",
        "AWS_SESSION_TOKEN": "env-token",
    }
    from_env = resolved(StorageOptions(), **env)
    assert from_env == StorageOptions(
        "http://general", "eu-1", True, None, "env-key", "env-secret", "env-token"
    )
    given = StorageOptions(endpoint="http://mine", region="us-2", path_style=False)
    assert resolved(given, **env).endpoint == "http://mine"
    assert resolved(given, **env).region == "us-2"
    assert resolved(given, **env).path_style is False
    specific = resolved(StorageOptions(), **env, AWS_ENDPOINT_URL_S3="http://for-s3")
    assert specific.endpoint == "http://for-s3"
    assert resolved(StorageOptions(), AWS_DEFAULT_REGION="ap-1").region == "ap-1"
    assert resolved(StorageOptions()).path_style is False


def test_profiles(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = d\naws_secret_access_key = ds\n"
        "[work]\naws_access_key_id = w\naws_secret_access_key = w%s\n"
    )
    (tmp_path / ".aws" / "config").write_text(
        "[profile work]\nregion = eu-3\nendpoint_url = http://work\n"
    )
    home = {"HOME": str(tmp_path)}
    assert resolved(StorageOptions(), **home).access_key == "d"
    work = resolved(StorageOptions(profile="work"), **home)
    assert (work.access_key, work.secret_key) == ("w", "w%s")
    assert (work.region, work.endpoint) == ("eu-3", "http://work")
    by_env = resolved(StorageOptions(), **home, AWS_PROFILE="work")
    assert by_env.access_key == "w"
    keys = {"AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "es"}
    # A profile that is asked for wins over keys in the environment, a default one does not.
    assert resolved(StorageOptions(profile="work"), **home, **keys).access_key == "w"
    assert resolved(StorageOptions(), **home, **keys).access_key == "e"


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile work]\nregion = eu-3\n")
    with pytest.raises(NotFoundError, match=r"'wrk'.*Did you mean work"):
        resolved(StorageOptions(profile="wrk"), HOME=str(tmp_path))
    with pytest.raises(NotFoundError, match="'wrk'"):
        resolved(StorageOptions(), HOME=str(tmp_path), AWS_PROFILE="wrk")


def test_an_endpoint_without_a_scheme() -> None:
    with pytest.raises(ConfigError, match="http://"):
        resolved(StorageOptions(endpoint="127.0.0.1:8333"))


def test_secrets_are_not_shown() -> None:
    options = StorageOptions(access_key="AKIA1", secret_key="hush1", session_token="hush2")
    assert not {"AKIA1", "hush1", "hush2"} & set(repr(Location("s3://b", options)).split("'"))
    assert "hush" not in repr(options)


def test_the_libraries_are_told_the_same() -> None:
    options = StorageOptions(endpoint="http://h:1", access_key="a", secret_key="s")
    location = Location("s3://bucket/t", options)
    for told in (lance_options(location), delta_options(location)):
        assert told["aws_endpoint"] == "http://h:1"
        assert told["aws_region"]
        assert told["allow_http"] == "true"
        assert told["aws_virtual_hosted_style_request"] == "false"
    assert delta_options(location)["aws_conditional_put"] == "etag"
    assert lance_options(Location("/local")) == delta_options(Location("/local")) == {}
    secure = Location("s3://b/t", StorageOptions(endpoint="https://h"))
    assert "allow_http" not in lance_options(secure)
    assert "aws_conditional_put" not in delta_options(Location("gs://b/t"))


def test_a_local_file_system_takes_paths(tmp_path: Path) -> None:
    fs, path = locate(tmp_path / "x").filesystem()
    fs.pipe_file(path, b"hello")
    assert (tmp_path / "x").read_bytes() == b"hello"
    assert path == os.fspath(tmp_path / "x")


def test_requests_a_second_are_given_or_from_the_environment() -> None:
    env = {"DATALAKE_READS_PER_S": "200"}
    assert StorageOptions().resolved({}).reads_per_s is None
    assert StorageOptions().resolved(env).reads_per_s == 200
    assert StorageOptions(reads_per_s=50).resolved(env).reads_per_s == 50


@pytest.mark.parametrize("text", ["0", "-1", "many", "inf", "nan"])
def test_requests_a_second_that_are_no_rate(text: str) -> None:
    with pytest.raises(ConfigError, match="DATALAKE_READS_PER_S"):
        StorageOptions().resolved({"DATALAKE_READS_PER_S": text})
