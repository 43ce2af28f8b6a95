"""Episodes chosen for a source: all of their frames, or all but idle and masked ones, with a weight
each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes import EpisodeSet
from datalake.episodes.windows import Windows
from datalake.errors import InputError
from datalake.lake import Selection
from datalake.loader.order.order import Indices

__all__ = ["ChosenFrames", "check_episodes", "chosen_frames"]


@dataclass(frozen=True, eq=False)
class ChosenFrames:
    """The frames of some episodes of a set, for a loader what a `Selection` is: runs of consecutive
    ones, an episode whole or what a mask leaves of it. 32 bytes a run; `rows` makes 28 a frame each
    time."""

    name: str
    """For a person: the selection's, or how the episodes were chosen."""
    episodes: EpisodeSet
    episode_rows: Indices
    """The episode of each run, as a row of the episodes table, in order, (k,)."""
    first: Indices
    """The first frame of each run, as a row of the frames table, (k,)."""
    stop: Indices
    """After the last one, (k,)."""
    weights: npt.NDArray[np.float64]
    """Of each frame of a run, (k,)."""
    domains: pa.StringArray
    """Of each run, (k,)."""

    def __len__(self) -> int:
        return int((self.stop - self.first).sum())

    @cached_property
    def digest(self) -> str:
        """The sha256, in hexadecimal, of which frames of which episodes, in order, and weights."""
        starts = self.episodes.index.starts[self.episode_rows]
        digest = hashlib.sha256(b"frames/1 %d" % len(self.episode_rows))
        for episode_id in self.episodes.index.episode_ids.take(self.episode_rows).to_pylist():
            digest.update(len(episode_id).to_bytes(8, "little") + episode_id.encode())
        for places in (self.first - starts, self.stop - starts):
            digest.update(places.astype("<i8").tobytes())
        digest.update(self.weights.astype("<f8").tobytes())
        return digest.hexdigest()

    @property
    def rows(self) -> pa.Table:
        """One row a frame, in order: `row_index`, `domain` and `weight`, made anew."""
        lengths = self.stop - self.first
        ends = np.cumsum(lengths)
        frames = np.repeat(self.first - (ends - lengths), lengths) + np.arange(len(self))
        domains = self.domains.dictionary_encode()
        codes = np.repeat(domains.indices.to_numpy(zero_copy_only=False), lengths)
        return pa.table(
            {
                "row_index": frames,
                "domain": pa.DictionaryArray.from_arrays(codes, domains.dictionary),
                "weight": np.repeat(self.weights, lengths),
            }
        )


def chosen_frames(
    windows: Windows,
    selection: Selection | None,
    episode_ids: Iterable[str] | None,
    where: str | None,
    *,
    skip_idle: bool,
) -> ChosenFrames | None:
    """What the arguments of a source choose; None where they choose nothing.

    Raises:
        InputError: episodes are chosen in two ways, one is named twice, the selection is not of
            this version of the set's episodes, or all of their frames are masked.
        NotFoundError: there is no episode of an id (names the nearest).
        PredicateError: `where` does not parse.
        SchemaError: it names an unknown column.
    """
    episodes = windows.episodes
    if selection is None:
        if episode_ids is None and where is None and not skip_idle and windows.masked is None:
            return None
        rows = episodes.rows(episode_ids=episode_ids, where=where)
        if not len(rows):
            raise InputError(
                "No episode was chosen, so there is nothing to stream",
                where=f"{episodes.name}, version {episodes.episodes.version}",
                expected="one episode or more",
                found="none" if where is None else f"none for which {where}",
            )
        weights = np.ones(len(rows))
        domains = _domains(episodes).take(rows)
        name = "episodes" if where is None else where
    else:
        if episode_ids is not None or where is not None:
            raise InputError(
                "Episodes are chosen in two ways",
                where=episodes.name,
                found=f"the selection {selection.name!r}, and ids or a condition beside it",
                fix="Give one of them; or select again with that condition",
            )
        check_episodes(episodes, selection)
        rows = selection.rows["row_index"].to_numpy().astype(np.int64)
        weights = selection.rows["weight"].to_numpy().astype(np.float64)
        domains = pa.chunked_array(selection.rows["domain"]).combine_chunks()
        name = selection.name
    owners, first, stop = windows.runs(rows, skip_idle=skip_idle)
    if len(rows) and not len(owners):
        raise InputError(
            "All frames of the chosen episodes are masked, so there is nothing to stream",
            where=f"{episodes.name}, version {episodes.version}",
            expected="one frame or more that is not masked",
            found=f"none in {len(rows):,} episodes",
            fix="Choose other episodes, or fewer reasons of the mask",
        )
    return ChosenFrames(
        name, episodes, rows[owners], first, stop, weights[owners], domains.take(owners)
    )


def check_episodes(episodes: EpisodeSet, selection: Selection) -> None:
    """See that a selection was made from this version of a set's episodes.

    Raises:
        InputError: it was not.
    """
    if selection.table_version != episodes.version:
        raise InputError(
            f"The selection {selection.name!r} was made from another version of the episodes",
            where=episodes.episodes.uri,
            expected=f"{selection.table} at version {selection.table_version}",
            found=f"version {episodes.version}",
            fix=f"Open the set with version={selection.table_version}, or select again",
        )
    ids = episodes.index.episode_ids
    rows = selection.rows["row_index"].to_numpy().astype(np.int64)
    expected = pa.chunked_array(selection.rows["utt_id"]).combine_chunks()
    is_inside = not len(rows) or int(rows.max()) < len(ids)
    if not is_inside or not ids.take(rows).equals(expected.cast(ids.type)):
        raise InputError(
            f"The selection {selection.name!r} was made from another table",
            where=episodes.episodes.uri,
            expected=f"a selection of the episodes of {episodes.name}",
            found=f"one of {selection.table}, with other ids",
        )


def _domains(episodes: EpisodeSet) -> pa.StringArray:
    column = episodes.episodes.scan(["domain"]).read_all()["domain"].combine_chunks()
    return column.fill_null("")
