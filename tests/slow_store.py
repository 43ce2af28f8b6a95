"""A real object store made slow, narrow and moody: an HTTP proxy that stands before it.

It passes bytes between sockets inside the kernel (`splice`), so that Python sees heads only and a
benchmark can push hundreds of megabytes a second through it. The `Host` header, which S3 signatures
cover, goes on unchanged: the server sees the address that the client signed.

    with SlowStore(s3_server, latency_s=0.02, bytes_per_s=100e6) as store:
        table = open_table(Location("s3://lake/x.lance", store.options))
        store.refuse(fraction=0.3)
        store.counts()["GET"]

It runs in a process of its own: its work is not counted to the client, and delta-rs holds the
interpreter's lock while it waits for some answers, so that a proxy in its process would never give
them. A line on the process's standard input is a call, a line on its standard output the answer.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:  # The process of the proxy starts without the package.
    from datalake.uri import StorageOptions

__all__ = ["SlowStore"]

_PIECE = 256 << 10
_SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)


@dataclass(frozen=True)
class _Head:
    """The first line and headers of a request or an answer, as they came."""

    first: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def length(self) -> int | None:
        """Bytes of the body; None where it comes in chunks or until the end."""
        value = self.headers.get("content-length")
        return None if value is None else int(value)

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()


@dataclass
class _Fault:
    """What happens to requests that match: to the next `left` of them, or to a share."""

    kind: str
    left: int = 0
    fraction: float = 0.0
    method: str | None = None
    path: re.Pattern[str] | None = None
    status: int = 503

    def strikes(self, method: str, target: str, chance: float) -> bool:
        if self.method not in (None, method) or (self.path and not self.path.search(target)):
            return False
        if self.left:
            self.left -= 1
            return True
        return chance < self.fraction


class _End:
    """One end of a connection: read by lines for heads, by splicing for bodies."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self._buffer = b""

    def head(self) -> _Head | None:
        """The next head; None where the other side has closed."""
        while b"\r\n\r\n" not in self._buffer:
            piece = self.sock.recv(64 << 10)
            if not piece:
                return None
            self._buffer += piece
        raw, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return _Head(first, {k.strip().lower(): v.strip() for k, _, v in pairs}, raw + b"\r\n\r\n")

    def line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            piece = self.sock.recv(64 << 10)
            if not piece:
                raise ConnectionError("cut within a chunked body")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line + b"\r\n"

    def pass_on(self, count: int | None, to: _End, pay: Callable[[int], None]) -> None:
        """Move `count` bytes to the other end, or all up to the end of the connection."""
        ready = self._buffer if count is None else self._buffer[:count]
        if ready:
            self._buffer = self._buffer[len(ready) :]
            pay(len(ready))
            to.sock.sendall(ready)
        left = sys.maxsize if count is None else count - len(ready)
        if not left:
            return
        source, sink = os.pipe()
        try:
            while left:
                moved = os.splice(self.sock.fileno(), sink, min(left, _PIECE))
                if not moved:
                    if count is None:
                        return
                    raise ConnectionError("cut within a body")
                left -= moved
                pay(moved)
                while moved:
                    moved -= os.splice(source, to.sock.fileno(), moved)
        finally:
            os.close(source)
            os.close(sink)

    def pass_body(self, head: _Head, to: _End, pay: Callable[[int], None]) -> None:
        """Move the body that follows a head."""
        if head.length is not None:
            self.pass_on(head.length, to, pay)
        elif head.is_chunked:
            while True:
                size = self.line()
                to.sock.sendall(size)
                count = int(size.split(b";")[0], 16)
                self.pass_on(count, to, pay)
                to.sock.sendall(self.line())
                if not count:
                    return

    def close(self) -> None:
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


@dataclass
class _Bandwidth:
    """So many bytes a second over all connections, with a tenth of a second's burst."""

    bytes_per_s: float | None
    _free_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pay(self, count: int) -> None:
        if self.bytes_per_s is None:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - 0.1) + count / self.bytes_per_s
            wait = self._free_at - now
        if wait > 0:
            time.sleep(wait)


class _Proxy:
    """The proxy itself, in its process. See `SlowStore` for its arguments and calls."""

    def __init__(
        self,
        endpoint: str,
        latency_s: float = 0.0,
        bytes_per_s: float | None = None,
        seed: int = 0,
    ) -> None:
        address = urlsplit(endpoint)
        assert address.hostname is not None
        self._server = (address.hostname, address.port or 80)
        self._latency_s = latency_s
        self._bandwidth = _Bandwidth(bytes_per_s)
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._faults: list[_Fault] = []
        self._random = random.Random(seed)
        self._going_on = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="slow store", daemon=True).start()

    # What to do to requests -----------------------------------------------------------------------

    def add(self, fault: dict[str, Any]) -> None:
        path = fault.pop("path")
        made = _Fault(**fault, path=None if path is None else re.compile(path))
        with self._lock:
            self._faults.append(made)
        if made.kind == "hang":
            self._going_on.clear()

    def heal(self) -> None:
        with self._lock:
            self._faults.clear()
        self._going_on.set()

    def pace(self, latency_s: float, bytes_per_s: float | None) -> None:
        self._latency_s = latency_s
        self._bandwidth.bytes_per_s = bytes_per_s

    def counts(self, reset: bool) -> dict[str, int]:
        with self._lock:
            counts = dict(self._counts)
            if reset:
                self._counts.clear()
        return counts

    # Passing on -----------------------------------------------------------------------------------

    def _count(self, name: str, number: int = 1) -> None:
        with self._lock:
            self._counts[name] += number

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            threading.Thread(
                target=self._serve, args=(sock,), name="slow store client", daemon=True
            ).start()

    def _serve(self, sock: socket.socket) -> None:
        client, server = _End(sock), None
        try:
            server = _End(socket.create_connection(self._server))
            while self._one(client, server):
                pass
        except (OSError, ValueError):
            pass  # Either side hung up; the other is told by closing.
        finally:
            client.close()
            if server:
                server.close()

    def _one(self, client: _End, server: _End) -> bool:
        """Serve one request; whether the connection lives on."""
        request = client.head()
        if request is None:
            return False
        method, target, _ = request.first.split(" ", 2)
        self._count(method)
        self._count("requests")
        if self._latency_s:
            time.sleep(self._latency_s)
        fault = self._fault(method, target)
        if fault is not None and fault.kind == "hang":
            self._count("hung")
            self._going_on.wait()
        if fault is not None and fault.kind == "refuse":
            self._count("refused")
            client.sock.sendall(_refusal(fault.status, method))
            return False  # The body of the request, if any, was not read.
        raw = request.raw
        if "expect" in request.headers:  # The proxy says "go on" itself.
            client.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            raw = re.sub(rb"(?im)^expect:[^\r\n]*\r\n", b"", raw)
        server.sock.sendall(raw)
        client.pass_body(request, server, self._received)
        answer = server.head()
        while answer is not None and answer.first.split(" ")[1].startswith("1"):
            answer = server.head()
        if answer is None:
            return False
        has_body = method != "HEAD" and answer.first.split(" ")[1] not in ("204", "304")
        if fault is not None and fault.kind == "cut" and has_body and (answer.length or 0) > 1:
            self._count("cut")
            client.sock.sendall(answer.raw)
            server.pass_on((answer.length or 0) // 2, client, self._sent)
            return False
        client.sock.sendall(answer.raw)
        if has_body:
            if answer.length is None and not answer.is_chunked:
                server.pass_on(None, client, self._sent)
                return False
            server.pass_body(answer, client, self._sent)
        closes = "close" in (request.headers.get("connection"), answer.headers.get("connection"))
        return not closes

    def _fault(self, method: str, target: str) -> _Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.strikes(method, target, self._random.random()):
                    return fault
        return None

    def _sent(self, count: int) -> None:
        self._count("bytes", count)
        self._bandwidth.pay(count)

    def _received(self, count: int) -> None:
        self._count("bytes_in", count)
        self._bandwidth.pay(count)


def _refusal(status: int, method: str) -> bytes:
    body = b"" if method == "HEAD" else _SLOW_DOWN
    return (
        f"HTTP/1.1 {status} Slow Down\r\nContent-Type: application/xml\r\n"
        f"Content-Length: {len(_SLOW_DOWN)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


class SlowStore:
    """A proxy before an S3 server, while the `with` block lasts.

    Args:
        server: the options that reach the server. `options` reach it through the proxy.
        latency_s: waited before each request is sent on.
        bytes_per_s: over all connections and both directions; None for no cap.
        seed: of which requests meet a fault that is given as a fraction.
    """

    def __init__(
        self,
        server: StorageOptions,
        *,
        latency_s: float = 0.0,
        bytes_per_s: float | None = None,
        seed: int = 0,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, json.dumps([server.endpoint, latency_s, bytes_per_s, seed])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()
        self._latency_s = latency_s
        self.options = replace(server, endpoint=self._answer(), path_style=True)

    def __enter__(self) -> SlowStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cut all connections."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def _call(self, name: str, *arguments: object) -> Any:
        assert self._process.stdin
        with self._lock:
            self._process.stdin.write(json.dumps([name, arguments]) + "\n")
            self._process.stdin.flush()
            return self._answer()

    def _add(self, kind: str, **fault: object) -> None:
        self._call("add", {"kind": kind, **fault})

    def refuse(
        self,
        *,
        count: int = 0,
        fraction: float = 0.0,
        status: int = 503,
        method: str | None = "GET",
        path: str | None = None,
    ) -> None:
        """Answer SlowDown to the next `count` requests, or to a fraction of all from now on.

        `path` is a regular expression that the request's target must hold.
        """
        self._add("refuse", left=count, fraction=fraction, status=status, method=method, path=path)

    def hang(
        self,
        *,
        count: int = 0,
        fraction: float = 0.0,
        method: str | None = "GET",
        path: str | None = None,
    ) -> None:
        """Do not answer these requests, until `heal`."""
        self._add("hang", left=count, fraction=fraction, method=method, path=path)

    def cut(
        self,
        *,
        count: int = 0,
        fraction: float = 0.0,
        method: str | None = "GET",
        path: str | None = None,
    ) -> None:
        """Hang up in the middle of the answer's body."""
        self._add("cut", left=count, fraction=fraction, method=method, path=path)

    def heal(self) -> None:
        """No more faults; what hangs goes on."""
        self._call("heal")

    def pace(self, *, latency_s: float | None = None, bytes_per_s: float | None = None) -> None:
        """Another latency (None leaves it), another cap (None for none)."""
        self._latency_s = self._latency_s if latency_s is None else latency_s
        self._call("pace", self._latency_s, bytes_per_s)

    def counts(self, *, reset: bool = False) -> dict[str, int]:
        """Requests by method, `requests` in all, `refused`, `hung`, `cut`, and `bytes` of bodies
        sent to clients (`bytes_in`: received from them)."""
        names = ("GET", "HEAD", "PUT", "requests", "refused", "hung", "cut", "bytes", "bytes_in")
        return {**dict.fromkeys(names, 0), **self._call("counts", reset)}


def main() -> None:
    """Be the proxy until the standard input ends."""
    proxy = _Proxy(*json.loads(sys.argv[1]))
    _say(proxy.endpoint)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        _say(getattr(proxy, name)(*arguments))


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
