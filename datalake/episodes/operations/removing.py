"""Deleting episodes, and going back to an earlier version."""

from __future__ import annotations

from collections.abc import Sequence

from datalake.episodes.episode_set import open_episodes
from datalake.episodes.operations.change import Change
from datalake.episodes.operations.rows import frame_rows, unreferenced
from datalake.errors import InputError
from datalake.lake import Lake, Lineage

__all__ = ["delete", "restore"]


def delete(
    lake: Lake,
    name: str,
    *,
    episode_ids: Sequence[str] | None = None,
    where: str | None = None,
    dry_run: bool = False,
) -> Change:
    """Delete episodes, their frames, and the video files that no other episode is in.

    Rows go by index, and no other row is read. What an ingest of the same source finds missing it
    brings back: quarantine is for episodes that are bad, deletion for a set that was made.

    Args:
        lake: the lake.
        name: the episode set.
        episode_ids: delete these.
        where: delete those for which this SQL condition on the episodes table holds.
        dry_run: only say what would go.

    Raises:
        NotFoundError: there is no such set, or no episode of an id.
        InputError: neither ids nor a condition are given, or both.
        ConflictError: another writer changed the set meanwhile; nothing is deleted.
    """
    if episode_ids is None and where is None:
        raise InputError(
            "Nothing says which episodes are to be deleted",
            where=name,
            expected="their ids or a condition",
            fix=f"All of them go with the set: datalake rm {name}",
        )
    before = open_episodes(lake, name)
    rows = before.rows(episode_ids=episode_ids, where=where)
    going = set(rows.tolist())
    videos, num_bytes = unreferenced(before, lambda row, spans: spans if row in going else ())
    frames = frame_rows(before, rows)
    version = before.version
    if going and not dry_run:
        writing = before.to_write()
        lineage = Lineage(
            "episodes delete",
            {"episode_ids": list(episode_ids) if episode_ids is not None else None, "where": where},
            {name: version},
        )
        properties = lineage.properties()
        version = writing.publish(
            [],
            removing=rows,
            frames=writing.frames.commit([], removing=frames, properties=properties),
            videos=writing.videos.commit([], removing=videos, properties=properties)
            if len(videos)
            else None,
            lineage=lineage,
        ).version
    return Change(
        "delete",
        name,
        before.version,
        version,
        num_episodes=len(rows),
        num_frames=len(frames),
        num_videos=len(videos),
        num_video_bytes=num_bytes,
        dry_run=dry_run,
        details={"episode_ids": before.index.episode_ids.take(rows).to_pylist()},
    )


def restore(lake: Lake, name: str, version: int) -> Change:
    """Make an earlier version of a set the latest again, as a new version. Moves no data.

    Raises:
        NotFoundError: there is no such set or version, or it was cleaned up.
        ConflictError: another writer changed the set meanwhile; nothing is restored.
    """
    wanted = open_episodes(lake, name, version)
    latest = lake[f"{name}.episodes"].version
    made = wanted.restore(lineage=Lineage("episodes restore", {"version": version}, {name: latest}))
    return Change(
        "restore",
        name,
        latest,
        made.version,
        num_episodes=len(made.index.lengths),
        num_frames=int(made.index.starts[-1]),
        details={"restored": version},
    )
