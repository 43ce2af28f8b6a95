"""Where the cache is, and what lies where in it.

<directory>/CACHEDIR.TAG                      so that backups leave it out
<directory>/lock                              locks of the whole; how many bytes there are
<directory>/leases/<00..1f>                   locks of blocks
<directory>/new/<digest>.<pid>.<bytes>        being made, with the bytes set aside for it
<directory>/blocks/<table>/<2 digits>/<digest>
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["PAGE_BYTES", "Found", "Places", "default_budget", "default_directory", "on_disk"]

PAGE_BYTES: Final = 4096
_MOST_BYTES: Final = 64 << 30
_TAG: Final = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Copies of table data, made by datalake. It may be removed at any time.\n"
)


def default_directory() -> Path:
    """`$DATALAKE_CACHE`, else `$XDG_CACHE_HOME/datalake`, else `~/.cache/datalake`."""
    if named := os.environ.get("DATALAKE_CACHE"):
        return Path(named).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "datalake"


def default_budget(directory: Path, held_bytes: int) -> int:
    """Half of what the disk would have free without the cache, at most 64 GiB.

    Raises:
        OSError: the disk does not say.
    """
    return min(_MOST_BYTES, (shutil.disk_usage(directory).free + held_bytes) // 2)


def on_disk(size: int) -> int:
    """The bytes that a file of `size` bytes takes: whole pages."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES


@dataclass(frozen=True)
class Found:
    """An entry in the listing of the blocks."""

    relative: str
    size: int
    """Bytes on disk."""
    mtime_ns: int
    """When it was used last, or, in the future, when it is expected to be used next."""


class Places:
    """Paths within one directory, as strings: `Path` takes longer than what is done with them."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        self.lock = f"{directory}/lock"
        """The file of locks and of the number of bytes."""
        self.leases = f"{directory}/leases"
        """The folder of the leases' lock files."""
        self.new = f"{directory}/new"
        """The folder of what is being made."""
        self.blocks = f"{directory}/blocks"
        """The folder of the blocks."""

    def block(self, relative: str) -> str:
        """Where a block lies."""
        return f"{self.blocks}/{relative}"

    def make(self) -> None:
        """Make the folders.

        Raises:
            OSError: they cannot be made.
        """
        for folder in (self.leases, self.new, self.blocks):
            os.makedirs(folder, exist_ok=True)
        tag = Path(self.directory, "CACHEDIR.TAG")
        if not tag.exists():
            tag.write_text(_TAG)

    def listing(self, table_folder: str | None = None) -> Iterator[Found]:
        """All blocks, or those of one table; what vanishes meanwhile is left out."""
        for table in [table_folder] if table_folder else _names(self.blocks):
            for digits in _names(f"{self.blocks}/{table}"):
                try:
                    files = list(os.scandir(f"{self.blocks}/{table}/{digits}"))
                except OSError:
                    continue
                for file in files:
                    try:
                        status = file.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    relative = f"{table}/{digits}/{file.name}"
                    yield Found(relative, on_disk(status.st_size), status.st_mtime_ns)

    def being_made(self) -> Iterator[tuple[str, int, int]]:
        """Name, process and bytes set aside of each entry that is being made (or was, by a
        process that died)."""
        for name in _names(self.new):
            digest, _, rest = name.partition(".")
            pid, _, size = rest.partition(".")
            if digest and pid.isdigit() and size.isdigit():
                yield name, int(pid), int(size)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
