"""What episodes and their features are called: tasks, names, and features that are not wanted.

Frames are not rewritten for any of it. Where a column of theirs is dropped or renamed, Lance and
memory move no data; Delta rewrites its files in a stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from datalake.episodes.episode_set import EpisodeSet, open_episodes
from datalake.episodes.operations.change import Change
from datalake.episodes.operations.rows import rewritten, unreferenced, with_columns
from datalake.episodes.quality import domain_of
from datalake.episodes.schema import FRAME_KEYS
from datalake.errors import ExistsError, InputError, NotFoundError, nearest
from datalake.lake import Lake, Lineage
from datalake.recording import BOOKKEEPING, column_of
from datalake.tables import Table

__all__ = ["drop_feature", "rename_feature", "set_task"]


def set_task(
    lake: Lake,
    name: str,
    text: str | Mapping[str, str],
    *,
    episode_ids: Sequence[str] | None = None,
    where: str | None = None,
    dry_run: bool = False,
) -> Change:
    """Change the text of tasks. The episodes table alone is rewritten.

    Args:
        lake: the lake.
        name: the episode set.
        text: old texts and their new ones (`""` stands for tasks without text); or one new text
            for all tasks of the chosen episodes.
        episode_ids: change these episodes only.
        where: change those only for which this SQL condition on the episodes table holds.
        dry_run: only say what would change.

    Raises:
        NotFoundError: there is no such set or episode; or an old text that no chosen episode has
            (names the nearest).
        InputError: a new text is empty; or one text is given for the whole set.
        ConflictError: another writer changed the set meanwhile; nothing is changed.
    """
    texts = dict(text) if isinstance(text, Mapping) else None
    news = list(texts.values()) if texts is not None else [str(text)]
    if not news or not all(new.strip() for new in news):
        raise InputError("A task needs a text", where=name, found=repr(text))
    if texts is None and episode_ids is None and where is None:
        raise InputError(
            "One text would become the task of every episode",
            where=name,
            expected="the episodes that it is the task of, or old texts and their new ones",
            fix="Choose all of them with the condition TRUE, if that is meant",
        )
    before = open_episodes(lake, name)
    chosen = set(before.rows(episode_ids=episode_ids, where=where).tolist())
    found: set[str] = set()
    changed: list[int] = []

    def renamed(old: str | None) -> str | None:
        found.add(old or "")
        return texts.get(old or "", old) if texts is not None else str(text)

    def rewrite(batch: pa.RecordBatch, rows: range) -> pa.RecordBatch:
        columns = {
            key: batch.column(key).to_pylist()
            for key in ("task", "tasks", "domain", "source", "embodiment")
        }
        for at, row in enumerate(rows):
            if row not in chosen:
                continue
            task, tasks = columns["task"][at], columns["tasks"][at] or []
            new, news = renamed(task), [{**each, "task": renamed(each["task"])} for each in tasks]
            if (new, news) != (task, tasks):
                columns["task"][at], columns["tasks"][at] = new, news
                columns["domain"][at] = domain_of(
                    columns["source"][at], columns["embodiment"][at], new
                )
                changed.append(row)
        return with_columns(batch, {key: columns[key] for key in ("task", "tasks", "domain")})

    # Once over what is looked at, to see what there is to do, and once over all to do it.
    start = 0
    for batch in before.episodes.scan(["task", "tasks", "domain", "source", "embodiment"]):
        rewrite(batch, range(start, start + batch.num_rows))
        start += batch.num_rows
    for old in texts or ():
        if old not in found:
            raise NotFoundError(
                f"There is no task {old!r}", where=name, fix=nearest(old, found - {""})
            )
    num_changed, version = len(changed), before.version
    if changed and not dry_run:
        lineage = Lineage(
            "episodes task", {"text": text, **_choice(episode_ids, where)}, {name: version}
        )
        version = before.to_write().rewrite(rewritten(before, rewrite), lineage=lineage).version
    return Change("task", name, before.version, version, num_episodes=num_changed, dry_run=dry_run)


def rename_feature(lake: Lake, name: str, old: str, new: str) -> Change:
    """Give a feature another name, in all episodes.

    Raises:
        NotFoundError: there is no such set or feature (names the nearest).
        ExistsError: another feature has the name.
        InputError: the name cannot be a feature's.
        ConflictError: another writer changed the set meanwhile; nothing is changed.
    """
    before = open_episodes(lake, name)
    feature = before.feature(old)
    _check_name(before, old, new)

    def called(item: dict[str, Any], key: str) -> dict[str, Any]:
        return {**item, key: new} if item[key] == old else item

    frames = None
    writing = before.to_write()
    lineage = Lineage("episodes rename-feature", {"old": old, "new": new}, {name: before.version})
    if feature.dtype != "video":
        columns = {
            column: column_of(new) if column == feature.column else column
            for column in writing.frames.schema.names
        }
        frames = writing.frames.project(columns, properties=lineage.properties())
    made = writing.rewrite(
        _with_features(before, called),
        frames=frames,
        features=[replace(f, name=new) if f.name == old else f for f in before.features],
        lineage=lineage,
    )
    return Change(
        "rename-feature",
        name,
        before.version,
        made.version,
        num_episodes=len(before.index.lengths),
        details={"old": old, "new": new},
    )


def drop_feature(
    lake: Lake, name: str, features: str | Sequence[str], *, dry_run: bool = False
) -> Change:
    """Drop features from all episodes. With a video goes every file that nothing shows any more.

    Raises:
        NotFoundError: there is no such set or feature (names the nearest).
        ConflictError: another writer changed the set meanwhile; nothing is dropped.
    """
    before = open_episodes(lake, name)
    going = [
        before.feature(each) for each in ([features] if isinstance(features, str) else features)
    ]
    names = {feature.name for feature in going}
    columns = {feature.column for feature in going if feature.dtype != "video"}
    videos, num_bytes = unreferenced(
        before, lambda _, spans: [span for span in spans if span["feature"] in names]
    )
    version = before.version
    if going and not dry_run:
        writing = before.to_write()
        lineage = Lineage("episodes drop-feature", {"features": sorted(names)}, {name: version})
        properties = lineage.properties()
        kept = {column: column for column in writing.frames.schema.names if column not in columns}
        frames: Table | None = None
        if columns:
            frames = writing.frames.project(kept, properties=properties)
        version = writing.rewrite(
            _with_features(before, lambda item, key: None if item[key] in names else item),
            frames=frames,
            videos=writing.videos.commit([], removing=videos, properties=properties)
            if len(videos)
            else None,
            features=[feature for feature in before.features if feature.name not in names],
            lineage=lineage,
        ).version
    return Change(
        "drop-feature",
        name,
        before.version,
        version,
        num_episodes=len(before.index.lengths),
        num_videos=len(videos),
        num_video_bytes=num_bytes,
        dry_run=dry_run,
        details={"features": sorted(names)},
    )


def _with_features(before: EpisodeSet, change: Any) -> pa.RecordBatchReader:
    """The rows with what they say of each feature changed, or left out where `change` is None."""
    keys = {"features": "name", "stats": "feature", "videos": "feature"}

    def rewrite(batch: pa.RecordBatch, rows: range) -> pa.RecordBatch:  # noqa: ARG001
        columns = {}
        for column, key in keys.items():
            lists = batch.column(column).to_pylist()
            columns[column] = [
                items and [new for item in items if (new := change(item, key)) is not None]
                for items in lists
            ]
        return with_columns(batch, columns)

    return rewritten(before, rewrite)


def _check_name(episodes: EpisodeSet, old: str, new: str) -> None:
    if not new or any(sign in new for sign in "/`") or new.startswith(".") or new.endswith("."):
        raise InputError(
            "A feature cannot have this name",
            where=episodes.name,
            expected="a text without slashes and backticks, such as observation.state",
            found=repr(new),
        )
    taken = {feature.name for feature in episodes.features if feature.name != old}
    if new in {*taken, *FRAME_KEYS.names, *BOOKKEEPING} or new == old:
        raise ExistsError(f"The name {new!r} is taken", where=episodes.name)


def _choice(episode_ids: Sequence[str] | None, where: str | None) -> dict[str, Any]:
    return {"episode_ids": list(episode_ids) if episode_ids is not None else None, "where": where}
