"""Exporting an episode set into somebody else's format.

Exporters are found by the entry point group `datalake.exporters`. They write what training code of
other packages opens; which episodes, and which version of the set, is settled here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from datalake import plugins
from datalake.episodes.episode_set import EpisodeSet, open_episodes
from datalake.errors import ConfigError, InputError
from datalake.lake import Lake
from datalake.uri import Location, locate

__all__ = [
    "ExportProgress",
    "ExportReport",
    "ExportSettings",
    "Exporter",
    "export_episodes",
    "find_exporter",
]

_GROUP: Final = "datalake.exporters"

RowArray: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ExportSettings:
    """How to export, beyond what and whereto."""

    transcode: str | None = None
    """Encode all videos anew with this codec; None never encodes."""
    by_split: bool = False
    """Write the episodes split by split, and say in the dataset where each split is."""
    join_videos: bool = True
    """Where the format holds several episodes in a video file, put short files together without
    encoding them. Else every file stays as it is stored, byte for byte."""
    overwrite: bool = False
    """Replace a dataset that is there."""


@dataclass(frozen=True)
class ExportReport:
    """What an export wrote."""

    exporter: str
    destination: str
    episode_set: str
    version: int
    num_episodes: int
    num_frames: int
    num_tasks: int
    num_video_files: int
    num_bytes: int
    """Of all files written."""
    num_videos_copied: int
    """Stored video files that were written byte for byte."""
    num_videos_joined: int
    """Stored video files that were put into one with others, packets unchanged."""
    num_videos_cut: int
    """Clips that were cut out of a stored file at a keyframe, packets unchanged."""
    num_videos_encoded: int
    """Clips that were decoded and encoded again."""
    notes: tuple[str, ...] = ()
    """What a person should know of the result."""

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        kinds = ("copied", "joined", "cut", "encoded")
        counts = {kind: getattr(self, f"num_videos_{kind}") for kind in kinds}
        how = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        return "\n".join(
            [
                f"{self.episode_set} (version {self.version}) is exported to {self.destination}"
                f" as {self.exporter}",
                f"  {_count(self.num_episodes, 'episode')}, {_count(self.num_frames, 'frame')},"
                f" {_count(self.num_tasks, 'task')}, {self.num_bytes / 1e6:,.1f} MB",
                *(
                    [f"  {_count(self.num_video_files, 'video file')} (stored ones: {how})"]
                    if how
                    else []
                ),
                *(f"  {note}" for note in self.notes),
            ]
        )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class ExportProgress(Protocol):
    """What is told how far an export is."""

    def update(self, done: int, *, total: int | None = None, note: str = "") -> None:
        """`done` of `total` episodes are written."""
        ...


@runtime_checkable
class Exporter(Protocol):
    """Writes one format. Stateless; `name` is its entry point's name."""

    name: str
    description: str
    """What opens it, in a few words."""

    def export(
        self,
        episodes: EpisodeSet,
        rows: RowArray,
        destination: Location,
        settings: ExportSettings,
        progress: ExportProgress | None = None,
    ) -> ExportReport:
        """Write episodes as a dataset of its own.

        Whatever the format cannot hold is refused before anything is written. An export that fails
        or is killed leaves nothing that could be taken for a whole dataset. Memory holds one
        episode and one video file, and some hundred bytes for every other episode.

        Args:
            episodes: the set.
            rows: rows of its episodes table, in the order in which they are to be written.
            destination: the dataset's folder.
            settings: how to write it.
            progress: is told how far the export is.

        Raises:
            InputError: the format cannot hold these episodes; says why and what would help.
            ExistsError: the destination is there, and `overwrite` is false or it is no dataset.
            StoreError: the disk or the store refused.
        """
        ...


def find_exporter(name: str) -> Exporter:
    """The exporter of that name.

    Raises:
        NotFoundError: there is none (names the nearest).
        ConfigError: what claims the name is no exporter.
    """
    found = plugins.load(_GROUP, name)
    if not isinstance(found, Exporter):
        raise ConfigError(f"The plug-in {name} is no exporter", where=_GROUP)
    return found


def export_episodes(
    lake: Lake,
    name: str,
    destination: str | os.PathLike[str] | Location,
    *,
    exporter: str = "lerobot_v30",
    where: str | None = None,
    episode_ids: Sequence[str] | None = None,
    version: int | None = None,
    settings: ExportSettings | None = None,
    progress: ExportProgress | None = None,
) -> ExportReport:
    """Export an episode set, or some of its episodes.

    Args:
        lake: the lake.
        name: the episode set.
        destination: a local folder or a uri; its parent need not exist.
        exporter: the format.
        where: export the episodes for which this SQL condition on the episodes table holds.
        episode_ids: export these episodes, in this order.
        version: a version of the set; None for the latest.
        settings: how to write it.
        progress: is told how far the export is.

    Raises:
        NotFoundError: there is no such set, version, episode or exporter.
        InputError: no episode is left, one is named twice, or the format cannot hold them.
        ExistsError: the destination is there.
        StoreError: the disk or the store refused.
    """
    writer = find_exporter(exporter)
    episodes = open_episodes(lake, name, version)
    rows = episodes.rows(episode_ids=episode_ids, where=where)
    if not len(rows):
        raise InputError(
            "There is no episode to export",
            where=episodes.name,
            found="an empty set" if where is None else f"none for which {where}",
        )
    place = locate(destination, lake.location.options)
    return writer.export(episodes, rows, place, settings or ExportSettings(), progress)
