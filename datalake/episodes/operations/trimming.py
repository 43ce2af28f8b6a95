"""Trimming episodes: frames at the head and the tail go, and the rest begins at zero again.

Only the frames of episodes that lose some are rewritten; these episodes come last in the set
afterwards. Video files stay as they are: an episode's span in its file becomes shorter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.episode_set import EpisodeSet, open_episodes
from datalake.episodes.idle import idle_frames
from datalake.episodes.operations.change import Change
from datalake.episodes.operations.rows import frame_rows
from datalake.episodes.quality import domain_of, quality_of
from datalake.episodes.schema import EPISODES
from datalake.episodes.statistics import summarise
from datalake.episodes.walk import walk
from datalake.errors import InputError
from datalake.lake import Lake, Lineage
from datalake.recording import Feature

__all__ = ["trim"]

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Cut:
    """The frames of an episode that stay: from `start` to before `stop`."""

    start: int
    stop: int


def trim(
    lake: Lake,
    name: str,
    *,
    idle: bool = False,
    keep: int = 0,
    head: int = 0,
    tail: int = 0,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    episode_ids: Sequence[str] | None = None,
    where: str | None = None,
    dry_run: bool = False,
) -> Change:
    """Cut frames off the heads and tails of episodes.

    `frame_index` and `timestamp` of the frames that stay are based anew on the first of them, and
    the video spans are moved as much. Statistics of numbers and the quality columns are measured
    again; those of pictures stay what they were (`recompute_stats` measures them). Annotations of
    episodes that are cut become null: they were made of frames that went.

    Args:
        lake: the lake.
        name: the episode set.
        idle: cut the frames in which the robot does not move yet or any more; the rule is that of
            `datalake.episodes.idle`. An episode in which nothing moves at all is left alone.
        keep: leave so many idle frames at each end.
        head: cut so many frames off each head.
        tail: cut so many off each tail.
        ranges: the frames to keep of each of these episodes, from the first number to before the
            second.
        episode_ids: trim these episodes only.
        where: trim those only for which this SQL condition on the episodes table holds.
        dry_run: only say what would go.

    Raises:
        NotFoundError: there is no such set or episode.
        InputError: not exactly one of `idle`, counts and `ranges` is given, a number is out of
            range, or an episode would have no frame left.
        ConflictError: another writer changed the set meanwhile; nothing is cut.
    """
    _check(name, idle=idle, keep=keep, head=head, tail=tail, ranges=ranges)
    before = open_episodes(lake, name)
    if ranges is not None:
        if episode_ids is not None or where is not None:
            raise InputError("The ranges name their episodes", fix="Leave out ids and condition")
        episode_ids = list(ranges)
    chosen = np.sort(before.rows(episode_ids=episode_ids, where=where))
    if idle:
        cuts, num_still = _idle_cuts(before, chosen, keep)
    else:
        cuts, num_still = _counted_cuts(before, chosen, head, tail, ranges), 0
    rows = np.array(sorted(cuts), np.int64)
    num_cut = sum(int(before.index.lengths[r]) - (c.stop - c.start) for r, c in cuts.items())
    version = before.version
    if len(rows) and not dry_run:
        lineage = Lineage(
            "episodes trim",
            {
                "idle": idle,
                "keep": keep,
                "head": head,
                "tail": tail,
                "ranges": {each: list(span) for each, span in (ranges or {}).items()},
                "episode_ids": list(episode_ids) if episode_ids is not None else None,
                "where": where,
            },
            {name: version},
        )
        version = _cut(before.to_write(), rows, cuts, lineage).version
    return Change(
        "trim",
        name,
        before.version,
        version,
        num_episodes=len(rows),
        num_frames=num_cut,
        dry_run=dry_run,
        details={
            "num_without_motion": num_still,
            "episodes": [
                {
                    "episode_id": before.index.episode_ids[row].as_py(),
                    "head": cuts[row].start,
                    "tail": int(before.index.lengths[row]) - cuts[row].stop,
                    "length": cuts[row].stop - cuts[row].start,
                }
                for row in rows.tolist()
            ],
        },
    )


def _check(
    name: str,
    *,
    idle: bool,
    keep: int,
    head: int,
    tail: int,
    ranges: Mapping[str, tuple[int, int]] | None,
) -> None:
    for what, number in (("keep", keep), ("head", head), ("tail", tail)):
        if number < 0:
            raise InputError(f"{what} is negative", where=name, found=str(number))
    if sum([idle, bool(head or tail), ranges is not None]) != 1 or (keep and not idle):
        raise InputError(
            "What is to be trimmed is not clear",
            where=name,
            expected="one of idle frames (idle=True, --idle), of which some may be kept; numbers of"
            " frames at head and tail (--head, --tail); ranges (--range)",
        )


def _idle_cuts(episodes: EpisodeSet, rows: Rows, keep: int) -> tuple[dict[int, _Cut], int]:
    """The cuts, and how many episodes do not move at all."""
    told_by = [feature for feature in episodes.features if feature.is_numeric]
    columns = [feature.column for feature in told_by]
    if not columns:
        return {}, 0
    cuts, num_still = {}, 0
    for row, frames in zip(rows.tolist(), walk(episodes, rows, columns), strict=True):
        head, tail = idle_frames(frames, told_by)
        if head + tail >= frames.num_rows:
            num_still += 1
            continue
        head, tail = max(0, head - keep), max(0, tail - keep)
        if head or tail:
            cuts[row] = _Cut(head, frames.num_rows - tail)
    return cuts, num_still


def _counted_cuts(
    episodes: EpisodeSet,
    rows: Rows,
    head: int,
    tail: int,
    ranges: Mapping[str, tuple[int, int]] | None,
) -> dict[int, _Cut]:
    cuts = {}
    for row in rows.tolist():
        episode_id = episodes.index.episode_ids[row].as_py()
        length = int(episodes.index.lengths[row])
        start, stop = (head, length - tail) if ranges is None else ranges[episode_id]
        if not 0 <= start < stop <= length:
            raise InputError(
                f"Episode {episode_id} would have no frame left"
                if ranges is None
                else f"Episode {episode_id} has no such frames",
                where=episodes.name,
                expected=f"a part of 0:{length}",
                found=f"{start}:{stop}",
                fix="Leave it out, or delete it" if ranges is None else "",
            )
        if (start, stop) != (0, length):
            cuts[row] = _Cut(start, stop)
    return cuts


def _cut(writing: EpisodeSet, rows: Rows, cuts: Mapping[int, _Cut], lineage: Lineage) -> EpisodeSet:
    trimmed: list[dict[str, Any]] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for row, frames in zip(rows.tolist(), walk(writing, rows, schema.names), strict=True):
            cut = cuts[row]
            old = writing.episodes.take([row]).to_pylist()[0]
            kept = _based_anew(frames, cut)
            trimmed.append(_row(old, frames["timestamp"].to_pylist(), kept, cut))
            yield from kept.to_batches()

    schema = writing.frames.schema
    stream = pa.RecordBatchReader.from_batches(schema, batches())
    frames = writing.frames.commit(
        writing.frames.stager().write(stream),
        removing=frame_rows(writing, rows),
        properties=lineage.properties(),
    )
    episodes = pa.Table.from_pylist(trimmed, writing.episodes.schema)
    return writing.publish(
        writing.episodes.stager().write(episodes), removing=rows, frames=frames, lineage=lineage
    )


def _based_anew(frames: pa.Table, cut: _Cut) -> pa.Table:
    kept = frames.slice(cut.start, cut.stop - cut.start)
    times = kept["timestamp"].to_numpy()
    if cut.start:
        times = times - times[0]
    for name, values in (("frame_index", np.arange(len(times))), ("timestamp", times)):
        at = kept.schema.get_field_index(name)
        field = kept.schema.field(at)
        kept = kept.set_column(at, field, pa.array(values, field.type))
    return kept


def _row(
    old: Mapping[str, Any], times: Sequence[float], kept: pa.Table, cut: _Cut
) -> dict[str, Any]:
    """The episode's row after the cut. `times` are those of its frames before."""
    features = tuple(Feature.from_row(row) for row in old["features"] or ())
    stats = {each["feature"]: each for each in old["stats"] or ()}
    stats |= {each.feature: each.as_row() for each in summarise(kept, features)}
    number = kept["task_index"][0].as_py()
    tasks = {each["task_index"]: each["task"] for each in old["tasks"] or ()}
    task = tasks.get(number, old["task"])
    return {
        # Annotations were made of frames that went.
        **{name: old[name] for name in EPISODES.names},
        **quality_of(kept, features, old["fps"]),
        "task": task,
        "domain": domain_of(old["source"], old["embodiment"], task),
        "stats": list(stats.values()),
        "videos": [
            {
                **span,
                "from_s": span["from_s"] + (times[cut.start] if cut.start else 0.0),
                # The end is where the first frame stood that went.
                "to_s": span["from_s"] + times[cut.stop] if cut.stop < len(times) else span["to_s"],
            }
            for span in old["videos"] or ()
        ],
    }
