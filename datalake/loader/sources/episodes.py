"""Whole episodes of a set as a source: one example an episode, its frames one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from datalake.blocks.cache import BlockCache
from datalake.blocks.origin import NOT_OF_ROWS
from datalake.blocks.reader import TableReader
from datalake.episodes import EpisodeSet
from datalake.episodes.windows.columns import read_feature, value_shape
from datalake.errors import InputError, StoreError
from datalake.lake import Lake, Selection
from datalake.loader.order.hashing import Words
from datalake.loader.order.order import Indices
from datalake.loader.sources.chosen import check_episodes
from datalake.loader.sources.due import Due
from datalake.loader.sources.naming import MISSING_BLOCK, chosen_set
from datalake.loader.sources.source import Allocate, BadRow, BadRowsError, Columns, Prefetch
from datalake.quarantine import Reason
from datalake.recording import Feature
from datalake.tables.protocol import Table
from datalake.telemetry import Meter

__all__ = ["EPISODE_KEYS", "Episodes"]

EPISODE_KEYS = frozenset({"num_frames", "row_index", "episode_id", "task"})
"""What every batch holds; the features stand beside it."""

_UNITS = ("examples", "frames", "seconds")


class Episodes:
    """The episodes of a set with features of numbers, whole. See `Source` for the contract.

    Gives a batch, whose values lie flat (see `Flat`), as packed sequences take them:

        <feature>    an array (total, *shape): the frames of the batch's episodes, one episode after
                     the other; total is the sum of `num_frames`
        num_frames   int64 (batch,): of each episode
        row_index    int64 (batch,): the row in this version of the episodes table
        episode_id   list of str
        task         list of str, or None where the episode has none

    Nothing in them is random. Holds some 160 bytes an episode. `Selected(source,
    episodes.rows(where=…))` takes some of them without a selection.

    Args:
        episodes: the set, at a version.
        columns: features of numbers; None for all that there are.
        selection: of the set's episodes (of the table `<set>.episodes`): which a loader takes, in
            which order, with which weights.
        cache: where blocks of tables that cannot be mapped in place are kept; None for the default.

    Raises:
        NotFoundError: there is no such feature (names the nearest).
        InputError: a feature is no array of numbers, is named twice, has the name of something
            that every batch holds, or there is none; or the selection was made from another
            version or table.
    """

    def __init__(
        self,
        episodes: EpisodeSet,
        columns: Sequence[str] | None = None,
        *,
        selection: Selection | None = None,
        cache: BlockCache | Path | str | None = None,
    ) -> None:
        if selection is not None:
            check_episodes(episodes, selection)
        self.episodes = episodes
        self.selection = selection
        self.features = _chosen(episodes, columns)
        """What an example holds."""
        store = BlockCache.shared(cache) if isinstance(cache, str | Path) else cache
        self._reader = TableReader(episodes.frames, cache=store)
        rows = episodes.episodes.scan(["fps", "task", "domain"]).read_all().combine_chunks()
        self._fps = rows["fps"].to_numpy().astype(np.float64)
        self._tasks, self._domains = (_Texts(rows[name]) for name in ("task", "domain"))
        self._due = Due(self.num_rows)

    @classmethod
    def from_lake(
        cls,
        lake: Lake,
        name: str,
        columns: Sequence[str] | None = None,
        *,
        version: int | None = None,
        selection: str | None = None,
        cache: BlockCache | Path | str | None = None,
    ) -> Episodes:
        """The episodes of a set of a lake: all of a version, or a saved selection of them.

        Raises:
            NotFoundError: there is no such set, version, selection or feature (names the nearest).
            InputError: as `Episodes`; or the selection is of another version than the one given.
        """
        episodes, found = chosen_set(lake, name, version, selection)
        return cls(episodes, columns, selection=found, cache=cache)

    @property
    def tables(self) -> tuple[Table, ...]:
        """What it reads."""
        return (self.episodes.episodes, self.episodes.frames)

    @property
    def num_rows(self) -> int:
        """Episodes of the version."""
        return len(self.episodes.index.lengths)

    @property
    def kind(self) -> str:
        """Follows from the features, their types and shapes."""
        features = "\n".join(f"{f.name} {f.dtype} {value_shape(f)}" for f in self.features)
        return f"episodes/{hashlib.sha256(features.encode()).hexdigest()[:16]}"

    @property
    def flat(self) -> Mapping[str, str]:
        """All features; see `Flat`."""
        return {feature.name: "num_frames" for feature in self.features}

    @property
    def flat_unit(self) -> str:
        """Episodes are counted in frames."""
        return "frames"

    @property
    def block_rows(self) -> int:
        """Consecutive episodes that come from the store together, by their mean length."""
        mean = self._reader.num_rows // max(1, self.num_rows)
        return 1 << max(0, (self._frame_rows // max(1, mean)).bit_length() - 1)

    def identity(self) -> Mapping[str, str | int]:
        """The set's name; uri and version of its episodes and frames."""
        found: dict[str, str | int] = {"set": self.episodes.name}
        for part in ("episodes", "frames"):
            table: Table = getattr(self.episodes, part)
            found |= {f"{part}_uri": table.uri, f"{part}_version": table.version}
        return found

    def view(self) -> Episodes:
        """The same episodes for another stream; see `Source.view`."""
        made = copy(self)
        made._reader = self._reader.view()
        made._due = Due(self.num_rows)
        return made

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        self._reader.attach(meter)

    def read(self, rows: Indices, words: Words, allocate: Allocate) -> Columns:  # noqa: ARG002
        """Episodes of rows, in the order asked; `words` change nothing.

        Raises:
            BadRowsError: some lack a feature or a value of it, or are lost; names all of them.
            StoreError: the store gave none of several episodes, so that it is the store and not
                they; or it refuses.
        """
        try:
            return self._read(rows)
        except NOT_OF_ROWS:
            raise
        except (InputError, StoreError) as error:
            bad = list(self._bad(rows))
            lost = {one.row for one in bad if one.reason == MISSING_BLOCK}
            if not bad or len(lost) == len(np.unique(rows)) > 1:
                raise
            raise BadRowsError(bad) from error

    def _read(self, rows: Indices) -> Columns:
        frames = self._frames(rows)
        columns: Columns = {
            feature.name: read_feature(self._reader, feature, frames) for feature in self.features
        }
        return {
            **columns,
            "num_frames": self.episodes.index.lengths[rows],
            "row_index": rows.copy(),
            "episode_id": self.ids(rows),
            "task": self._tasks.at(rows),
        }

    def prefetch(self, rows: Indices) -> Prefetch:
        """Begin to bring the frames near; returns at once."""
        return self._reader.prefetch(self._columns, self._one_a_block(rows))

    def expect(self, rows: Indices, in_s: float) -> None:
        """These episodes are done with, and wanted again in about so many seconds.

        So are blocks of frames, each once all of its episodes are.
        """
        self._due.tell(rows, in_s)
        frames, num_frames = self._frames(rows), self._reader.num_rows
        for column in self._columns:
            size = self._reader.block_rows(column)
            for number in np.unique(frames // size).tolist():
                first, stop = number * size, min((number + 1) * size, num_frames)
                ends = self.episodes.index.episode_at(np.array([first, stop - 1])).tolist()
                due_s = self._due.of(ends[0], ends[1] + 1)
                if due_s is not None:
                    self._reader.expect([column], np.arange(first, stop), due_s)

    def costs(self, rows: Indices, unit: str) -> npt.NDArray[np.float64]:
        """The `frames` or `seconds` of each episode, or 1 (`examples`); (n,).

        Raises:
            InputError: the unit is another one.
        """
        if unit == "examples":
            return np.ones(len(rows))
        frames: npt.NDArray[np.float64] = self.episodes.index.lengths[rows].astype(np.float64)
        if unit == "frames":
            return frames
        if unit == "seconds":
            return np.asarray(frames / self._fps[rows], np.float64)
        raise InputError("A unit is unknown", expected=" or ".join(_UNITS), found=repr(unit))

    def domains(self, rows: Indices) -> list[str | None]:
        """The domain of each episode: `<source>/<embodiment>/<task>`."""
        return self._domains.at(rows)

    def ids(self, rows: Indices) -> list[str]:
        """The episode_id of each row."""
        return list(self.episodes.index.episode_ids.take(rows).to_pylist())

    def prepare_fork(self) -> None:
        """Read what a forked process could not.

        Raises:
            InputError: a forked process cannot read the frames.
        """
        self._reader.prepare_fork(self._columns)

    @property
    def _columns(self) -> list[str]:
        return [feature.column for feature in self.features]

    @property
    def _frame_rows(self) -> int:
        """Frames in the shortest blocks."""
        return min(self._reader.block_rows(column) for column in self._columns)

    def _frames(self, rows: Indices) -> Indices:
        """The rows of all frames of these episodes, one episode after the other."""
        lengths = self.episodes.index.lengths[rows]
        ends = np.cumsum(lengths)
        begins = self.episodes.index.starts[rows] - (ends - lengths)
        return np.repeat(begins, lengths) + np.arange(int(lengths.sum()))

    def _one_a_block(self, rows: Indices) -> Indices:
        """One frame of each block, which says as much as all of them."""
        size = self._frame_rows
        return np.unique(self._frames(rows) // size) * size

    def _bad(self, rows: Indices) -> Iterator[BadRow]:
        """Those episodes that make no example, in the order of the batch."""
        table, found = self.episodes.episodes, dict[int, BadRow | None]()
        for index, row in enumerate(rows.tolist()):
            if row not in found:
                found[row] = None
                try:
                    self._read(np.array([row]))
                except NOT_OF_ROWS:
                    raise
                except (InputError, StoreError) as error:
                    (name,) = self.ids(np.array([row]))
                    where = f"{table.uri}, version {table.version}, row {row}, {name}"
                    reason = MISSING_BLOCK if isinstance(error, StoreError) else Reason.BAD_ROW
                    found[row] = BadRow(index, row, where, str(reason), str(error))
            bad = found[row]
            if bad is not None:
                yield BadRow(index, row, bad.where, bad.reason, bad.detail)


class _Texts:
    """Texts that repeat: 4 bytes each."""

    def __init__(self, column: object) -> None:
        encoded = pc.dictionary_encode(column)
        encoded = encoded.combine_chunks()
        self._codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        self._values: list[str | None] = [*encoded.dictionary.to_pylist(), None]

    def at(self, rows: Indices) -> list[str | None]:
        return [self._values[code] for code in self._codes[rows].tolist()]


def _chosen(episodes: EpisodeSet, columns: Sequence[str] | None) -> tuple[Feature, ...]:
    if columns is None:
        chosen = tuple(feature for feature in episodes.features if feature.is_numeric)
    else:
        chosen = tuple(map(episodes.feature, columns))
    names = [feature.name for feature in chosen]
    others = [feature.name for feature in chosen if not feature.is_numeric]
    taken = sorted(EPISODE_KEYS.intersection(names))
    if others or taken or not names or len(set(names)) < len(names):
        raise InputError(
            "Whole episodes cannot be read with these features",
            where=episodes.name,
            expected="one or more features of numbers, each once"
            + (f", none called {' or '.join(taken)}" if taken else ""),
            found=", ".join(others or names) or "none",
            fix="Read pictures and texts of frames with EpisodeWindows",
        )
    return chosen
