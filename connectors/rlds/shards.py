"""The shards of an RLDS dataset: which there are, which there should be, and where episodes lie.

`dataset_info.json` says how many records each shard has. So an episode's number does not depend on
what is lost, and each lost episode is known by its number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any, Final

from connectors.rlds.tfrecord import Record, find_records
from connectors.tree import Tree
from datalake.errors import NotFoundError
from datalake.quarantine import Reason

__all__ = ["Listed", "Shard", "is_shard", "list_records", "list_shards"]

_NAME: Final = re.compile(
    r"(?P<split>[\w-]+)\.(?P<kind>tfrecord|array_record|riegeli)"
    r"-(?P<number>\d{5,})-of-(?P<count>\d{5,})"
)
_NUM_THREADS: Final = 16


@dataclass(frozen=True)
class Shard:
    """One file of a split."""

    split: str
    number: int
    path: str
    """Relative to the dataset's version."""
    size_bytes: int | None
    """None: it is not there."""
    stamp: str
    promised: int | None
    """Records that the metadata promise; None where they do not say."""


@dataclass(frozen=True)
class Listed:
    """A shard and its records."""

    shard: Shard
    records: tuple[Record, ...]
    fault: tuple[Reason, str] | None
    """Why there are no more; None: the file ends with the last."""


def is_shard(name: str) -> bool:
    """Whether a file has the name of a TFRecord shard."""
    found = _NAME.fullmatch(name)
    return found is not None and found["kind"] == "tfrecord"


def list_shards(tree: Tree, info: Mapping[str, Any]) -> list[Shard]:
    """The shards of all splits, those that are missing included.

    Args:
        tree: the folder of one version.
        info: what dataset_info.json says; empty where it says nothing.
    """
    dataset = str(info.get("name") or "")
    promised = _promised(info)
    found: dict[str, dict[int, Shard]] = {}
    counts: dict[str, int] = {split: len(lengths) for split, lengths in promised.items()}
    patterns: dict[str, str] = {}
    for name, (size_bytes, stamp) in tree.stamps().items():
        match = _NAME.fullmatch(name)
        if match is None or match["kind"] != "tfrecord":
            continue
        split, number = _split(match["split"], dataset), int(match["number"])
        counts[split] = max(counts.get(split, 0), int(match["count"]))
        patterns[split] = f"{match['split']}.tfrecord-{{:05d}}-of-{match['count']}"
        lengths = promised.get(split, ())
        length = lengths[number] if number < len(lengths) else None
        found.setdefault(split, {})[number] = Shard(split, number, name, size_bytes, stamp, length)
    shards = []
    for split in sorted(counts, key=lambda name: _rank(name, list(promised))):
        count = counts[split]
        pattern = patterns.get(split, f"{dataset}-{split}.tfrecord-{{:05d}}-of-{count:05d}")
        lengths = promised.get(split, ())
        for number in range(count):
            length = lengths[number] if number < len(lengths) else None
            missing = Shard(split, number, pattern.format(number), None, "", length)
            shards.append(found.get(split, {}).get(number, missing))
    return shards


def list_records(tree: Tree, shards: Sequence[Shard]) -> list[Listed]:
    """The records of each shard, by their heads; remote shards several at once."""
    if tree.root.is_local:
        return [_listed(tree, shard) for shard in shards]
    with ThreadPoolExecutor(_NUM_THREADS) as pool:
        return list(pool.map(lambda shard: _listed(tree, shard), shards))


def _listed(tree: Tree, shard: Shard) -> Listed:
    if shard.size_bytes is None:
        return Listed(shard, (), (Reason.NOT_FOUND, f"the shard {shard.path} is not there"))
    try:
        with _open_sparsely(tree, shard.path) as handle:
            found, error = find_records(handle, shard.size_bytes)
    except NotFoundError:
        return Listed(shard, (), (Reason.NOT_FOUND, f"the shard {shard.path} is not there"))
    if error:
        return Listed(shard, tuple(found), (error.refusal.reason, error.refusal.detail))
    if not found:
        return Listed(shard, (), (Reason.EMPTY, f"the shard {shard.path} is empty"))
    return Listed(shard, tuple(found), None)


def _open_sparsely(tree: Tree, path: str) -> IO[bytes]:
    """Open a file of which a few bytes here and there are read: nothing is read ahead."""
    place = tree.root.join(path)
    if place.is_local:
        return tree.open(path)
    filesystem, address = place.filesystem()
    try:
        handle: IO[bytes] = filesystem.open(address, "rb", cache_type="none")
    except (FileNotFoundError, TypeError):
        return tree.open(path)
    return handle


def _promised(info: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    splits = info.get("splits")
    found = {}
    for split in splits if isinstance(splits, list) else []:
        if isinstance(split, dict) and split.get("name"):
            try:
                lengths = tuple(int(length) for length in split.get("shardLengths") or ())
            except (TypeError, ValueError):
                lengths = ()
            found[str(split["name"])] = lengths
    return found


def _split(prefix: str, dataset: str) -> str:
    """The split's name out of `<dataset>-<split>`."""
    if dataset and prefix.startswith(f"{dataset}-"):
        return prefix[len(dataset) + 1 :]
    return prefix.rpartition("-")[2]


def _rank(split: str, named: list[str]) -> tuple[int, str]:
    return (named.index(split) if split in named else len(named), split)
