"""HDF5 files, wherever they lie: found, opened, and told apart from what only looks like one.

Local files are opened by their path, others through fsspec with a block cache, since HDF5 reads in
small pieces all over the file. What h5py makes of a damaged file becomes a reason.
"""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from connectors.refused import RefusedError
from connectors.tree import LFS_MARK, Tree
from datalake.errors import (
    CredentialsError,
    LakeError,
    MissingPackageError,
    NotFoundError,
    StoreError,
)
from datalake.quarantine import Reason
from datalake.uri import Location

if TYPE_CHECKING:
    import h5py

__all__ = ["Hdf5Files", "find_hdf5", "h5py_module", "natural", "open_hdf5", "reading"]

_SUFFIXES: Final = (".hdf5", ".h5", ".hdf")
_DEEPEST: Final = 3
_MOST_FOLDERS: Final = 1000
# Of files that come through fsspec: read ahead this much, and keep this many such blocks.
_BLOCK_BYTES: Final = 4 << 20
_MOST_BLOCKS: Final = 16


@dataclass(frozen=True)
class Hdf5Files:
    """The HDF5 files at a path."""

    tree: Tree
    """What the paths are relative to."""
    paths: tuple[str, ...]
    is_folder: bool
    """Whether the path was a folder; else it was the one file."""

    def stamps(self) -> dict[str, tuple[int | None, str]]:
        """Size and stamp of each file that is there, by path."""
        found = {}
        for folder in dict.fromkeys(posixpath.dirname(path) for path in self.paths):
            for name, facts in self.tree.stamps(folder).items():
                found[posixpath.join(folder, name)] = facts
        return found


def h5py_module() -> Any:
    """The module h5py.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise MissingPackageError.of("h5py", "robot", "Reading HDF5") from error
    return h5py


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sorting key by which demo_2 comes before demo_10."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts)


def find_hdf5(root: Location) -> Hdf5Files:
    """The HDF5 file at a path, or those of the folder there, in natural order.

    Where the folder itself has none, those of its folders are taken, down to the third level.
    """
    tree = Tree(root)
    if root.name.lower().endswith(_SUFFIXES) and not tree.names():
        above = tree.above()
        if above is not None:
            return Hdf5Files(above, (root.name,), is_folder=False)
    folders = [""]
    for _ in range(_DEEPEST + 1):
        found = [
            posixpath.join(folder, name)
            for folder in folders
            for name in tree.file_names(lambda name: name.lower().endswith(_SUFFIXES), folder)
        ]
        if found:
            return Hdf5Files(tree, tuple(sorted(found, key=natural)), is_folder=True)
        folders = [
            posixpath.join(folder, name) for folder in folders for name in tree.folders(folder)
        ][:_MOST_FOLDERS]
    return Hdf5Files(tree, (), is_folder=True)


@contextmanager
def open_hdf5(tree: Tree, path: str) -> Iterator[h5py.File]:
    """Open a file for reading.

    Raises:
        RefusedError: it is not there, empty, a Git-LFS pointer, cut or no HDF5 file.
        StoreError: the store does not give it.
        MissingPackageError: h5py is not installed.
    """
    h5py = h5py_module()
    with ExitStack() as stack:
        handle = _handle(tree, path)
        stack.callback(handle.close)
        try:
            _check_beginning(handle, path)
            if tree.root.is_local:
                file = h5py.File(tree.root.join(path).uri, "r", locking=False)
            else:
                file = h5py.File(stack.enter_context(_StoreFile(handle, path)), "r")
        except LakeError:
            raise
        except OSError as error:
            raise _refused(error, path) from error
        stack.enter_context(file)
        yield file


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise what h5py raises within the block as a reason to refuse `what`.

    Raises:
        RefusedError: the part of the file that was read is damaged or absent.
    """
    try:
        yield
    except (RefusedError, LakeError):
        raise
    except KeyError as error:
        detail = f"{what}: {_said(error)}"
        raise RefusedError(Reason.CORRUPT, detail) from error
    except (OSError, RuntimeError, ValueError, OverflowError) as error:
        raise _refused(error, what) from error


def _handle(tree: Tree, path: str) -> IO[bytes]:
    try:
        if tree.root.is_local:
            return tree.open(path)
        place = tree.root.join(path)
        filesystem, address = place.filesystem()
        handle: IO[bytes] = filesystem.open(
            address,
            "rb",
            block_size=_BLOCK_BYTES,
            cache_type="blockcache",
            cache_options={"maxblocks": _MOST_BLOCKS},
        )
    except (NotFoundError, FileNotFoundError) as error:
        raise RefusedError(Reason.NOT_FOUND, f"{path} is not there") from error
    except CredentialsError as error:
        if tree.root.is_local:
            raise RefusedError(Reason.UNREADABLE, f"{path}: {error.found}") from error
        raise
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            "A dataset cannot be read", where=str(tree.root.join(path)), found=str(error)
        ) from error
    return handle


def _check_beginning(handle: IO[bytes], path: str) -> None:
    head = handle.read(len(LFS_MARK))
    handle.seek(0)
    if not head:
        raise RefusedError(Reason.EMPTY, f"{path} has no bytes")
    if head == LFS_MARK:
        detail = f"a Git-LFS pointer lies in the place of {path}: fetch it with git lfs pull"
        raise RefusedError(Reason.LFS_POINTER, detail)


def _refused(error: Exception, what: str) -> RefusedError:
    said = _said(error)
    if "truncated file" in said or "addr overflow" in said:
        return RefusedError(Reason.TRUNCATED, f"{what} is cut off: {said}")
    if "signature not found" in said:
        return RefusedError(Reason.CORRUPT, f"{what} is no HDF5 file")
    return RefusedError(Reason.CORRUPT, f"{what} cannot be read: {said}")


def _said(error: Exception) -> str:
    """The library's words, a KeyError's without the quotes that it adds."""
    text = str(error.args[0]) if error.args else type(error).__name__
    return " ".join(text.split())


class _StoreFile(io.RawIOBase):
    """A file of a store, for HDF5: what the store says when a read fails is our error."""

    def __init__(self, handle: IO[bytes], path: str) -> None:
        self._handle = handle
        self._path = path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._handle.seek(offset, whence)

    def tell(self) -> int:
        return self._handle.tell()

    def readinto(self, buffer: Any) -> int:
        # h5py raises what comes out of here as it is.
        try:
            data = self._handle.read(len(buffer))
        except Exception as error:
            raise StoreError(
                "A dataset cannot be read", where=self._path, found=str(error)
            ) from error
        buffer[: len(data)] = data
        return len(data)
