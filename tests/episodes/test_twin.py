"""Operations in any order, against a slow twin: lists of episodes in plain Python.

After each step the set must hold what the twin holds, in the same order, and each version that is
left must still hold what it held when it was made.
"""

from __future__ import annotations

import datetime as dt
import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from datalake.episodes import EpisodeSet, open_episodes
from datalake.episodes.care import cleanup_episodes
from datalake.episodes.operations import (
    Ranges,
    delete,
    drop_feature,
    merge,
    rename_feature,
    restore,
    set_task,
    split,
    trim,
)
from datalake.errors import ConflictError
from datalake.lake import Lineage, open_lake
from datalake.recording import column_of
from tests.robots import CAMERA, WRIST, write_robots

LINEAGE = Lineage("twin")
_numbers = itertools.count()


@dataclass(frozen=True)
class Episode:
    """What is known of an episode: its frames by column, its tasks and its pictures."""

    episode_id: str
    columns: dict[str, list[Any]]
    tasks: dict[int, str]
    spans: tuple[tuple[str, str, float, float], ...]

    @property
    def length(self) -> int:
        return len(self.columns["timestamp"])

    def cut(self, start: int, stop: int) -> Episode:
        """The frames from `start` to before `stop`."""
        columns = {name: values[start:stop] for name, values in self.columns.items()}
        times = self.columns["timestamp"]
        first = times[start] if start else 0.0
        columns["timestamp"] = [time - first for time in columns["timestamp"]]
        columns["frame_index"] = list(range(stop - start))
        spans = tuple(
            (name, file, begin + first, begin + times[stop] if stop < len(times) else end)
            for name, file, begin, end in self.spans
        )
        return replace(self, columns=columns, spans=spans)


@dataclass(frozen=True)
class Twin:
    """What a set holds."""

    episodes: tuple[Episode, ...] = ()
    features: frozenset[str] = frozenset()
    videos: dict[str, bytes] = field(default_factory=dict)

    def without_files(self, gone: set[str]) -> Twin:
        """The twin without those of these files that nothing shows any more."""
        named = {file for each in self.episodes for _, file, _, _ in each.spans}
        kept = {file: data for file, data in self.videos.items() if file not in gone - named}
        return replace(self, videos=kept)


def files_of(episodes: Sequence[Episode]) -> set[str]:
    return {file for each in episodes for _, file, _, _ in each.spans}


def twin_of(held: EpisodeSet) -> Twin:
    """What a set holds, read the slow way: each frame by what it says of itself."""
    frames = held.frames.scan().read_all().to_pydict()
    start, episodes = 0, []
    for row in held.episodes.scan().read_all().to_pylist():
        stop = start + row["length"]
        columns = {name: values[start:stop] for name, values in frames.items()}
        assert set(columns.pop("episode_id")) == {row["episode_id"]}
        # What an episode lacks is null.
        names = {feature["name"] for feature in row["features"]}
        own = {column_of(name) for name in names} | {"frame_index", "timestamp", "task_index"}
        assert all(set(v) == {None} for name, v in columns.items() if name not in own)
        episodes.append(
            Episode(
                row["episode_id"],
                {name: values for name, values in columns.items() if name in own},
                {task["task_index"]: task["task"] for task in row["tasks"]},
                tuple(tuple(span.values()) for span in row["videos"] or ()),
            )
        )
        start = stop
    assert start == len(frames["timestamp"])
    files = held.videos.scan(["video_id", "video"]).read_all().to_pylist()
    assert len({row["video_id"] for row in files}) == len(files)
    return Twin(
        tuple(episodes),
        frozenset(feature.name for feature in held.features),
        {row["video_id"]: row["video"] for row in files},
    )


class Sets(RuleBasedStateMachine):
    """Operations on the set `g1`, into which parts of it and of `other` come back."""

    kept_as: ClassVar[str]

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        uri = self.folder.name
        if self.kept_as == "memory":
            uri = f"memory://twin{next(_numbers)}"
        self.lake = open_lake(uri)
        form = "lance" if self.kept_as == "memory" else self.kept_as
        made = write_robots(self.lake, lengths=(5, 4, 6), format=form)
        other = write_robots(
            self.lake, "other", source="other", lengths=(4, 3), image=False, format=form
        )
        self.other = twin_of(other)
        self.held = twin_of(made)
        self.history = {made.version: self.held}
        self.made = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    def see(self, expected: Twin) -> None:
        """The operation made one version, which holds this."""
        self.held = expected
        version = open_episodes(self.lake, "g1").version
        assert version not in self.history
        self.history[version] = expected

    @invariant()
    def agree(self) -> None:
        held = open_episodes(self.lake, "g1")
        assert twin_of(held) == self.held
        assert held.index.lengths.tolist() == [each.length for each in self.held.episodes]
        assert held.index.episode_ids.to_pylist() == [e.episode_id for e in self.held.episodes]
        for version in {info.version for info in held.episodes.versions()} & self.history.keys():
            assert twin_of(open_episodes(self.lake, "g1", version)) == self.history[version]

    def some(self, data: st.DataObject, least: int = 1) -> list[int]:
        """Rows of episodes, in any order."""
        rows = st.sampled_from(range(len(self.held.episodes)))
        return data.draw(st.lists(rows, min_size=least, max_size=3, unique=True))

    has_episodes = precondition(lambda self: self.held.episodes)

    @has_episodes
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        rows = self.some(data)
        ids = [self.held.episodes[row].episode_id for row in rows]
        delete(self.lake, "g1", episode_ids=ids)
        self.see(self.lacking(rows).without_files(files_of([self.held.episodes[r] for r in rows])))

    def lacking(self, rows: Sequence[int]) -> Twin:
        left = (each for row, each in enumerate(self.held.episodes) if row not in rows)
        return replace(self.held, episodes=tuple(left))

    @has_episodes
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        ranges, cut = {}, []
        for row in sorted(self.some(data)):
            each = self.held.episodes[row]
            start = data.draw(st.integers(0, each.length - 1))
            stop = data.draw(st.integers(start + 1, each.length))
            ranges[each.episode_id] = (start, stop)
            if (start, stop) != (0, each.length):
                cut.append((row, each.cut(start, stop)))
        trim(self.lake, "g1", ranges=ranges)
        if cut:
            rest = self.lacking([row for row, _ in cut])
            self.see(replace(rest, episodes=(*rest.episodes, *(each for _, each in cut))))

    @has_episodes
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        """Put other frames in the place of some, as an ingest of a changed source does."""
        rows = sorted(self.some(data))
        writing = open_episodes(self.lake, "g1").to_write()
        starts = writing.index.starts
        spans = [np.arange(starts[row], starts[row + 1]) for row in rows]
        frames = pa.concat_tables([writing.frames.take(span[::-1]) for span in spans])
        numbers = np.concatenate([np.arange(len(span)) for span in spans])
        frames = frames.set_column(1, frames.schema.field(1), pa.array(numbers))
        committed = writing.frames.commit(
            writing.frames.stager().write(frames), removing=np.concatenate(spans)
        )
        again = writing.episodes.stager().write(writing.episodes.take(rows))
        writing.publish(again, removing=rows, frames=committed, lineage=LINEAGE)
        rest, turned = self.lacking(rows), []
        for row in rows:
            columns = {name: v[::-1] for name, v in self.held.episodes[row].columns.items()}
            columns["frame_index"].reverse()
            turned.append(replace(self.held.episodes[row], columns=columns))
        self.see(replace(rest, episodes=(*rest.episodes, *turned)))

    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        if not self.held.features:
            return
        old = data.draw(st.sampled_from(sorted(self.held.features)))
        self.made += 1
        new = f"renamed.{self.made}"
        rename_feature(self.lake, "g1", old, new)
        episodes = tuple(
            replace(
                each,
                columns={
                    column_of(new) if name == column_of(old) else name: values
                    for name, values in each.columns.items()
                },
                spans=tuple((new if s[0] == old else s[0], *s[1:]) for s in each.spans),
            )
            for each in self.held.episodes
        )
        self.see(replace(self.held, episodes=episodes, features=self.held.features - {old} | {new}))

    @rule(name=st.sampled_from(["action", WRIST, CAMERA, "note"]))
    def drop(self, name: str) -> None:
        if name not in self.held.features:
            return
        drop_feature(self.lake, "g1", name)
        gone = {s[1] for each in self.held.episodes for s in each.spans if s[0] == name}
        episodes = tuple(
            replace(
                each,
                columns={n: v for n, v in each.columns.items() if n != column_of(name)},
                spans=tuple(span for span in each.spans if span[0] != name),
            )
            for each in self.held.episodes
        )
        made = Twin(episodes, self.held.features - {name}, self.held.videos)
        self.see(made.without_files(gone))

    @has_episodes
    @rule(data=st.data())
    def task(self, data: st.DataObject) -> None:
        rows = self.some(data)
        ids = [self.held.episodes[row].episode_id for row in rows]
        self.made += 1
        text = f"task {self.made}"
        set_task(self.lake, "g1", text, episode_ids=ids)
        episodes = tuple(
            replace(each, tasks=dict.fromkeys(each.tasks, text)) if row in rows else each
            for row, each in enumerate(self.held.episodes)
        )
        self.see(replace(self.held, episodes=episodes))

    def merged(self, name: str, came: Twin) -> None:
        merge(self.lake, [name], "g1", union=True, prefix=True)
        episodes = tuple(
            replace(
                each,
                episode_id=f"{name}/{each.episode_id}",
                spans=tuple((s[0], f"{name}/{s[1]}", *s[2:]) for s in each.spans),
            )
            for each in came.episodes
        )
        named = files_of(came.episodes)
        videos = {f"{name}/{file}": data for file, data in came.videos.items() if file in named}
        self.see(
            Twin(
                (*self.held.episodes, *episodes),
                self.held.features | came.features,
                {**self.held.videos, **videos},
            )
        )

    @rule()
    def merge_other(self) -> None:
        """The other set comes in once, until its episodes are gone again."""
        if not any(each.episode_id.startswith("other/") for each in self.held.episodes):
            self.merged("other", self.other)

    @has_episodes
    @rule(data=st.data())
    def split_and_merge(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(0, len(self.held.episodes) - 1))
        stop = data.draw(st.integers(start + 1, len(self.held.episodes)))
        if stop - start > 3 or len(self.held.episodes) > 6:
            return
        self.made += 1
        name = f"part{self.made}"
        split(self.lake, "g1", Ranges({"x": [(start, stop)]}), into={"x": name})
        part = replace(self.held, episodes=self.held.episodes[start:stop])
        found = twin_of(open_episodes(self.lake, name))
        named = files_of(part.episodes)
        assert found == replace(
            part, videos={file: v for file, v in self.held.videos.items() if file in named}
        )
        self.merged(name, part)

    @rule()
    def compact(self) -> None:
        before = open_episodes(self.lake, "g1")
        after = before.to_write().compact(lineage=LINEAGE)
        if after.version != before.version:
            self.see(self.held)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        held = open_episodes(self.lake, "g1").episodes.versions()
        known = sorted({info.version for info in held} & self.history.keys())
        version = data.draw(st.sampled_from(known))
        restore(self.lake, "g1", version)
        self.see(self.history[version])

    @rule(name=st.sampled_from(["one", "two"]))
    def tag(self, name: str) -> None:
        open_episodes(self.lake, "g1").episodes.tag(name, replace=True)

    @rule()
    def clean(self) -> None:
        held = open_episodes(self.lake, "g1")
        tagged = {info.version for info in held.episodes.versions() if info.tags}
        cleanup_episodes(self.lake, "g1", older_than=dt.timedelta(0))
        left = {info.version for info in held.episodes.versions()}
        assert {held.version, *tagged} <= left

    @has_episodes
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        """A writer ends between frames and episodes."""
        rows = self.some(data)
        writing = open_episodes(self.lake, "g1").to_write()
        starts = writing.index.starts
        gone = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in rows])
        writing.frames.commit([], removing=gone)

    @has_episodes
    @rule(data=st.data())
    def come_late(self, data: st.DataObject) -> None:
        """Of two writers, the second one gets nothing in."""
        rows = self.some(data)
        late = open_episodes(self.lake, "g1").to_write()
        starts = late.index.starts
        gone = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in rows])
        self.task(data)
        with pytest.raises(ConflictError):
            late.publish(
                [], removing=rows, frames=late.frames.commit([], removing=gone), lineage=LINEAGE
            )


@pytest.mark.parametrize("kept_as", ["lance", "delta", "memory"])
def test_any_order_of_operations_agrees_with_the_twin(kept_as: str) -> None:
    machine: type[Sets] = type("Machine", (Sets,), {"kept_as": kept_as})
    few = settings(
        max_examples=10 if kept_as == "memory" else 2,
        stateful_step_count=8,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=few)
