"""A corpus whose features have other names, so that robots of different shapes share a set.

An arm of 6 joints and a humanoid of 26 both call them `observation.state`, and one column cannot
hold both. Under two names they can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from datalake.errors import InputError, nearest
from datalake.recording.corpus import (
    BOOKKEEPING,
    BadEpisode,
    EpisodeCorpus,
    EpisodeData,
    EpisodeRef,
    VideoFile,
)
from datalake.recording.feature import Feature
from datalake.recording.finding import Finding
from datalake.uri import Location

__all__ = ["RenamedCorpus", "renamed"]


def renamed(corpus: EpisodeCorpus, names: Mapping[str, str]) -> EpisodeCorpus:
    """The corpus with features called otherwise.

    Args:
        corpus: as a connector opened it.
        names: the new name of each feature that gets one.

    Raises:
        InputError: there is no such feature, or two would have one name.
    """
    if not names:
        return corpus
    known = [feature.name for feature in corpus.features]
    for name in names:
        if name not in known:
            raise InputError(f"There is no feature {name!r} to rename", fix=nearest(name, known))
    called = [names.get(name, name) for name in known]
    for name in called:
        if not name or "/" in name or name in BOOKKEEPING or called.count(name) > 1:
            raise InputError(
                f"A feature cannot be called {name!r}",
                expected="a name of its own, without a slash, that numbers and times no frames",
            )
    return RenamedCorpus(corpus, tuple(sorted(names.items())))


@dataclass(frozen=True)
class RenamedCorpus:
    """See `renamed`. Picklable if the corpus within is."""

    corpus: EpisodeCorpus
    pairs: tuple[tuple[str, str], ...]
    """(old, new) names."""

    @property
    def source(self) -> str:
        """The corpus's."""
        return self.corpus.source

    @property
    def root(self) -> Location:
        """The corpus's."""
        return self.corpus.root

    @property
    def embodiment(self) -> str | None:
        """The corpus's."""
        return self.corpus.embodiment

    @property
    def fps(self) -> float:
        """The corpus's."""
        return self.corpus.fps

    @property
    def features(self) -> tuple[Feature, ...]:
        """Under their new names."""
        return self._features(self.corpus.features)

    def _called(self, name: str) -> str:
        return dict(self.pairs).get(name, name)

    def _features(self, features: Iterable[Feature]) -> tuple[Feature, ...]:
        return tuple(replace(each, name=self._called(each.name)) for each in features)

    def findings(self) -> Iterator[Finding]:
        """Under the new names."""
        for finding in self.corpus.findings():
            yield replace(finding, feature=finding.feature and self._called(finding.feature))

    def videos(self) -> Iterator[VideoFile]:
        """Under the new names."""
        for file in self.corpus.videos():
            yield replace(file, feature=self._called(file.feature))

    def episodes(self) -> Iterator[EpisodeRef]:
        """With stamps that change with the names."""
        names = hashlib.md5(repr(self.pairs).encode(), usedforsecurity=False).hexdigest()[:8]
        for ref in self.corpus.episodes():
            spans = tuple(replace(span, feature=self._called(span.feature)) for span in ref.videos)
            yield replace(ref, videos=spans, stamp=f"{ref.stamp}|renamed {names}")

    def read(self, refs: Sequence[EpisodeRef]) -> Iterator[EpisodeData | BadEpisode]:
        """Under the new names."""
        for ref, found in zip(refs, self.corpus.read(refs), strict=True):
            if isinstance(found, BadEpisode):
                yield replace(found, ref=ref)
                continue
            columns = [self._called(name) for name in found.frames.column_names]
            yield replace(
                found,
                ref=ref,
                frames=found.frames.rename_columns(columns),
                features=self._features(found.features),
                stats={self._called(name): stats for name, stats in found.stats.items()},
            )
