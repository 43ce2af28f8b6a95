"""Zarr groups, in a folder or in a zip file, wherever they lie.

Two things go wrong in Zarr without a word, and are noticed here. A chunk that is not there reads as
the array's fill value: of a copy that broke off, pictures turn black and numbers zero. The store
remembers such chunks; who reads decides what they mean, since Zarr 3 may leave out chunks that hold
nothing but the fill value. And Blosc unpacks a chunk that is cut, into what lies behind it in
memory; the length in the chunk's head is compared with what is there.
"""

from __future__ import annotations

import posixpath
import struct
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from connectors.frame_arrays import NoFeatureError
from connectors.refused import RefusedError
from connectors.tree import Tree
from datalake.errors import InputError, LakeError, MissingPackageError, NotFoundError, StoreError
from datalake.quarantine import Reason
from datalake.uri import Location

if TYPE_CHECKING:
    import zarr

__all__ = ["ZarrGroup", "open_zarr", "reading_zarr"]

_ZIP_BEGINS: Final = b"PK"
# What zipfile raises of a list of files that is none.
_NO_ZIP: Final = (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, struct.error)
_BLOSC_HEADER_BYTES: Final = 16
_METADATA: Final = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


@dataclass(frozen=True)
class ZarrGroup:
    """An opened group."""

    group: zarr.Group
    _store: Any

    def absent_chunks(self) -> list[str]:
        """The chunks that were not there since this was last asked.

        Raises:
            Exception: what reading one of them raised; it read as the fill value meanwhile.
        """
        absent, failures = self._store.absent.copy(), self._store.failures.copy()
        self.forget()
        if failures:
            raise failures[0]
        return list(absent)

    def forget(self) -> None:
        """Ask of no chunk that was read until now."""
        self._store.absent.clear()
        self._store.failures.clear()

    def array(self, path: str) -> Any:
        """An array of the group; its chunks are looked at before they are unpacked.

        Blosc unpacks a chunk that is cut without an error, into what lies behind it in memory.

        Raises:
            KeyError: there is none.
        """
        found: Any = self.group[path]
        if _is_blosc(found.metadata):
            self._store.blosc.add(path)
        return found

    def members(self, path: str) -> dict[str, Any]:
        """What lies below a group, by name: arrays, groups, and None for what is neither."""
        from zarr.core.sync import sync

        async def names() -> list[str]:
            return [name async for name in self._store.list_dir(path)]

        return {
            name: self._member(f"{path}/{name}")
            for name in sorted(sync(names()))
            if not name.endswith(_METADATA)
        }

    def _member(self, path: str) -> Any:
        try:
            return self.group[path]
        except KeyError:
            return None

    def encoded(self, key: str) -> bytes | None:
        """The bytes of a chunk as they are stored; None if it is not there."""
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        found = sync(self._store.get(key, default_buffer_prototype()))
        return None if found is None else bytes(found.to_bytes())


@contextmanager
def open_zarr(root: Location) -> Iterator[ZarrGroup]:
    """Open a group for reading: a folder, or a zip file that holds one.

    Raises:
        InputError: it is no Zarr group, or a zip file that is cut.
        NotFoundError: it is not there.
        StoreError: the store does not give it.
        MissingPackageError: zarr is not installed.
    """
    try:
        import zarr
    except ImportError as error:
        raise MissingPackageError.of("zarr", "robot", "Reading Zarr") from error
    from fsspec.implementations.zip import ZipFileSystem

    _register_codecs()
    with ExitStack() as stack:
        filesystem, path = root.filesystem()
        above = Tree(root).above()
        if above is not None and not Tree(root).names():
            handle = stack.enter_context(above.open(root.name))
            if handle.read(2) != _ZIP_BEGINS:
                raise InputError(
                    "The file is no zip file", where=str(root), expected="a Zarr group in one"
                )
            try:
                filesystem, path = ZipFileSystem(fo=handle), ""
            except _NO_ZIP as error:
                raise InputError(
                    "The zip file is damaged, or cut off before its list of files",
                    where=str(root),
                    found=str(error),
                    fix="Download it again",
                ) from error
        store = _noting_store(filesystem, path)
        try:
            group = zarr.open_group(store, mode="r")
        except LakeError:
            raise
        except FileNotFoundError as error:
            raise NotFoundError(
                "There is no Zarr group", where=str(root), expected="a file .zgroup or zarr.json"
            ) from error
        except Exception as error:
            # Zarr parses JSON of strangers with what comes to hand.
            raise InputError(
                "The Zarr group cannot be read", where=str(root), found=str(error)
            ) from error
        yield ZarrGroup(group, store)


@contextmanager
def reading_zarr(what: str) -> Iterator[None]:
    """Raise what zarr and its codecs raise within the block as a reason to refuse `what`.

    Raises:
        RefusedError: a chunk or its description is damaged.
        StoreError: the store refused or did not answer.
    """
    try:
        yield
    except (RefusedError, NoFeatureError, LakeError):
        raise
    except (ConnectionError, PermissionError, TimeoutError) as error:
        raise StoreError("A dataset cannot be read", where=what, found=str(error)) from error
    except Exception as error:
        # Each codec has errors of its own, with no common base.
        said = " ".join(str(error).split()) or type(error).__name__
        raise RefusedError(Reason.CORRUPT, f"{what} cannot be read: {said}") from error


def _is_blosc(metadata: Any) -> bool:
    """Whether chunks are Blosc's from their first byte to their last."""
    last = getattr(metadata, "compressor", None)  # Of version 2.
    if last is None:
        codecs = getattr(metadata, "codecs", ())
        last = codecs[-1] if codecs else None
    return "blosc" in (getattr(last, "codec_id", ""), type(last).__name__.lower()[:5])


def _register_codecs() -> None:
    """Make the picture codecs known to numcodecs, from which Zarr takes those of version 2."""
    try:
        from imagecodecs.numcodecs import register_codecs
    except ImportError as error:
        raise MissingPackageError.of("imagecodecs", "robot", "Reading pictures in Zarr") from error
    register_codecs(verbose=False)


def _noting_store(filesystem: Any, path: str) -> Any:
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
    from zarr.storage import FsspecStore

    class NotingStore(FsspecStore):
        """Remembers the chunks that were not there, and refuses Blosc's that are cut."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.absent: list[str] = []
            self.failures: list[Exception] = []
            self.blosc: set[str] = set()

        async def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
            if key.endswith(_METADATA):
                return await super().get(key, *args, **kwargs)
            # Zarr reads chunks at the same time; what one raised would leave the others behind.
            try:
                found = await super().get(key, *args, **kwargs)
            except Exception as error:
                self.failures.append(error)
                return None
            if found is None:
                self.absent.append(key)
            elif not (args[1:] or kwargs.get("byte_range")) and self._is_cut(key, found):
                refused = RefusedError(Reason.TRUNCATED, f"the chunk {key} is cut off")
                self.failures.append(refused)
                return None
            return found

        def _is_cut(self, key: str, chunk: Any) -> bool:
            if not any(key.startswith(f"{path}/") for path in self.blosc):
                return False
            head = chunk[:_BLOSC_HEADER_BYTES].to_bytes()
            promised = int.from_bytes(head[12:], "little")
            return len(head) < _BLOSC_HEADER_BYTES or promised != len(chunk)

        async def list_dir(self, prefix: str) -> AsyncIterator[str]:
            # Zarr's own takes it that names begin with the path as it was given.
            try:
                found = await self.fs._ls(
                    posixpath.join(self.path, prefix.rstrip("/")), detail=False
                )
            except FileNotFoundError:
                return
            for name in found:
                yield posixpath.basename(name.rstrip("/"))

    wrapped = AsyncFileSystemWrapper(filesystem, asynchronous=True)
    return NotingStore(fs=wrapped, path=path, read_only=True)
