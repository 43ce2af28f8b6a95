"""LeRobot v2.0 and v2.1: a Parquet file and a video file an episode.

meta/{info.json, episodes.jsonl, tasks.jsonl, episodes_stats.jsonl}   (v2.0: stats.json)
data/chunk-000/episode_000000.parquet
videos/chunk-000/<camera>/episode_000000.mp4
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from connectors.lerobot.corpus import Entry, Rows, texts_of
from connectors.lerobot.info import Info
from connectors.lerobot.metadata import faulty, read_json_lines
from connectors.tree import Tree
from datalake.quarantine import Reason
from datalake.recording import Finding, Severity

__all__ = ["LayoutV2"]

_EPISODES: Final = "meta/episodes.jsonl"
_STATS: Final = "meta/episodes_stats.jsonl"
_TASKS: Final = "meta/tasks.jsonl"

# Their numbers have six digits.
_MOST_EPISODES: Final = 10**12

_EPISODE_INDEX: Final = re.compile(rb'"episode_index"\s*:\s*(\d+)')


@dataclass(frozen=True)
class LayoutV2:
    """Lists the episodes of `meta/episodes.jsonl`."""

    tree: Tree
    info: Info

    def tasks(self) -> tuple[dict[int, str], list[Finding]]:
        """The rows of `meta/tasks.jsonl`."""
        rows, findings = read_json_lines(self.tree, _TASKS, Severity.WARNING)
        tasks = {}
        for number, row in rows:
            index, text = row.get("task_index"), row.get("task")
            if isinstance(index, int) and isinstance(text, str):
                tasks[index] = text
            else:
                problem = (Reason.NO_TASK, f"line {number} lacks task_index or task")
                findings.append(faulty(problem, _TASKS, Severity.WARNING))
        return tasks, findings

    def entries(self, *, with_stats: bool = False) -> Iterator[Entry | Finding]:
        """The episodes in the order of the file."""
        rows, findings = read_json_lines(self.tree, _EPISODES)
        yield from findings
        places = self._stats_places() if with_stats else {}
        for number, row in rows:
            index, length = row.get("episode_index"), row.get("length")
            if not isinstance(index, int) or not 0 <= index < _MOST_EPISODES:
                detail = f"line {number} has the episode_index {index!r}"
                yield faulty((Reason.METADATA_MISMATCH, detail), _EPISODES)
                continue
            place = {"episode_chunk": index // self.info.chunks_size, "episode_index": index}
            yield Entry(
                index,
                length if isinstance(length, int) and length >= 0 else None,
                texts_of(row.get("tasks")),
                Rows(self.info.data_path.format(**place), None, 0, None),
                tuple(
                    (camera, self.info.video_path.format(video_key=camera, **place), 0.0, None)
                    for camera in self.info.cameras
                ),
                json.dumps(row, sort_keys=True),
                (_STATS, places[index]) if index in places else None,
            )

    def _stats_places(self) -> dict[int, int]:
        """The byte at which each episode's line of `meta/episodes_stats.jsonl` begins.

        The file is as large as the rest of the metadata together, so it is streamed once, and its
        lines are parsed one by one where they are needed.
        """
        places: dict[int, int] = {}
        if "episodes_stats.jsonl" not in self.tree.names("meta"):
            return places
        with self.tree.open(_STATS) as handle:
            begin = 0
            for line in handle:
                if named := _EPISODE_INDEX.search(line):
                    places[int(named[1])] = begin
                begin += len(line)
        return places

    def stats(self, places: Sequence[tuple[str, int] | None]) -> list[Mapping[str, Any]]:
        """The lines of `meta/episodes_stats.jsonl`; v2.0 has none."""
        found: list[Mapping[str, Any]] = []
        with ExitStack() as stack:
            handle = None
            for place in places:
                if place is None:
                    found.append({})
                    continue
                path, begin = place
                handle = handle or stack.enter_context(self.tree.open(path))
                handle.seek(begin)
                found.append(_stats_of(handle.readline()))
        return found


def _stats_of(line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    stats = row.get("stats") if isinstance(row, dict) else None
    return stats if isinstance(stats, dict) else {}
