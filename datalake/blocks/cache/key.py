"""What a cached block is a copy of, and so where it lies."""

from __future__ import annotations

import hashlib
import json
from typing import Final, NamedTuple

__all__ = ["Key", "table_folder"]

_FOLDER_BYTES: Final = 6
_DIGEST_BYTES: Final = 16


class Key(NamedTuple):
    """Rows of a column of one version of a table, as they are or made by a recipe.

    A tuple, since hashing and comparing a dataclass would take longer than the look-up it is for.
    """

    table: str
    """The table's uri."""
    version: int
    column: str
    first: int
    """The first row."""
    stop: int
    """The row after the last."""
    recipe: str = ""
    """How the rows were decoded; empty for rows as they are stored."""

    def about(self) -> bytes:
        """The key as JSON, which an entry carries."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()

    def digest(self) -> str:
        """32 hexadecimal digits, different for different keys."""
        return hashlib.blake2b(self.about(), digest_size=_DIGEST_BYTES).hexdigest()

    def relative(self) -> str:
        """The entry's path below the folder of blocks: table, two digits, digest."""
        digest = self.digest()
        return f"{table_folder(self.table)}/{digest[:2]}/{digest}"

    def __str__(self) -> str:
        decoded = f", {self.recipe}" if self.recipe else ""
        return (
            f"rows {self.first}-{self.stop} of {self.column}{decoded} "
            f"of {self.table} version {self.version}"
        )


def table_folder(table: str) -> str:
    """The folder that holds the blocks of all versions of a table."""
    return hashlib.blake2b(table.encode(), digest_size=_FOLDER_BYTES).hexdigest()
