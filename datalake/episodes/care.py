"""Cleaning up and removing an episode set: its three tables as one.

An old version of the set needs the versions of frames and videos that it names. Those get a tag
before anything is cleaned, so a version of the set goes whole or stays whole.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from datalake.episodes.episode_set import (
    PARTS,
    EpisodeSet,
    named_versions,
    open_episodes,
    require_set,
)
from datalake.lake import Lake
from datalake.tables import CleanupReport, Table

__all__ = ["cleanup_episodes", "drop_episodes", "give_up"]

_PIN: Final = "of-set."


def cleanup_episodes(
    lake: Lake,
    name: str,
    *,
    older_than: dt.timedelta = dt.timedelta(days=14),
    dry_run: bool = False,
) -> CleanupReport:
    """Remove versions of a set older than `older_than`, and files that nobody committed.

    The latest version of the set stays, and so do tagged ones (tags of its episodes table), each
    with its frames and videos.

    Returns:
        the versions of the set removed, and the bytes of all three tables.

    Raises:
        NotFoundError: there is no such set.
        InputError: the age is negative.
    """
    latest = open_episodes(lake, name)
    horizon = dt.datetime.now(dt.UTC) - older_than
    infos = latest.episodes.versions()
    kept = {info.version for info in infos if info.tags or info.created_at > horizon}
    named = named_versions(info for info in infos if info.version in {*kept, latest.version})
    # First the promise to keep, then the removals: a crash in between costs room, never a version.
    _pin(latest.frames, {frames for frames, _ in named}, drop=not dry_run)
    _pin(latest.videos, {videos for _, videos in named}, drop=not dry_run)
    reports = [
        table.cleanup(older_than=older_than, dry_run=dry_run)
        for table in (latest.episodes, latest.frames, latest.videos)
    ]
    return CleanupReport(
        reports[0].num_versions, sum(report.num_bytes for report in reports), dry_run
    )


def _pin(table: Table, wanted: set[int], *, drop: bool) -> None:
    """Tag the versions that are wanted, and let go of those that are not any more."""
    infos = table.versions()
    pinned = {info.version for info in infos if f"{_PIN}{info.version}" in info.tags}
    for version in sorted(wanted - pinned):
        table.at(version).tag(f"{_PIN}{version}")
    for version in sorted(pinned - wanted) if drop else ():
        table.untag(f"{_PIN}{version}")


def drop_episodes(lake: Lake, name: str) -> None:
    """Remove a set, all versions. Its quarantine stays.

    Raises:
        NotFoundError: there is no such set.
    """
    require_set(lake, name)
    # Episodes go first: without them there is no set, whatever else is left.
    for part in PARTS:
        lake.drop(f"{name}.{part}")


def give_up(lake: Lake, made: EpisodeSet) -> None:
    """Remove a set that was just made and could not be filled, unless another writer filled it."""
    if open_episodes(lake, made.name).version == made.version:
        drop_episodes(lake, made.name)
