"""Messages of a recording's files, in the order in which they lie: MCAP and SQLite (`.db3`).

MCAP is read from its beginning as a stream and its checksums are tested, so that a file whose
recorder crashed, which has no summary, gives what it holds. Format: https://mcap.dev/spec.
"""

from __future__ import annotations

import io
import sqlite3
import struct
from collections.abc import Callable, Iterator
from typing import IO, Any, Final, NamedTuple

from connectors.mcap.channels import Channel
from connectors.refused import RefusedError
from connectors.tree import LFS_MARK, Tree
from datalake.errors import MissingPackageError
from datalake.quarantine import Reason

__all__ = ["MAGIC", "Message", "file_fault", "read_messages"]

MAGIC: Final = b"\x89MCAP0\r\n"
_SQLITE: Final = b"SQLite format 3\0"
# In nanoseconds: that is in 2116. Differences of such times fit 64 bits.
_LATEST: Final = 1 << 62
# What mcap's parsers raise for damaged records.
_DAMAGES: Final = (ValueError, KeyError, OverflowError, MemoryError, RuntimeError, struct.error)


class Message(NamedTuple):
    """One message, not decoded."""

    channel: Channel
    log_time: int
    """When it was recorded, in nanoseconds."""
    publish_time: int
    data: bytes


def file_fault(tree: Tree, path: str, size_bytes: int | None) -> tuple[Reason, str] | None:
    """What the two ends of a file show to be wrong with it.

    Raises:
        NotFoundError: it is not there.
    """
    if not size_bytes:
        return Reason.EMPTY, f"{path} is empty"
    with tree.open(path) as handle:
        head = handle.read(len(LFS_MARK))
        handle.seek(max(0, size_bytes - len(MAGIC)))
        tail = handle.read()
    if head == LFS_MARK:
        return Reason.LFS_POINTER, f"a Git-LFS pointer lies in the place of {path}: git lfs pull"
    if path.endswith(".db3"):
        if head.startswith(_SQLITE):
            return None
        return Reason.CORRUPT, f"{path} is no SQLite database"
    if not head.startswith(MAGIC):
        return Reason.CORRUPT, f"{path} does not begin as an MCAP file does"
    if tail != MAGIC or size_bytes < 2 * len(MAGIC):
        return Reason.TRUNCATED, f"{path} ends without MCAP's footer: its recorder was stopped"
    return None


def read_messages(tree: Tree, path: str, wanted: Callable[[str], bool]) -> Iterator[Message]:
    """The messages of a file on the topics that `wanted` holds for.

    Raises:
        RefusedError: the file ends early or is damaged; what came before is good.
        NotFoundError: it is not there.
        MissingPackageError: mcap is not installed.
    """
    if path.endswith(".db3"):
        yield from _of_database(tree, path, wanted)
        return
    with tree.open(path) as handle:
        yield from _of_stream(handle, path, wanted)


class _Exact:
    """A file of which no read returns less than was asked for."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self._size_bytes = handle.seek(0, io.SEEK_END)
        handle.seek(0)

    def read(self, size: int) -> bytes:
        """Read exactly so many bytes, or raise EOFError."""
        # A damaged length may be any number; no memory is asked for it.
        if size > self._size_bytes:
            raise EOFError
        data = self._handle.read(size)
        if len(data) < size:
            raise EOFError
        return data


def _of_stream(handle: IO[bytes], path: str, wanted: Callable[[str], bool]) -> Iterator[Message]:
    try:
        from mcap.exceptions import McapError
        from mcap.records import Channel as ChannelRecord
        from mcap.records import Message as MessageRecord
        from mcap.records import Schema
        from mcap.stream_reader import StreamReader
    except ImportError as error:
        raise MissingPackageError.of("mcap", "robot", "Reading MCAP") from error
    exact: Any = _Exact(handle)
    records = StreamReader(exact, validate_crcs=True).records
    schemas: dict[int, Schema] = {}
    channels: dict[int, Channel | None] = {}
    while True:
        try:
            record = next(records)
        except StopIteration:
            return
        except EOFError as error:
            raise RefusedError(Reason.TRUNCATED, f"{path} ends within a record") from error
        except (McapError, *_DAMAGES) as error:
            raise RefusedError(Reason.CORRUPT, f"{path} is damaged: {error}") from error
        except Exception as error:
            # The decompressors have errors of their own, lz4 and zstd each another.
            if type(error).__module__.partition(".")[0] in ("lz4", "zstandard", "zstd"):
                raise RefusedError(Reason.CORRUPT, f"{path} is damaged: {error}") from error
            raise
        if isinstance(record, Schema):
            schemas[record.id] = record
        elif isinstance(record, ChannelRecord):
            schema = schemas.get(record.schema_id)
            channels[record.id] = (
                Channel(
                    record.topic,
                    record.message_encoding,
                    schema.name if schema else "",
                    schema.encoding if schema else "",
                    schema.data if schema else b"",
                )
                if wanted(record.topic)
                else None
            )
        elif isinstance(record, MessageRecord):
            if record.channel_id not in channels:
                raise RefusedError(Reason.CORRUPT, f"{path} has a message without a channel")
            channel = channels[record.channel_id]
            if max(record.log_time, record.publish_time) > _LATEST:
                raise RefusedError(
                    Reason.CORRUPT, f"{path} has a message of the time {record.log_time}"
                )
            if channel is not None:
                yield Message(channel, record.log_time, record.publish_time, record.data)


def _of_database(tree: Tree, path: str, wanted: Callable[[str], bool]) -> Iterator[Message]:
    """The messages of a rosbag2 database. SQLite needs a file of its own, so it must be local."""
    place = tree.root.join(path)
    if not place.is_local:
        raise RefusedError(
            Reason.UNSUPPORTED, f"{path} is a SQLite bag on a remote store: copy it, or use MCAP"
        )
    try:
        database = sqlite3.connect(f"file:{place.uri}?mode=ro&immutable=1", uri=True)
        try:
            yield from _of_tables(database, path, wanted)
        finally:
            database.close()
    except sqlite3.Error as error:
        raise RefusedError(Reason.CORRUPT, f"{path} is damaged: {error}") from error


def _of_tables(
    database: sqlite3.Connection, path: str, wanted: Callable[[str], bool]
) -> Iterator[Message]:
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    if not {"topics", "messages"} <= tables:
        raise RefusedError(Reason.CORRUPT, f"{path} has no tables topics and messages")
    definitions: dict[str, tuple[str, str]] = {}
    if "message_definitions" in tables:
        rows = database.execute(
            "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
        )
        definitions = {kind: (encoding, text) for kind, encoding, text in rows}
    channels: dict[int, Channel] = {}
    for number, name, kind, encoding in database.execute(
        "SELECT id, name, type, serialization_format FROM topics"
    ):
        if wanted(name):
            schema_encoding, text = definitions.get(kind, ("", ""))
            channels[number] = Channel(name, encoding, kind, schema_encoding, text.encode())
    for number, time, data in database.execute(
        "SELECT topic_id, timestamp, data FROM messages ORDER BY timestamp, id"
    ):
        if number in channels:
            # rosbag2 keeps one time: when the message was received.
            yield Message(channels[number], time, time, data)
