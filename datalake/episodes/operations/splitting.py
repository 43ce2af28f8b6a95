"""Splitting a set: which episode goes where, and the sets or the column that come of it."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from datalake.episodes.care import give_up
from datalake.episodes.episode_set import (
    EpisodeSet,
    create_episodes,
    episode_sets,
    open_episodes,
)
from datalake.episodes.operations.change import Change
from datalake.episodes.operations.copying import Copier, annotation_fields
from datalake.episodes.operations.rows import rewritten, with_columns
from datalake.errors import ExistsError, InputError, SchemaError, nearest
from datalake.lake import Lake, Lineage

__all__ = ["Fractions", "Ranges", "SplitRule", "Values", "split"]


class SplitRule(Protocol):
    """Says of each episode which split it goes into."""

    def assign(self, episodes: EpisodeSet) -> list[str | None]:
        """The split of each episode, in the set's order; None for none."""
        ...

    def as_config(self) -> dict[str, Any]:
        """The rule as JSON values, for the lineage."""
        ...


@dataclass(frozen=True)
class Fractions:
    """Parts of the episodes by hash: the same ones on every machine, in whatever order they lie.

    Episodes are ordered by the first 8 bytes of md5("<seed>/<episode_id>"). Counts are exact: whole
    parts first, then one more for the largest remainders, the first named first.
    """

    parts: Mapping[str, float]
    """The fraction of each split; together 1."""
    seed: int = 0
    together: str | None = None
    """A column of the episodes table: episodes with one value stay together (a task, a scene, an
    operator), so counts are only near the fractions. Groups go, in the order of their hash, to
    the split that lacks most episodes."""

    def assign(self, episodes: EpisodeSet) -> list[str | None]:
        """The split of each episode.

        Raises:
            InputError: the fractions are none, or do not make 1.
            SchemaError: there is no column `together`.
        """
        fractions = list(self.parts.values())
        if not fractions or min(fractions) <= 0 or not math.isclose(math.fsum(fractions), 1):
            raise InputError(
                "The fractions cannot be used",
                expected="numbers above 0 that make 1 together",
                found=", ".join(f"{name}={part:g}" for name, part in self.parts.items()) or "none",
            )
        ids = episodes.index.episode_ids.to_pylist()
        counts = _largest_remainders(len(ids), fractions)
        if self.together is None:
            order = sorted(range(len(ids)), key=lambda row: self._hash(ids[row]))
            splits: list[str | None] = [None] * len(ids)
            ends = np.cumsum(counts)
            for place, row in enumerate(order):
                splits[row] = list(self.parts)[int(np.searchsorted(ends, place, side="right"))]
            return splits
        values = [str(value) for value in _column(episodes, self.together)]
        return [self._grouped(values, counts)[value] for value in values]

    def _grouped(self, values: Sequence[str], counts: Sequence[int]) -> dict[str, str]:
        missing = dict(zip(self.parts, counts, strict=True))
        sizes, chosen = Counter(values), {}
        for value in sorted(sizes, key=self._hash):
            chosen[value] = max(missing, key=lambda name: missing[name])
            missing[chosen[value]] -= sizes[value]
        return chosen

    def _hash(self, key: str) -> tuple[bytes, str]:
        return hashlib.md5(f"{self.seed}/{key}".encode()).digest()[:8], key

    def as_config(self) -> dict[str, Any]:
        """The rule as JSON values."""
        return {
            "fractions": dict(self.parts),
            "seed": self.seed,
            "together": self.together,
        }


@dataclass(frozen=True)
class Ranges:
    """Episodes by their positions in the set, from 0."""

    parts: Mapping[str, Sequence[tuple[int, int]]]
    """The ranges of each split, from the first number to before the second."""

    def assign(self, episodes: EpisodeSet) -> list[str | None]:
        """The split of each episode; None outside of all ranges.

        Raises:
            InputError: a range is out of the set, or two overlap.
        """
        number = len(episodes.index.lengths)
        splits: list[str | None] = [None] * number
        for name, ranges in self.parts.items():
            for start, stop in ranges:
                if not 0 <= start < stop <= number:
                    raise InputError(
                        f"The range of {name} is out of the set",
                        where=episodes.name,
                        expected=f"a part of 0:{number}",
                        found=f"{start}:{stop}",
                    )
                for row in range(start, stop):
                    if splits[row] is not None:
                        raise InputError(
                            "Two ranges overlap",
                            where=episodes.name,
                            found=f"episode {row} in {splits[row]} and {name}",
                        )
                    splits[row] = name
        return splits

    def as_config(self) -> dict[str, Any]:
        """The rule as JSON values."""
        return {"ranges": {name: [list(each) for each in r] for name, r in self.parts.items()}}


@dataclass(frozen=True)
class Values:
    """One split for each value of a column: a source, a task, an embodiment."""

    column: str

    def assign(self, episodes: EpisodeSet) -> list[str | None]:
        """The split of each episode; None where the column is null.

        Raises:
            SchemaError: there is no such column.
        """
        return [None if value is None else str(value) for value in _column(episodes, self.column)]

    def as_config(self) -> dict[str, Any]:
        """The rule as JSON values."""
        return {"by": self.column}


def split(
    lake: Lake,
    name: str,
    rule: SplitRule,
    *,
    into: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> list[Change]:
    """Split a set: into the column `split` of its episodes, or into sets of their own.

    Args:
        lake: the lake.
        name: the episode set.
        rule: `Fractions`, `Ranges` or `Values`.
        into: the names of new sets, by split; rows and video files are copied there and the set
            stays as it is. None writes the column `split`, which moves nothing. An episode that
            the rule puts nowhere is in no set, and null in the column.
        dry_run: only say what would go where.

    Returns:
        a change for each split; for the column they are of one version of the set.

    Raises:
        NotFoundError: there is no such set.
        InputError: the rule cannot be used, or `into` names other splits than the rule.
        ExistsError: the name of a new set is taken.
        ConflictError: another writer changed the set meanwhile; nothing is split.
    """
    episodes = open_episodes(lake, name)
    splits = rule.assign(episodes)
    rows = {
        each: np.array([row for row, own in enumerate(splits) if own == each], np.int64)
        for each in sorted({own for own in splits if own is not None})
    }
    if into is not None:
        _check_names(lake, into, rows)
    lineage = Lineage(
        "episodes split",
        {**rule.as_config(), "into": dict(into) if into is not None else None},
        {name: episodes.version},
    )
    if into is None:
        version = episodes.version
        if splits and not dry_run:
            version = _write_column(episodes, splits, lineage).version
        return [
            _change(episodes, each, chosen, name, episodes.version, version, dry_run=dry_run)
            for each, chosen in rows.items()
        ]
    changes = []
    for each, chosen in rows.items():
        made = None if dry_run else _copied(lake, episodes, chosen, into[each], lineage)
        changes.append(_change(episodes, each, chosen, into[each], None, made, dry_run=dry_run))
    return changes


def _change(
    episodes: EpisodeSet,
    each: str,
    rows: np.ndarray[Any, np.dtype[np.int64]],
    name: str,
    before: int | None,
    version: int | None,
    *,
    dry_run: bool,
) -> Change:
    return Change(
        "split",
        name,
        before,
        version,
        num_episodes=len(rows),
        num_frames=int(episodes.index.lengths[rows].sum()),
        dry_run=dry_run,
        details={"split": each},
    )


def _write_column(
    episodes: EpisodeSet, splits: Sequence[str | None], lineage: Lineage
) -> EpisodeSet:
    def rewrite(batch: pa.RecordBatch, rows: range) -> pa.RecordBatch:
        return with_columns(batch, {"split": splits[rows.start : rows.stop]})

    return episodes.to_write().rewrite(rewritten(episodes, rewrite), lineage=lineage)


def _copied(
    lake: Lake,
    episodes: EpisodeSet,
    rows: np.ndarray[Any, np.dtype[np.int64]],
    into: str,
    lineage: Lineage,
) -> int:
    kept_as = episodes.episodes.format
    made = create_episodes(
        lake,
        into,
        episodes.features,
        format=kept_as,
        lineage=lineage,
        annotations=annotation_fields([episodes]),
    )
    try:
        copier = Copier(made.to_write())
        copier.add(episodes, rows)
        return copier.publish(lineage).version
    except BaseException:
        give_up(lake, made)
        raise


def _largest_remainders(number: int, fractions: Sequence[float]) -> list[int]:
    """Whole counts that make `number`, as near to the fractions as can be."""
    shares = [number * fraction for fraction in fractions]
    # 0.29 * 100 is 28.999999999999996.
    counts = [math.floor(share + 1e-9) for share in shares]
    left = sorted(range(len(shares)), key=lambda i: (counts[i] - shares[i], i))
    for place in left[: number - sum(counts)]:
        counts[place] += 1
    return counts


def _column(episodes: EpisodeSet, column: str) -> list[Any]:
    schema = episodes.episodes.schema
    plain = [field.name for field in schema if not pa.types.is_nested(field.type)]
    if column not in plain:
        raise SchemaError(
            f"Episodes cannot be split by {column!r}",
            where=episodes.name,
            fix=nearest(column, plain),
        )
    values: list[Any] = episodes.episodes.scan([column]).read_all()[column].to_pylist()
    return values


def _check_names(lake: Lake, into: Mapping[str, str], splits: Mapping[str, Any]) -> None:
    if into.keys() != splits.keys() or len(set(into.values())) < len(into):
        raise InputError(
            "The new sets are not those of the splits",
            expected=f"a name of its own for each of {', '.join(splits) or 'no split'}",
            found=", ".join(f"{each}={name}" for each, name in into.items()) or "none",
        )
    for name in into.values():
        lake.check_free(name)
        if name in episode_sets(lake):
            raise ExistsError(f"The name {name!r} is taken", found="an episode set of that name")
