"""The numbers of tasks in an export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from datalake.errors import InputError

__all__ = ["Tasks", "number_tasks", "tasks_parquet"]

_NO_TASK: Final = -1

Found = Sequence[tuple[int, str]]
"""The tasks of one episode: the number that its source gave it, and its text."""


@dataclass(frozen=True)
class Tasks:
    """The tasks of an export, and what each episode's own numbers become."""

    texts: tuple[str, ...]
    """By number, from 0: LeRobot finds a task by its place in the table."""
    _numberings: tuple[Mapping[int, int], ...]
    _which: npt.NDArray[np.int32]

    def renumbered(self, episode: int, numbers: pa.Array) -> npt.NDArray[np.int64]:
        """The `task_index` of an episode's frames, given those in the lake (null: no task).

        Raises:
            InputError: a number is none of the episode's tasks.
        """
        numbering = self._numberings[self._which[episode]]
        own = numbers.fill_null(_NO_TASK).to_numpy(zero_copy_only=False)
        values, places = np.unique(own, return_inverse=True)
        if unknown := set(values.tolist()) - set(numbering):
            found = "null" if _NO_TASK in unknown else str(min(unknown))
            raise InputError(
                "Frames are of a task that their episode does not have",
                expected=f"one of {', '.join(map(str, numbering))}",
                found=found,
                fix="Give the episode a task: datalake episodes task",
            )
        return np.array([numbering[value] for value in values.tolist()], np.int64)[places]


def number_tasks(episodes: Iterable[Found]) -> Tasks:
    """Number the texts of all episodes from 0.

    Where every text has one number and every number one text, texts keep their order, and their
    numbers if those are 0, 1, 2 and so on. Else they are numbered as they appear. An episode
    without a task has the empty text, since LeRobot wants one for every frame.
    """
    texts: dict[str, None] = {}
    number_of: dict[str, int] = {}
    text_of: dict[int, str] = {}
    consistent = True
    kinds: dict[tuple[tuple[int, str], ...], int] = {}
    which = []
    for found in episodes:
        kind = tuple(found) or ((_NO_TASK, ""),)
        if kind not in kinds:
            kinds[kind] = len(kinds)
            for number, text in kind:
                texts.setdefault(text)
                consistent &= number_of.setdefault(text, number) == number
                consistent &= text_of.setdefault(number, text) == text
        which.append(kinds[kind])
    ordered = sorted(texts, key=number_of.__getitem__) if consistent else list(texts)
    place = {text: number for number, text in enumerate(ordered)}
    numberings = tuple({number: place[text] for number, text in kind} for kind in kinds)
    return Tasks(tuple(ordered), numberings, np.array(which, np.int32))


def tasks_parquet(texts: Sequence[str]) -> pa.Buffer:
    """`meta/tasks.parquet`: a data frame of pandas whose index are the texts.

    The index has no name, as in files of `lerobot` 0.4; newer versions name it when they read it.
    """
    index = "__index_level_0__"
    strings = {"pandas_type": "unicode", "numpy_type": "object"}
    said: dict[str, Any] = {
        "index_columns": [index],
        "column_indexes": [
            {"name": None, "field_name": None, **strings, "metadata": {"encoding": "UTF-8"}}
        ],
        "columns": [
            {
                "name": "task_index",
                "field_name": "task_index",
                "pandas_type": "int64",
                "numpy_type": "int64",
                "metadata": None,
            },
            {"name": None, "field_name": index, **strings, "metadata": None},
        ],
        "attributes": {},
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    rows = pa.table(
        {
            "task_index": pa.array(range(len(texts)), pa.int64()),
            index: pa.array(texts, pa.string()),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata({"pandas": json.dumps(said)}), sink)
    return sink.getvalue()
