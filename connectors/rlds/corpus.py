"""An opened RLDS dataset: its episodes by number, and how one is read by its place in a shard."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, Any, Final

from connectors.refused import RefusedError
from connectors.rlds.episode import Rules, read_episode
from connectors.rlds.shards import Listed, Shard, list_records, list_shards
from connectors.rlds.tfrecord import read_record
from connectors.tree import Tree
from datalake.errors import ConfigError, NotFoundError, nearest
from datalake.quarantine import Reason
from datalake.recording import (
    BadEpisode,
    EpisodeData,
    EpisodeRef,
    Feature,
    Finding,
    Severity,
    VideoFile,
)
from datalake.uri import Location

__all__ = ["RLDSCorpus"]

_METADATA: Final = ("features.json", "dataset_info.json")


@dataclass(frozen=True)
class RLDSCorpus:
    """An RLDS dataset, opened. Picklable; copies list the shards anew if they need to."""

    source: str
    root: Location
    embodiment: str | None
    rules: Rules
    info: Mapping[str, Any] = field(repr=False)
    """What dataset_info.json says."""
    split: str | None
    """The only split that is read; None: all."""
    opening_findings: tuple[Finding, ...] = field(default=(), repr=False)
    is_usable: bool = True
    """False where features.json cannot be used: there are no episodes then."""

    @property
    def fps(self) -> float:
        """Frames a second, as the option says or assumed."""
        return self.rules.fps

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """The features of features.json; sizes of pictures that it leaves open, of an episode."""
        declared = self.rules.features
        if all(feature.dtype != "image" or 1 not in feature.shape[:2] for feature in declared):
            return declared
        good = (ref for ref in self.episodes() if ref.refusal is None)
        for data in self.read(list(_first(good, 3))):
            if isinstance(data, EpisodeData):
                return data.features
        return declared

    def check_split(self) -> None:
        """Refuse a split that there is not.

        Raises:
            ConfigError: names those that there are.
        """
        known = {shard.split for shard in self._shards}
        if self.split is not None and self.split not in known:
            raise ConfigError(f"There is no split {self.split!r}", fix=nearest(self.split, known))

    def findings(self) -> Iterator[Finding]:
        """What was assumed, what is left out, and shards that are not as promised."""
        yield from self.opening_findings
        if not self.is_usable:
            return
        for listed in self._listed:
            shard = listed.shard
            if listed.fault:
                reason, detail = listed.fault
                yield Finding(reason, Severity.ERROR, _said(listed, detail), origin=shard.path)
            elif shard.promised is not None and shard.promised != len(listed.records):
                yield Finding(
                    Reason.METADATA_MISMATCH,
                    Severity.WARNING,
                    f"dataset_info.json promises {shard.promised} records, the shard has"
                    f" {len(listed.records)}",
                    origin=shard.path,
                )

    def videos(self) -> Iterator[VideoFile]:
        """None: RLDS has pictures."""
        return iter(())

    def episodes(self) -> Iterator[EpisodeRef]:
        """The episodes of all splits, in the order of dataset_info.json; lost ones are refused."""
        number = 0
        for listed in self._listed if self.is_usable else ():
            shard = listed.shard
            count = max(len(listed.records), shard.promised or 0)
            if listed.fault and count == len(listed.records) and shard.promised is None:
                # How many are lost nobody knows: one stands for all.
                count += 1
            if self.split in (None, shard.split):
                for nth in range(count):
                    yield self._ref(number + nth, listed, nth)
            number += count

    def read(self, refs: Sequence[EpisodeRef]) -> Iterator[EpisodeData | BadEpisode]:
        """Read episodes, each by its own bytes; a shard is open while episodes of it follow."""
        with _Shards(Tree(self.root)) as shards:
            for ref in refs:
                path, split, record = ref.hint
                try:
                    data = read_record(shards.open(path), record)
                    found = read_episode(ref, data, split, self.rules)
                except NotFoundError:
                    yield BadEpisode(ref, Reason.NOT_FOUND, f"the shard {path} is not there")
                except RefusedError as error:
                    refusal = error.refusal
                    yield BadEpisode(ref, refusal.reason, f"{ref.origin}: {refusal.detail}")
                else:
                    yield found

    def _ref(self, number: int, listed: Listed, nth: int) -> EpisodeRef:
        shard = listed.shard
        record = listed.records[nth] if nth < len(listed.records) else None
        return EpisodeRef(
            f"{self.source}/{number:06d}",
            number,
            f"{shard.path}:{nth}",
            None,
            _fingerprint(self._common, f"{shard.size_bytes}|{shard.stamp}", f"{nth}|{record}"),
            num_bytes=record.length if record else 0,
            refusal=None if record else _lost(listed, nth),
            hint=(shard.path, shard.split, record),
        )

    @cached_property
    def _shards(self) -> list[Shard]:
        return list_shards(Tree(self.root), self.info)

    @cached_property
    def _listed(self) -> list[Listed]:
        return list_records(Tree(self.root), self._shards)

    @cached_property
    def _common(self) -> str:
        stamps = Tree(self.root).stamps()
        return _fingerprint(
            str(self.rules), str(self.embodiment), *(str(stamps.get(name)) for name in _METADATA)
        )

    def __getstate__(self) -> dict[str, Any]:
        # A worker gets refs, which have all it needs.
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class _Shards:
    """Keeps one shard open."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._path = ""
        self._handle: IO[bytes] | None = None

    def __enter__(self) -> _Shards:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._handle is not None:
            self._handle.close()

    def open(self, path: str) -> IO[bytes]:
        """The shard, opened unless it is open."""
        if self._handle is None or path != self._path:
            self.__exit__()
            self._handle = None
            self._handle = self._tree.open(path)
            self._path = path
        return self._handle


def _said(listed: Listed, detail: str) -> str:
    promised = listed.shard.promised
    of = f" of {promised}" if promised is not None else ""
    return f"{detail}; {len(listed.records)}{of} episodes can be read"


def _lost(listed: Listed, nth: int) -> tuple[Reason, str]:
    if listed.fault is None:
        found = len(listed.records)
        return Reason.NOT_FOUND, (
            f"dataset_info.json promises {listed.shard.promised} records, the shard has {found}"
        )
    reason, detail = listed.fault
    if nth == len(listed.records):
        return reason, detail
    return reason, f"lost with record {len(listed.records)} of its shard: {detail}"


def _first(refs: Iterator[EpisodeRef], count: int) -> Iterator[EpisodeRef]:
    for _, ref in zip(range(count), refs, strict=False):
        yield ref


def _fingerprint(*texts: str) -> str:
    return hashlib.md5("\x1f".join(texts).encode(), usedforsecurity=False).hexdigest()
