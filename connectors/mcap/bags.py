"""Which recordings a folder holds: MCAP files, and folders that rosbag2 wrote.

A folder with a metadata.yaml is one recording, of the files that it lists; any other `.mcap` file
is one of its own.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from connectors.mcap.records import file_fault
from connectors.tree import Tree, stem
from datalake.errors import NotFoundError
from datalake.quarantine import Reason

__all__ = ["SUFFIXES", "Bag", "find_bags", "one_file"]

SUFFIXES: Final = (".mcap", ".db3")
_METADATA: Final = "metadata.yaml"
_PACKED: Final = (".mcap.zstd", ".db3.zstd", ".mcap.gz", ".mcap.zst")
_DEEPEST: Final = 3


@dataclass(frozen=True)
class Bag:
    """One recording: an episode."""

    name: str
    """Its path below the root, without suffix."""
    paths: tuple[str, ...]
    """Its files, in the order of time."""
    size_bytes: int
    stamp: str
    fault: tuple[Reason, str] | None
    """Why it cannot be read; TRUNCATED may be salvaged."""


def one_file(tree: Tree, name: str) -> Bag | None:
    """The recording that is one file of the tree's root; None if it is not there."""
    stamps = tree.stamps()
    if name not in stamps:
        return None
    return _bag(tree, stem(name), [name], stamps)


def find_bags(tree: Tree, most_folders: int | None = None) -> Iterator[Bag]:
    """The recordings in a folder and below it, by name, numbers in their own order.

    Args:
        tree: the folder.
        most_folders: how many folders are looked at; None: all.
    """
    budget = iter(range(most_folders)) if most_folders else itertools.count()
    return _find(tree, "", 0, budget)


def _find(tree: Tree, folder: str, depth: int, budget: Iterator[int]) -> Iterator[Bag]:
    if next(budget, None) is None:
        return
    stamps = tree.stamps(folder)
    if _METADATA in stamps and any(name.endswith((*SUFFIXES, *_PACKED)) for name in stamps):
        yield _rosbag(tree, folder, stamps)
        return
    is_folder = {name: False for name in stamps if name.endswith(".mcap")}
    if depth < _DEEPEST:
        is_folder |= dict.fromkeys(tree.folders(folder), True)
    for name in sorted(is_folder, key=_natural):
        path = posixpath.join(folder, name)
        if is_folder[name]:
            yield from _find(tree, path, depth + 1, budget)
        else:
            yield _bag(tree, stem(path), [path], {path: stamps[name]})


def _rosbag(tree: Tree, folder: str, stamps: dict[str, tuple[int | None, str]]) -> Bag:
    here = {posixpath.join(folder, file): facts for file, facts in stamps.items()}
    metadata = posixpath.join(folder, _METADATA)
    found = sorted((file for file in stamps if file.endswith(SUFFIXES)), key=_natural)
    names = _listed(tree, metadata) or found
    paths = [posixpath.join(folder, file) for file in names]
    bag = _bag(tree, folder or tree.root.name, paths, here, str(here[metadata]))
    if found or not any(file.endswith(_PACKED) for file in stamps):
        return bag
    packed = Reason.UNSUPPORTED, "the files are compressed as a whole: unpack them with zstd -d"
    return replace(bag, fault=packed)


def _listed(tree: Tree, path: str) -> list[str]:
    """The files that a metadata.yaml lists; a faulty one lists none."""
    with tree.open_text(path) as handle:
        try:
            found: Any = yaml.load(handle.read(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError:
            return []
    info = found.get("rosbag2_bagfile_information") if isinstance(found, dict) else None
    names = info.get("relative_file_paths") if isinstance(info, dict) else None
    # Old releases write the bag's folder in front.
    return [posixpath.basename(str(name)) for name in names] if isinstance(names, list) else []


def _bag(
    tree: Tree,
    name: str,
    paths: Sequence[str],
    stamps: dict[str, tuple[int | None, str]],
    stamp: str = "",
) -> Bag:
    size_bytes, fault = 0, None
    for path in paths:
        size, own_stamp = stamps.get(path, (None, ""))
        size_bytes += size or 0
        stamp += f"|{path}|{size}|{own_stamp}"
        if fault is None:
            try:
                if path not in stamps:
                    raise NotFoundError("", where=path)
                fault = file_fault(tree, path, size)
            except NotFoundError:
                fault = Reason.NOT_FOUND, f"{path} is not there"
    if not paths:
        fault = Reason.NOT_FOUND, "there is no recording beside metadata.yaml"
    return Bag(name, tuple(paths), size_bytes, stamp, fault)


def _natural(name: str) -> list[tuple[int, str]]:
    """`episode_2` before `episode_10`."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]
