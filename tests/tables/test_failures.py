"""Stores that refuse, are full, or do not answer: our errors, in time, nothing half written."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from datalake.errors import (
    CredentialsError,
    DiskFullError,
    InputError,
    LakeError,
    NotFoundError,
    StoreError,
)
from datalake.tables import Table, create_table, drop_table, open_table
from datalake.uri import Location, StorageOptions
from tests.servers import free_ports

SCHEMA = pa.schema([("id", pa.int64()), ("payload", pa.large_binary())])
FORMATS = pytest.mark.parametrize("fmt", ["lance", "delta"])
PATIENCE_S = 15


def rows(num_bytes: int = 10) -> pa.Table:
    return pa.table({"id": [1, 2], "payload": [os.urandom(num_bytes)] * 2}, schema=SCHEMA)


@FORMATS
def test_nothing_there(tmp_path: Path, fmt: str) -> None:
    for act in (open_table, drop_table, lambda place: open_table(place, format=fmt)):
        with pytest.raises(NotFoundError):
            act(tmp_path / f"none.{fmt}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError):
        open_table(tmp_path / "empty")


@FORMATS
def test_the_format_is_found_by_looking(tmp_path: Path, fmt: str) -> None:
    create_table(tmp_path / "no_suffix", SCHEMA, format=fmt)
    assert open_table(tmp_path / "no_suffix").format == fmt
    drop_table(tmp_path / "no_suffix")
    assert not (tmp_path / "no_suffix").exists()


@FORMATS
def test_a_file_is_no_place_for_a_table(tmp_path: Path, fmt: str) -> None:
    place = tmp_path / "file"
    place.write_text("hello")
    for act in (lambda: create_table(place, SCHEMA, format=fmt), lambda: open_table(place)):
        with pytest.raises(StoreError, match="a file"):
            act()
    with pytest.raises(LakeError):
        create_table(place / "below.lance", SCHEMA, format=fmt)
    assert place.read_text() == "hello"


def test_formats_and_places_must_fit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lance or delta"):
        create_table(tmp_path / "t", SCHEMA, format="iceberg")
    with pytest.raises(InputError, match="memory://"):
        create_table(tmp_path / "t", SCHEMA, format="memory")
    assert create_table("memory://by-scheme", SCHEMA).format == "memory"
    drop_table("memory://by-scheme")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a small file system")
    yield folder
    # A thread of an engine may still hold a file there for a moment.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@FORMATS
def test_a_full_disk_leaves_the_table_as_it_was(small_disk: Path, fmt: str) -> None:
    table = create_table(small_disk / "t", SCHEMA, format=fmt).append(rows())
    with pytest.raises(DiskFullError, match="room"):
        table.append(rows(4 << 20))
    assert shutil.disk_usage(small_disk).free > 3 << 20
    assert open_table(table.uri).version == table.version
    assert open_table(table.uri).scan().read_all().num_rows == 2


@FORMATS
def test_a_read_only_place_refuses(small_disk: Path, fmt: str) -> None:
    table = create_table(small_disk / "t", SCHEMA, format=fmt).append(rows())
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for act in (
        lambda: table.append(rows()),
        lambda: create_table(small_disk / "other", SCHEMA, format=fmt),
        lambda: table.delete("id = 1"),
    ):
        with pytest.raises(CredentialsError, match="refused"):
            act()
    assert open_table(table.uri).count_rows() == 2


def within_patience(act: Callable[[], object]) -> LakeError:
    """The error that `act` raises, soon enough."""
    started = time.monotonic()
    with pytest.raises(LakeError) as caught:
        act()
    assert time.monotonic() - started < PATIENCE_S
    return caught.value


@pytest.mark.s3
@FORMATS
class TestStores:
    @pytest.fixture
    def place(self, s3_server: StorageOptions, fmt: str, request) -> Location:
        return Location(f"s3://lake/failures/{request.node.name}", s3_server)

    def test_an_endpoint_that_does_not_answer(self, place: Location, fmt: str) -> None:
        endpoint = f"http://127.0.0.1:{free_ports(1)[0]}"
        dead = replace(place, options=replace(place.options, endpoint=endpoint))
        for act in (
            lambda: open_table(dead, format=fmt),
            lambda: create_table(dead, SCHEMA, format=fmt),
        ):
            error = within_patience(act)
            assert isinstance(error, StoreError)
            assert endpoint in str(error)

    @pytest.mark.parametrize("wrong", ["access_key", "secret_key"])
    def test_wrong_credentials(self, place: Location, fmt: str, wrong: str) -> None:
        table = create_table(place, SCHEMA, format=fmt).append(rows())
        stranger = replace(place, options=replace(place.options, **{wrong: "wrong"}))
        for act in (
            lambda: open_table(stranger, format=fmt),
            lambda: create_table(stranger.join("other"), SCHEMA, format=fmt),
        ):
            error = within_patience(act)
            assert isinstance(error, CredentialsError)
            assert str(place.options.secret_key) not in str(error) + repr(place)
        assert open_table(place).version == table.version

    def test_a_bucket_that_is_not_there(self, place: Location, fmt: str) -> None:
        error = within_patience(lambda: open_table(replace(place, uri="s3://none/t"), format=fmt))
        assert isinstance(error, NotFoundError)
        assert "bucket" in str(error)

    def test_a_store_that_overwrites_is_refused(
        self, careless_server: StorageOptions, fmt: str
    ) -> None:
        place = Location("s3://lake/t", careless_server)
        error = within_patience(lambda: create_table(place, SCHEMA, format=fmt))
        assert isinstance(error, StoreError)
        assert "If-None-Match" in str(error)


class _Careless(http.server.BaseHTTPRequestHandler):
    """An object store that pays no attention to If-None-Match, as several do."""

    protocol_version = "HTTP/1.1"
    stored: dict[str, bytes]

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "aws-chunked":
            body = body.split(b"\r\n")[1]
        self.stored[self.path] = body
        self._answer(200)

    def do_GET(self) -> None:
        if self.path in self.stored:
            self._answer(200, self.stored[self.path])
        else:
            self._answer(404)

    def do_HEAD(self) -> None:
        self._answer(200 if self.path in self.stored else 404)

    def do_DELETE(self) -> None:
        self.stored.pop(self.path, None)
        self._answer(204)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("ETag", '"x"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def careless_server() -> Iterator[StorageOptions]:
    handler = type("Handler", (_Careless,), {"stored": {}})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield StorageOptions(
            endpoint=f"http://127.0.0.1:{server.server_port}",
            region="us-east-1",
            access_key="a",
            secret_key="b",
        )
        server.shutdown()


@FORMATS
def test_errors_of_a_broken_file_are_ours(tmp_path: Path, fmt: str) -> None:
    table: Table = create_table(tmp_path / "t", SCHEMA, format=fmt).append(rows())
    for path in Path(table.uri).rglob("*"):
        if path.suffix in {".parquet"} or path.parent.name == "data":
            path.write_bytes(b"garbage" * 10)
    again = open_table(table.uri)
    for act in (lambda: again.scan().read_all(), lambda: again.take([0])):
        with pytest.raises(StoreError, match="failed"):
            act()
