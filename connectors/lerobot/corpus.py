"""An opened LeRobot dataset: what all versions share. How episodes are listed is each version's.

`Layout` is what a version adds: `v2.py`, `v3.py`.
"""

from __future__ import annotations

import hashlib
import posixpath
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate
from typing import IO, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.lerobot.frames import formed
from connectors.lerobot.info import Info
from connectors.tree import LFS_MARK, Tree, stem
from datalake.errors import NotFoundError
from datalake.quarantine import Reason
from datalake.recording import (
    BadEpisode,
    EpisodeData,
    EpisodeRef,
    Feature,
    Finding,
    Severity,
    VideoFile,
    VideoSpan,
)
from datalake.uri import Location

__all__ = ["Entry", "Layout", "LeRobotCorpus", "Rows", "fingerprint", "texts_of"]

_MAGIC: Final = b"PAR1"


@dataclass(frozen=True)
class Rows:
    """Where an episode's rows are."""

    path: str
    index: int | None
    """The value of `index` in its first row; None where the file is the episode's alone."""
    nth: int
    """How many rows of the file precede it, by the metadata."""
    length: int | None


@dataclass(frozen=True)
class Entry:
    """An episode as its metadata names it."""

    episode_index: int
    length: int | None
    tasks: tuple[str, ...]
    rows: Rows
    videos: tuple[tuple[str, str, float, float | None], ...]
    """Camera, path, and the span in seconds."""
    said: str
    """All that the metadata say of it, as text: a part of its stamp."""
    stats: tuple[str, int] | None = None
    """The metadata file that holds its statistics, and the row or the byte where they are."""


@dataclass(frozen=True)
class _Hint:
    """What reading an episode needs beyond its ref."""

    rows: Rows
    tasks: tuple[str, ...]
    stats: tuple[str, int] | None


class Layout(Protocol):
    """How a version of the format lists its episodes. Picklable."""

    def tasks(self) -> tuple[dict[int, str], list[Finding]]:
        """The text of each task, and what is wrong with the file."""
        ...

    def entries(self, *, with_stats: bool = False) -> Iterator[Entry | Finding]:
        """The episodes in the order listed, and what is wrong with their metadata.

        `with_stats` says also where their statistics are, which may take another file.
        """
        ...

    def stats(self, places: Sequence[tuple[str, int] | None]) -> list[Mapping[str, Any]]:
        """What the source says of the statistics of episodes; empty where it says nothing."""
        ...


@dataclass(frozen=True)
class LeRobotCorpus:
    """A LeRobot dataset, opened. Picklable."""

    source: str
    root: Location
    embodiment: str | None
    info: Info | None
    """None where info.json cannot be used; `fault` then says why."""
    layout: Layout | None
    fault: Finding | None = None
    _tasks: dict[int, str] = field(default_factory=dict, repr=False)
    _opening_findings: tuple[Finding, ...] = field(default=(), repr=False)

    @property
    def fps(self) -> float:
        """Frames a second; 0 where info.json cannot be used."""
        return self.info.fps if self.info else 0.0

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of info.json, without those that number and time the frames."""
        return self.info.features if self.info else ()

    # Metadata -----------------------------------------------------------------------------------

    def findings(self) -> Iterator[Finding]:
        """Faults of the files below `meta/`, and data files and rows that no episode names."""
        if self.info is None or self.layout is None:
            if self.fault:
                yield self.fault
            return
        yield from self._opening_findings
        yield from self._tasks_without_text()
        numbers: list[int] = []
        num_frames = 0
        named: dict[str, set[str]] = {}
        claimed: Counter[str] = Counter()
        for entry in self.layout.entries():
            if isinstance(entry, Finding):
                yield entry
                continue
            numbers.append(entry.episode_index)
            num_frames += entry.length or 0
            folder, name = posixpath.split(entry.rows.path)
            named.setdefault(folder, set()).add(name)
            if entry.rows.index is not None:
                claimed[entry.rows.path] += entry.rows.length or 0
        yield from self._numbering(numbers)
        yield from self._totals(self.info, len(numbers), num_frames)
        for folder, names in named.items():
            for name in sorted(set(Tree(self.root).stamps(folder)) - names):
                if name.endswith(".parquet"):
                    path = posixpath.join(folder, name)
                    detail = "no episode of the metadata is in this file"
                    yield _about(Reason.METADATA_MISMATCH, detail, Severity.WARNING, path)
        yield from self._unclaimed(claimed)

    def _unclaimed(self, claimed: Mapping[str, int]) -> Iterator[Finding]:
        """Rows of shared files beyond those of the episodes that are in them."""
        with closing(_RowReader(Tree(self.root))) as reader:
            for path, num_claimed in claimed.items():
                num_rows = reader.num_rows(path)
                if num_rows is not None and num_rows > num_claimed:
                    detail = (
                        f"{num_rows - num_claimed:,} of its {num_rows:,} rows are no episode's,"
                        " as if the metadata had lost some"
                    )
                    yield _about(Reason.METADATA_MISMATCH, detail, Severity.WARNING, path)

    def _tasks_without_text(self) -> Iterator[Finding]:
        for number, text in self._tasks.items():
            if not text.strip():
                detail = f"task {number} has no text"
                yield _about(Reason.NO_TASK, detail, Severity.WARNING, "meta")

    def _numbering(self, numbers: Sequence[int]) -> Iterator[Finding]:
        counted = Counter(numbers)
        twice = sorted(number for number, count in counted.items() if count > 1)
        if twice:
            detail = f"episodes {_some(twice)} are listed more than once"
            yield _about(Reason.METADATA_MISMATCH, detail, Severity.ERROR, "meta")
        last = max(numbers, default=-1)
        if num_gaps := last + 1 - len(counted):
            first = next(number for number in range(last) if number not in counted)
            detail = (
                f"expected episodes 0 to {last} without a gap, found {num_gaps:,} of them missing,"
                f" the first of them {first}; LeRobot finds episodes by their place in the list"
            )
            yield _about(Reason.INDEX_GAP, detail, Severity.WARNING, "meta")
        if list(numbers) != sorted(numbers):
            detail = "episodes are not listed in the order of their numbers"
            yield _about(Reason.INDEX_GAP, detail, Severity.WARNING, "meta")

    @staticmethod
    def _totals(info: Info, num_episodes: int, num_frames: int) -> Iterator[Finding]:
        for said, found, what in (
            (info.total_episodes, num_episodes, "episodes"),
            (info.total_frames, num_frames, "frames"),
        ):
            if said is not None and said != found:
                detail = f"info.json promises {said:,} {what}, the episodes' metadata {found:,}"
                yield _about(Reason.METADATA_MISMATCH, detail, Severity.WARNING, "meta/info.json")

    def _entries(self, *, with_stats: bool = False) -> Iterator[Entry]:
        entries = self.layout.entries(with_stats=with_stats) if self.layout else iter(())
        seen = set()
        for entry in entries:
            if isinstance(entry, Entry) and entry.episode_index not in seen:
                seen.add(entry.episode_index)
                yield entry

    def videos(self) -> Iterator[VideoFile]:
        """The video files that episodes name, each once."""
        files = _Files(self.root)
        seen = set()
        for entry in self._entries():
            for camera, path, _, _ in entry.videos:
                if path not in seen:
                    seen.add(path)
                    size_bytes, stamp = files.of(path)
                    yield VideoFile(self._video_id(path), camera, path, size_bytes, stamp)

    def _video_id(self, path: str) -> str:
        return f"{self.source}/{stem(path)}"

    def episodes(self) -> Iterator[EpisodeRef]:
        """The episodes that the metadata list, by number; of two with one number the first."""
        if self.info is None:
            return
        files = _Files(self.root)
        common = fingerprint(
            str(self.info.features), str(self.info.fps), str(self.embodiment), str(self._tasks)
        )
        for entry in self._entries(with_stats=True):
            size_bytes, stamp = files.of(entry.rows.path)
            spans = tuple(
                VideoSpan(camera, self._video_id(path), from_s, to_s)
                for camera, path, from_s, to_s in entry.videos
            )
            stamps = ["|".join(map(str, files.of(path))) for _, path, _, _ in entry.videos]
            yield EpisodeRef(
                f"{self.source}/{entry.episode_index:06d}",
                entry.episode_index,
                entry.rows.path,
                entry.length,
                fingerprint(common, entry.said, f"{size_bytes}|{stamp}", *stamps),
                num_bytes=(entry.length or 0) * 8 * self._numbers_a_frame(),
                videos=spans,
                refusal=_missing(entry.rows.path) if size_bytes is None else None,
                hint=_Hint(entry.rows, entry.tasks, entry.stats),
            )

    def _numbers_a_frame(self) -> int:
        return sum(f.num_elements for f in self.features if f.dtype != "video") + len(self.features)

    # Reading ------------------------------------------------------------------------------------

    def read(self, refs: Sequence[EpisodeRef]) -> Iterator[EpisodeData | BadEpisode]:
        """Read episodes; of a shared file only the row groups that hold them."""
        if self.info is None or self.layout is None:
            return
        stats = self.layout.stats([ref.hint.stats for ref in refs])
        with closing(_RowReader(Tree(self.root))) as reader:
            for ref, said in zip(refs, stats, strict=True):
                found = reader.read(ref.hint.rows)
                if isinstance(found, pa.Table):
                    yield self._data(self.info, ref, found, said)
                else:
                    yield BadEpisode(ref, *found)

    def _data(
        self, info: Info, ref: EpisodeRef, rows: pa.Table, said: Mapping[str, Any]
    ) -> EpisodeData | BadEpisode:
        try:
            frames = formed(rows, info.features, self._picture)
        except NotFoundError as error:
            return BadEpisode(ref, Reason.NOT_FOUND, f"a picture is not there: {error.where}")
        return EpisodeData(
            ref,
            frames,
            info.features,
            tasks=self._tasks_of(frames, ref.hint.tasks),
            split=info.split_of(ref.episode_index),
            metadata={"codebase_version": info.version},
            stats=said,
        )

    def _picture(self, path: str) -> bytes:
        with Tree(self.root).open(path) as handle:
            return handle.read()

    def _tasks_of(self, frames: pa.Table, texts: Sequence[str]) -> dict[int, str]:
        if "task_index" not in frames.column_names:
            return dict(enumerate(texts[:1]))
        if not pa.types.is_integer(frames["task_index"].type):
            return {}
        numbers = frames["task_index"].unique().to_pylist()
        tasks = {number: self._tasks[number] for number in numbers if number in self._tasks}
        # The list of tasks may be lost; an episode's own metadata repeat its texts.
        if not self._tasks and len(texts) == len(numbers) == 1:
            return {numbers[0]: texts[0]}
        return tasks


class _Files:
    """Sizes and stamps of files, a folder listed once."""

    def __init__(self, root: Location) -> None:
        self._tree = Tree(root)
        self._folders: dict[str, dict[str, tuple[int | None, str]]] = {}

    def of(self, path: str) -> tuple[int | None, str]:
        folder, name = posixpath.split(path)
        if folder not in self._folders:
            self._folders[folder] = self._tree.stamps(folder)
        return self._folders[folder].get(name, (None, ""))


class _RowReader:
    """Reads runs of rows from Parquet files and keeps the last file open."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._path = ""
        self._file: pq.ParquetFile | tuple[Reason, str] = (Reason.NOT_FOUND, "")
        self._groups: list[int] = []
        self._handle: IO[bytes] | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            self._handle.close()

    def num_rows(self, path: str) -> int | None:
        """How many rows a file has by its footer; None where it cannot be read."""
        file = self._opened(path)
        return file.metadata.num_rows if isinstance(file, pq.ParquetFile) else None

    def read(self, rows: Rows) -> pa.Table | tuple[Reason, str]:
        file = self._opened(rows.path)
        if not isinstance(file, pq.ParquetFile):
            return file
        twice = [name for name, count in Counter(file.schema_arrow.names).items() if count > 1]
        if twice:
            return Reason.SHAPE_CHANGED, f"{rows.path} has the column {twice[0]} more than once"
        try:
            if rows.index is None:
                return file.read()
            return _slice(file, self._groups, rows)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            return Reason.CORRUPT, f"its rows cannot be read: {' '.join(str(error).split())}"

    def _opened(self, path: str) -> pq.ParquetFile | tuple[Reason, str]:
        if path != self._path:
            self._path, self._file = path, self._open(path)
            if isinstance(self._file, pq.ParquetFile):
                self._groups = _group_starts(self._file)
        return self._file

    def _open(self, path: str) -> pq.ParquetFile | tuple[Reason, str]:
        try:
            self.close()
            self._handle = handle = self._tree.open(path)
        except NotFoundError:
            return _missing(path)
        try:
            return pq.ParquetFile(handle)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            handle.seek(0)
            head = handle.read(64)
            if not head:
                return Reason.EMPTY, f"{path} has no bytes"
            if head.startswith(LFS_MARK):
                return Reason.LFS_POINTER, (
                    f"a Git-LFS pointer lies in the place of {path}: fetch it with git lfs pull"
                )
            if head.startswith(_MAGIC):
                return Reason.TRUNCATED, f"{path} is Parquet without its end: writing was cut short"
            return Reason.CORRUPT, f"{path} is no Parquet: {' '.join(str(error).split())}"


def _group_starts(file: pq.ParquetFile) -> list[int]:
    """The row at which each row group begins, and the number of rows."""
    metadata = file.metadata
    sizes = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    return list(accumulate(sizes, initial=0))


def _slice(file: pq.ParquetFile, starts: Sequence[int], rows: Rows) -> pa.Table:
    """The rows of one episode in a file of several, whose row groups begin at `starts`.

    The file's first `index` says where the file begins; where there is none, or it leads out of the
    file, the metadata do: some writers let `index` begin anew in each file.
    """
    assert rows.index is not None
    start = rows.nth
    first = _first_index(file)
    if first is not None and 0 <= rows.index - first < starts[-1]:
        start = rows.index - first
    end = start + (rows.length or 0)
    first_group = max(0, bisect_right(starts, start) - 1)
    end_group = min(bisect_left(starts, end), len(starts) - 1)
    wanted = list(range(first_group, end_group))
    skipped = starts[first_group] if wanted else start
    return file.read_row_groups(wanted).slice(start - skipped, end - start)


def _first_index(file: pq.ParquetFile) -> int | None:
    schema = file.schema_arrow
    if "index" not in schema.names or not file.metadata.num_rows:
        return None
    if not pa.types.is_integer(schema.field("index").type):
        return None
    statistics = file.metadata.row_group(0).column(_leaf(file, "index")).statistics
    if statistics is not None and statistics.has_min_max:
        return int(statistics.min)
    first = file.read_row_group(0, columns=["index"])["index"][0].as_py()
    return None if first is None else int(first)


def _leaf(file: pq.ParquetFile, name: str) -> int:
    group = file.metadata.row_group(0)
    return next(i for i in range(group.num_columns) if group.column(i).path_in_schema == name)


def texts_of(found: object) -> tuple[str, ...]:
    """The texts of a list; none where it is no list."""
    return tuple(map(str, found)) if isinstance(found, list) else ()


def fingerprint(*texts: str) -> str:
    """A short hash of texts."""
    digest = hashlib.md5(usedforsecurity=False)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _missing(path: str) -> tuple[Reason, str]:
    return Reason.NOT_FOUND, f"{path} is not there"


def _about(reason: Reason, detail: str, severity: Severity, path: str) -> Finding:
    return Finding(reason, severity, detail, origin=path)


def _some(numbers: Iterable[int]) -> str:
    shown = list(numbers)
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    return ", ".join(map(str, shown[:5])) + more
