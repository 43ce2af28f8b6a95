"""The quarantine table of an episode set: refused episodes while they stand refused."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from datalake.episodes.schema import EPISODE_QUARANTINE
from datalake.lake import Lake, Lineage
from datalake.pipelines.conflicts import until_landed
from datalake.pipelines.episodes.refused import RefusedEpisode
from datalake.quarantine import QUARANTINE_SUFFIX

__all__ = ["EpisodeQuarantine"]


class EpisodeQuarantine:
    """`<set>.quarantine`, as far as it is about one source.

    A row is known by episode and reason, so writing it again changes nothing. A run looks at every
    episode that is not in the set as the corpus has it; so at its end, the rows that it did not
    write are about faults that are mended, or about episodes that are gone: they go.
    """

    def __init__(
        self,
        lake: Lake,
        set_name: str,
        source: str,
        *,
        format: str,  # noqa: A002 - the word everybody uses
        lineage: Lineage,
    ) -> None:
        self._lake = lake
        self._name = set_name + QUARANTINE_SUFFIX
        self._ours = "source = '" + source.replace("'", "''") + "'"
        self._source = source
        self._format = format
        self._lineage = lineage

    def num_episodes(self) -> int:
        """Episodes of the source that stand refused."""
        if self._name not in self._lake:
            return 0
        rows = self._lake[self._name].scan(["episode_id"], where=self._ours)
        return len({value for batch in rows for value in batch.column(0).to_pylist()})

    def put(self, episodes: Iterable[RefusedEpisode]) -> None:
        """Write refused episodes: one row each, and reason."""
        now = dt.datetime.now(dt.UTC)
        rows: dict[tuple[str, str], dict[str, object]] = {}
        repeats: Counter[tuple[str, str]] = Counter()
        for episode in episodes:
            for finding in episode.findings:
                key = (episode.episode_id, str(finding.reason))
                repeats[key] += 1
                rows.setdefault(
                    key,
                    {
                        "episode_id": episode.episode_id,
                        "source": self._source,
                        "episode_index": episode.episode_index,
                        "reason": str(finding.reason),
                        "detail": finding.detail,
                        "frame_index": finding.frame_index,
                        "feature": finding.feature,
                        "origin": finding.origin,
                        "run_id": self._lineage.run_id,
                        "created_at": now,
                    },
                )
        if not rows:
            return
        for key, row in rows.items():
            if repeats[key] > 1:
                row["detail"] = f"{row['detail']} (and {repeats[key] - 1} more of this reason)"
        if self._name not in self._lake:
            self._lake.create(
                self._name, EPISODE_QUARANTINE, format=self._format, lineage=self._lineage
            )
        data = pa.Table.from_pylist(list(rows.values()), schema=EPISODE_QUARANTINE)
        properties = self._lineage.properties()
        until_landed(
            lambda: self._lake[self._name].merge(
                data, ["episode_id", "reason"], properties=properties
            )
        )

    def resolve(self) -> None:
        """Remove what earlier runs wrote of this source and this run did not."""
        if self._name not in self._lake:
            return
        where = f"{self._ours} AND run_id <> '{self._lineage.run_id}'"
        properties = self._lineage.properties()
        until_landed(lambda: self._lake[self._name].delete(where, properties=properties))
