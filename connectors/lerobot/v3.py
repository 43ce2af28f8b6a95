"""LeRobot v3.0: many episodes a Parquet file and a video file.

meta/{info.json, stats.json, tasks.parquet}
meta/episodes/chunk-000/file-000.parquet      where each episode is, and its statistics
data/chunk-000/file-000.parquet
videos/<camera>/chunk-000/file-000.mp4
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from connectors.lerobot.corpus import Entry, Rows, texts_of
from connectors.lerobot.info import Info
from connectors.lerobot.metadata import faulty, read_parquet
from connectors.tree import Tree
from datalake.quarantine import Reason
from datalake.recording import Finding, Severity

__all__ = ["LayoutV3"]

_EPISODES: Final = "meta/episodes"
_TASKS: Final = "meta/tasks.parquet"
_NEEDED: Final = (
    "episode_index",
    "length",
    "data/chunk_index",
    "data/file_index",
    "dataset_from_index",
    "dataset_to_index",
)


@dataclass(frozen=True)
class LayoutV3:
    """Lists the episodes of the files below `meta/episodes`."""

    tree: Tree
    info: Info

    def tasks(self) -> tuple[dict[int, str], list[Finding]]:
        """The rows of `meta/tasks.parquet`, whose texts are an index of pandas."""
        table = read_parquet(self.tree, _TASKS)
        if isinstance(table, tuple):
            return {}, [faulty(table, _TASKS, Severity.WARNING)]
        text = next((n for n in ("task", "__index_level_0__") if n in table.column_names), None)
        if text is None or "task_index" not in table.column_names:
            found = ", ".join(table.column_names)
            problem = (Reason.NO_TASK, f"expected columns task_index and task, found {found}")
            return {}, [faulty(problem, _TASKS, Severity.WARNING)]
        if not pa.types.is_integer(table["task_index"].type):
            problem = (Reason.NO_TASK, f"task_index holds {table['task_index'].type}")
            return {}, [faulty(problem, _TASKS, Severity.WARNING)]
        pairs = zip(table["task_index"].to_pylist(), table[text].to_pylist(), strict=True)
        return {index: str(task or "") for index, task in pairs if index is not None}, []

    def entries(self, *, with_stats: bool = False) -> Iterator[Entry | Finding]:  # noqa: ARG002
        """The episodes in the order of the files, a file in memory at a time."""
        paths = list(self._paths())
        if not paths:
            detail = "there is no Parquet file below it: the recording was not finished, or lost"
            yield faulty((Reason.EMPTY_METADATA, detail), _EPISODES)
        ends: dict[str, tuple[int, int]] = {}
        expected = 0
        for path in paths:
            table = read_parquet(self.tree, path, leave_out="stats/")
            if isinstance(table, tuple):
                yield faulty(table, path)
                continue
            missing = [name for name in self._needed() if name not in table.column_names]
            if missing:
                detail = f"it lacks the columns {', '.join(missing)}"
                yield faulty((Reason.EMPTY_METADATA, detail), path)
                continue
            if odd := [name for name in self._needed() if not _holds_numbers(table, name)]:
                detail = f"the column {odd[0]} holds {table.schema.field(odd[0]).type}"
                yield faulty((Reason.METADATA_MISMATCH, detail), path)
                continue
            for number, row in enumerate(table.to_pylist()):
                entry = self._entry(row, path, number, ends)
                if isinstance(entry, Entry) and row["dataset_from_index"] != expected:
                    detail = (
                        f"expected episode {entry.episode_index} to begin at frame {expected},"
                        f" found dataset_from_index {row['dataset_from_index']}"
                    )
                    yield faulty((Reason.METADATA_MISMATCH, detail), path, Severity.WARNING)
                if isinstance(entry, Entry):
                    expected = row["dataset_to_index"]
                yield entry

    def _paths(self) -> Iterator[str]:
        for folder in self.tree.folders(_EPISODES):
            below = posixpath.join(_EPISODES, folder)
            for name in self.tree.file_names(lambda name: name.endswith(".parquet"), below):
                yield posixpath.join(below, name)

    def _needed(self) -> Iterator[str]:
        yield from _NEEDED
        for camera in self.info.cameras:
            for name in ("chunk_index", "file_index", "from_timestamp", "to_timestamp"):
                yield f"videos/{camera}/{name}"

    def _entry(
        self, row: Mapping[str, Any], path: str, number: int, ends: dict[str, tuple[int, int]]
    ) -> Entry | Finding:
        empty = [name for name in self._needed() if row[name] is None]
        if empty:
            detail = f"row {number} has no {', '.join(empty)}"
            return faulty((Reason.METADATA_MISMATCH, detail), path)
        if (
            row["episode_index"] < 0
            or not 0 <= row["dataset_from_index"] <= row["dataset_to_index"]
        ):
            detail = (
                f"row {number} has episode_index {row['episode_index']} and the frames"
                f" {row['dataset_from_index']} to {row['dataset_to_index']}"
            )
            return faulty((Reason.METADATA_MISMATCH, detail), path)
        data = self.info.data_path.format(
            chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
        )
        start, end = row["dataset_from_index"], row["dataset_to_index"]
        # A file begins where the first episode that is in it does.
        first, _ = ends.setdefault(data, (start, end))
        videos = []
        for camera in self.info.cameras:
            place = {key: row[f"videos/{camera}/{key}"] for key in ("chunk_index", "file_index")}
            video = self.info.video_path.format(video_key=camera, **place)
            videos.append(
                (
                    camera,
                    video,
                    row[f"videos/{camera}/from_timestamp"],
                    row[f"videos/{camera}/to_timestamp"],
                )
            )
        return Entry(
            row["episode_index"],
            row["length"],
            texts_of(row.get("tasks")),
            Rows(data, start, start - first, end - start),
            tuple(videos),
            json.dumps(row, sort_keys=True, default=str),
            (path, number),
        )

    def stats(self, places: Sequence[tuple[str, int] | None]) -> list[Mapping[str, Any]]:
        """The columns `stats/…` of the episodes' metadata."""
        found: list[Mapping[str, Any]] = []
        files: dict[str, pa.Table | None] = {}
        for place in places:
            assert place is not None
            path, number = place
            if path not in files:
                table = read_parquet(self.tree, path)
                names = [] if isinstance(table, tuple) else table.column_names
                names = [name for name in names if name.startswith("stats/")]
                # One file at a time: refs are in the order of the files.
                files = {path: None if isinstance(table, tuple) else table.select(names)}
            table = files[path]
            found.append({} if table is None else _nested(table.slice(number, 1).to_pylist()[0]))
        return found


def _holds_numbers(table: pa.Table, name: str) -> bool:
    kept_as = table.schema.field(name).type
    return pa.types.is_integer(kept_as) or (
        name.endswith("_timestamp") and pa.types.is_floating(kept_as)
    )


def _nested(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`stats/<feature>/<figure>` as feature -> figure."""
    stats: dict[str, dict[str, Any]] = {}
    for name, value in row.items():
        _, feature, figure = name.split("/", 2)
        if value is not None:
            stats.setdefault(feature, {})[figure] = value
    return stats
