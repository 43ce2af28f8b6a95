"""Merging episode sets: all episodes of several, in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from datalake.episodes.care import give_up
from datalake.episodes.episode_set import (
    EpisodeSet,
    create_episodes,
    episode_sets,
    open_episodes,
)
from datalake.episodes.fitting import is_storable
from datalake.episodes.operations.change import Change
from datalake.episodes.operations.copying import Copier, Rename, annotation_fields, same_id
from datalake.episodes.schema import frames_schema
from datalake.errors import ExistsError, InputError, SchemaError
from datalake.lake import Lake, Lineage
from datalake.recording import Feature
from datalake.tables import Table

__all__ = ["merge"]

_BATCH_ROWS = 8192
_SHOWN = 3


def merge(
    lake: Lake,
    sources: Sequence[str],
    into: str,
    *,
    union: bool = False,
    prefix: bool = False,
    dry_run: bool = False,
) -> Change:
    """Add all episodes of sets to another one, which is made if it is not there.

    The sets stay as they are: rows and video files are copied, a file that several of them have
    once. Task numbers are each episode's own, so none of them changes. Annotations come along where
    `into` has their column, filled in the same way (same type and field metadata); a set that is
    made has those of all sets. Other values do not, and the change names their columns.

    Args:
        lake: the lake.
        sources: the sets, in the order in which their episodes follow each other.
        into: the set that gets them.
        union: take sets whose features or frame rates differ. A feature that an episode lacks is
            null in its frames; names, units and sizes of pictures are kept episode by episode.
        prefix: put `<set>/` before the ids of what comes in, and so keep ids apart that are equal.
        dry_run: only say what would come in.

    Raises:
        NotFoundError: there is no such set.
        SchemaError: features or frame rates differ, and `union` is false, or one column could not
            hold both; says in what.
        ExistsError: two episodes have the same id.
        InputError: no set is named, one twice, or `into` among them; or two different video files
            have the same id.
        ConflictError: another writer changed `into` meanwhile; nothing is merged.
    """
    if not sources or len(set(sources)) < len(sources) or into in sources:
        raise InputError(
            "These sets cannot be merged",
            where=into,
            expected="one set or more, each once, and another one that gets their episodes",
            found=", ".join(sources) or "none",
        )
    given = [open_episodes(lake, name) for name in sources]
    held = open_episodes(lake, into) if into in episode_sets(lake) else None
    if held is None:
        lake.check_free(into)
    present = [*([held] if held else []), *given]
    features = _fitted(present, union=union)
    renames: list[Rename] = [partial(_prefixed, each.name) if prefix else same_id for each in given]
    _check_ids(held, given, renames)
    if dry_run:
        return Change(
            "merge",
            into,
            held.version if held else None,
            held.version if held else None,
            num_episodes=sum(len(each.index.lengths) for each in given),
            num_frames=sum(int(each.index.starts[-1]) for each in given),
            num_videos=sum(each.videos.count_rows() for each in given),
            dry_run=True,
            details={"sources": list(sources)},
        )
    lineage = Lineage(
        "episodes merge",
        {"sources": list(sources), "union": union, "prefix": prefix},
        {each.name: each.version for each in present},
    )
    target = held
    if target is None:
        kept_as = given[0].episodes.format
        target = create_episodes(
            lake,
            into,
            features,
            format=kept_as,
            lineage=lineage,
            annotations=annotation_fields(given),
        )
    try:
        copier = Copier(_widened(target.to_write(), features, lineage))
        rows = [np.arange(len(source.index.lengths)) for source in given]
        for source, chosen, renamed in zip(given, rows, renames, strict=True):
            copier.check(source, chosen, renamed)
        for source, chosen, renamed in zip(given, rows, renames, strict=True):
            copier.add(source, chosen, renamed)
        made = copier.publish(lineage)
    except BaseException:
        if held is None:
            give_up(lake, target)
        raise
    return Change(
        "merge",
        into,
        held.version if held else None,
        made.version,
        num_episodes=copier.num_episodes,
        num_frames=copier.num_frames,
        num_videos=copier.num_videos,
        num_video_bytes=copier.num_video_bytes,
        details={"sources": list(sources), "annotations_left": sorted(copier.left)},
    )


def _prefixed(name: str, own: str) -> str:
    return f"{name}/{own}"


def _fitted(sets: Sequence[EpisodeSet], *, union: bool) -> tuple[Feature, ...]:
    """The features of all sets together.

    Raises:
        SchemaError: they may not be put together.
    """
    first, *others = sets
    features = {feature.name: feature for feature in first.features}
    owners = dict.fromkeys(features, first.name)
    clashes: list[str] = []
    differences: list[str] = []
    rates = {each.name: _rates(each) for each in sets}
    for other in others:
        own = {feature.name: feature for feature in other.features}
        differences += [f"{name} (not in {other.name})" for name in features.keys() - own.keys()]
        for name, feature in own.items():
            if name not in features:
                differences.append(f"{name} (only in {other.name})")
                features[name], owners[name] = feature, other.name
            elif not is_storable(features[name], feature):
                clashes.append(_told(name, features[name], owners[name], feature, other.name))
            elif replace(features[name], info={}) != replace(feature, info={}):
                differences.append(_told(name, features[name], owners[name], feature, other.name))
    if clashes:
        raise SchemaError(
            "A feature is of another kind in each set, and one column cannot hold both",
            where=", ".join(each.name for each in sets),
            found="; ".join(sorted(clashes)),
            fix="Rename it in one of the sets, or drop it: rename-feature, drop-feature",
        )
    if len({rate for found in rates.values() for rate in found}) > 1:
        told = ", ".join(
            f"{' and '.join(f'{r:g}' for r in sorted(found))} in {name}"
            for name, found in rates.items()
        )
        differences.append(f"frames a second ({told})")
    if differences and not union:
        raise SchemaError(
            "The sets differ",
            where=", ".join(each.name for each in sets),
            found="; ".join(sorted(differences)),
            fix="Ask for the union (union=True, --union), or make them alike first: "
            "rename-feature, drop-feature",
        )
    return tuple(features.values())


def _rates(of: EpisodeSet) -> set[float]:
    return {rate for batch in of.episodes.scan(["fps"]) for rate in batch.column("fps").to_pylist()}


def _told(name: str, held: Feature, holder: str, other: Feature, other_holder: str) -> str:
    pairs = [
        f"{what} {_short(getattr(held, what))} in {holder},"
        f" {_short(getattr(other, what))} in {other_holder}"
        for what in ("dtype", "shape", "names", "unit")
        if getattr(held, what) != getattr(other, what)
    ]
    return f"{name} ({'; '.join(pairs)})"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _check_ids(
    held: EpisodeSet | None, given: Sequence[EpisodeSet], renames: Sequence[Rename]
) -> None:
    """See that no two episodes have the same id.

    Raises:
        ExistsError: some have.
    """
    seen: dict[str, str] = {}
    twice: list[str] = []
    num_twice = 0
    for each, renamed in zip(
        [*([held] if held else []), *given], [*([same_id] if held else []), *renames], strict=True
    ):
        for own in each.index.episode_ids.to_pylist():
            other = seen.setdefault(renamed(own), each.name)
            if other != each.name:
                num_twice += 1
                twice += (
                    [f"{renamed(own)} in {other} and {each.name}"] if num_twice <= _SHOWN else []
                )
    if num_twice:
        more = f" and {num_twice - _SHOWN:,} more" if num_twice > _SHOWN else ""
        raise ExistsError(
            "Episodes of different sets have the same id",
            where=", ".join(each.name for each in given),
            found=", ".join(twice) + more,
            fix="Delete the ones or the others; or keep both, with the name of their set before "
            "their ids (prefix=True, --prefix)",
        )


def _widened(writing: EpisodeSet, features: Sequence[Feature], lineage: Lineage) -> EpisodeSet:
    """The set with a column for each feature; nothing of it is published yet."""
    wanted = frames_schema(features)
    missing = [field for field in wanted if field.name not in writing.frames.schema.names]
    frames: Table = writing.frames
    if missing:
        frames = frames.add_columns(
            _nulls(pa.schema(missing), frames.count_rows()), properties=lineage.properties()
        )
    return replace(writing, frames=frames, features=tuple(features))


def _nulls(schema: pa.Schema, num_rows: int) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, num_rows, _BATCH_ROWS):
            length = min(_BATCH_ROWS, num_rows - start)
            yield pa.RecordBatch.from_arrays(
                [pa.nulls(length, field.type) for field in schema], schema=schema
            )

    return pa.RecordBatchReader.from_batches(schema, batches())
