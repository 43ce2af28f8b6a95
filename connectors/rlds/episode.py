"""One RLDS episode: its Example as frames, tasks and metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from connectors.refused import RefusedError
from connectors.rlds.columns import (
    column_of_steps,
    feature_name,
    feature_of_leaf,
    value_of,
)
from connectors.rlds.tf_example import Values, parse_example
from connectors.rlds.tfds_features import Leaf
from datalake.quarantine import Reason
from datalake.recording import EpisodeData, EpisodeRef, Feature

__all__ = ["Rules", "read_episode", "task_leaf"]

_TASK_NAMES: Final = (
    "language_instruction",
    "observation.natural_language_instruction",
    "observation.language_instruction",
    "natural_language_instruction",
    "instruction",
    "task",
)


@dataclass(frozen=True)
class Rules:
    """How episodes are read."""

    fps: float
    drop_last: bool = False
    """Whether a last step that is marked so is left out."""
    keep_invalid: bool = False
    task: Leaf | None = None
    """The text that is the task."""
    task_text: str | None = None
    """The task of every frame, in its place."""
    steps: tuple[Leaf, ...] = ()
    """What becomes frames, without the task."""
    episode: tuple[Leaf, ...] = ()
    """What is said of the episode as a whole."""

    @classmethod
    def of(
        cls,
        leaves: Sequence[Leaf],
        fps: float,
        task: Leaf | str | None,
        *,
        drop_last: bool = False,
        keep_invalid: bool = False,
    ) -> Rules:
        """The rules for a dataset that holds `leaves`; `task` is a leaf of them or a text."""
        steps = [
            leaf
            for leaf in leaves
            if leaf.path[0] == "steps" and leaf.kind != "unknown" and leaf != task
        ]
        # All are counted against the first, so it should be one that nothing can go wrong with.
        steps.sort(key=lambda leaf: leaf.path != ("steps", "is_first"))
        return cls(
            fps,
            drop_last,
            keep_invalid,
            task if isinstance(task, Leaf) else None,
            task if isinstance(task, str) else None,
            tuple(steps),
            tuple(leaf for leaf in leaves if leaf.path[0] != "steps"),
        )

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features as features.json declares them, by name."""
        return tuple(sorted(map(feature_of_leaf, self.steps), key=lambda feature: feature.name))


def task_leaf(leaves: Sequence[Leaf], asked: str | None) -> Leaf | None:
    """The text that says the task: the one asked for, or the first of the usual names there are."""
    texts = {
        feature_name(leaf): leaf
        for leaf in leaves
        if leaf.path[0] == "steps" and leaf.kind == "text" and not leaf.whole_shape
    }
    names = [asked] if asked else _TASK_NAMES
    return next((texts[name] for name in names if name in texts), None)


def read_episode(ref: EpisodeRef, data: memoryview, split: str, rules: Rules) -> EpisodeData:
    """The episode that a record holds.

    Raises:
        RefusedError: it holds none that can be used.
    """
    lists = parse_example(data)
    metadata = _metadata(rules.episode, lists)
    if metadata.get("invalid") is True and not rules.keep_invalid:
        raise RefusedError(
            Reason.MARKED_INVALID, "invalid is true; the option invalid=keep takes it all the same"
        )
    features, frames, texts = _frames(rules, lists)
    if frames.num_rows and rules.drop_last and _is_marked_last(frames):
        frames = frames.slice(0, frames.num_rows - 1)
    if frames.num_rows == 0:
        raise RefusedError(Reason.EMPTY, "there are no steps")
    if texts is None:
        tasks = {0: rules.task_text} if rules.task_text else {}
    else:
        coded = texts.slice(0, frames.num_rows).dictionary_encode()
        tasks = dict(enumerate(coded.dictionary.to_pylist()))
        frames = frames.append_column("task_index", coded.indices.cast(pa.int64()))
    times = np.arange(frames.num_rows) / rules.fps
    return EpisodeData(
        ref,
        frames.add_column(0, "timestamp", pa.array(times)),
        features,
        tasks=tasks,
        success=_success(metadata),
        split=split,
        metadata=metadata,
    )


def _frames(
    rules: Rules, lists: Mapping[str, Values]
) -> tuple[tuple[Feature, ...], pa.Table, pa.Array | None]:
    num_steps: int | None = None
    found: dict[str, tuple[Feature, pa.Array]] = {}
    for leaf in rules.steps:
        feature, column = column_of_steps(leaf, lists, num_steps)
        found[feature.name] = feature, column
        num_steps = len(column)
    texts = column_of_steps(rules.task, lists, num_steps)[1] if rules.task else None
    columns = {name: found[name][1] for name in sorted(found)}
    return tuple(found[name][0] for name in columns), pa.table(columns), texts


def _is_marked_last(frames: pa.Table) -> bool:
    return "is_last" in frames.column_names and bool(frames["is_last"][-1].as_py())


def _metadata(leaves: Sequence[Leaf], lists: Mapping[str, Values]) -> dict[str, Any]:
    """What is said of the episode, nested as in features.json. What cannot be read is left out."""
    found: dict[str, Any] = {}
    for leaf in leaves:
        try:
            value = value_of(leaf, lists)
        except RefusedError:
            continue
        if value is not None:
            place = found
            for key in leaf.path[:-1]:
                place = place.setdefault(key, {})
            place[leaf.path[-1]] = value
    return found


def _success(metadata: Mapping[str, Any]) -> bool | None:
    places = (metadata, metadata.get("episode_metadata"))
    for place in places:
        value = place.get("success") if isinstance(place, dict) else None
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
    return None
