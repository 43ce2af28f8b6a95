"""Recordings, opened: each one is an episode."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from connectors.mcap.bags import Bag
from connectors.mcap.episode import read_recording
from connectors.mcap.plan import Plan
from connectors.refused import RefusedError
from connectors.tree import Tree
from datalake.errors import NotFoundError
from datalake.quarantine import Reason
from datalake.recording import (
    BadEpisode,
    EpisodeData,
    EpisodeRef,
    Feature,
    Finding,
    VideoFile,
)
from datalake.uri import Location

__all__ = ["McapCorpus"]


@dataclass(frozen=True)
class McapCorpus:
    """A folder of recordings, opened. Picklable."""

    source: str
    root: Location
    embodiment: str | None
    fps: float
    """Of the common grid."""
    bags: tuple[Bag, ...] = field(repr=False)
    plan: Plan | None
    """None where no recording can be read."""
    opening_findings: tuple[Finding, ...] = field(default=(), repr=False)

    @property
    def features(self) -> tuple[Feature, ...]:
        """What the plan makes of the topics of the first recording that can be read."""
        return self.plan.features if self.plan else ()

    def findings(self) -> Iterator[Finding]:
        """What was chosen and assumed, and which topics are left out."""
        return iter(self.opening_findings)

    def videos(self) -> Iterator[VideoFile]:
        """None: recordings have pictures."""
        return iter(())

    def episodes(self) -> Iterator[EpisodeRef]:
        """The recordings by name; those whose files are not whole are refused."""
        common = f"{self.plan}|{self.embodiment}"
        for number, bag in enumerate(self.bags):
            refusal = bag.fault
            if refusal and refusal[0] is Reason.TRUNCATED and self.plan and self.plan.salvage:
                refusal = None
            if refusal is None and self.plan is None:
                refusal = Reason.CORRUPT, "no recording of the dataset can be read"
            digest = hashlib.md5(f"{common}|{bag.stamp}".encode(), usedforsecurity=False)
            yield EpisodeRef(
                f"{self.source}/{bag.name}",
                number,
                bag.paths[0] if bag.paths else bag.name,
                None,
                digest.hexdigest(),
                num_bytes=bag.size_bytes,
                refusal=refusal,
                hint=bag.paths,
            )

    def read(self, refs: Sequence[EpisodeRef]) -> Iterator[EpisodeData | BadEpisode]:
        """Read recordings, one after the other."""
        tree = Tree(self.root)
        for ref in refs:
            assert self.plan is not None
            try:
                yield read_recording(ref, tree, ref.hint, self.plan)
            except RefusedError as error:
                yield BadEpisode(ref, error.refusal.reason, error.refusal.detail)
            except NotFoundError as error:
                yield BadEpisode(ref, Reason.NOT_FOUND, f"a file is not there: {error.where}")
