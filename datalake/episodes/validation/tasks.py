"""Tasks: that each frame's has a text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from datalake.episodes.validation.faults import error, first_of, warning
from datalake.quarantine import Reason
from datalake.recording import EpisodeData, Finding

__all__ = ["missing_texts"]


def missing_texts(data: EpisodeData) -> Iterator[Finding]:
    """A task_index that no task has, or a task whose text is empty."""
    texts = {number: text for number, text in data.tasks.items() if text.strip()}
    if "task_index" not in data.frames.column_names:
        if not texts:
            yield warning(data, Reason.NO_TASK, "expected a task, found none")
        return
    column = data.frames["task_index"]
    if not pa.types.is_integer(column.type):
        detail = f"expected integers, found {column.type}"
        yield error(data, Reason.SHAPE_CHANGED, detail, feature="task_index")
        return
    numbers = column.to_pylist()
    bad = np.array([number not in texts for number in numbers])
    if bad.any():
        row, more = first_of(bad)
        number = numbers[row]
        if number is None:
            found = "null"
        elif number in data.tasks:
            found = f"task {number} with an empty text"
        else:
            found = f"task {number}, which is not listed"
        detail = f"expected a task with a text, found {found}{more}"
        yield warning(data, Reason.NO_TASK, detail, frame=row, feature="task_index")
