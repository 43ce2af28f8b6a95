"""The texts of tasks, by episode and number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Tasks"]


class Tasks:
    """What the tasks of frames are called. Equal texts are one object, however many frames.

    Holds some 20 bytes an episode, and each text once.

    Args:
        column: `tasks` of the episodes table, (episodes,).
    """

    def __init__(self, column: pa.ListArray) -> None:
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        self._lengths = lengths.astype(np.int64)
        self._starts = np.cumsum(self._lengths) - self._lengths
        flat = column.flatten()
        encoded = pc.dictionary_encode(flat.field("task"))
        self._numbers = flat.field("task_index").fill_null(-1).to_numpy(zero_copy_only=False)
        codes = encoded.indices.fill_null(-1)
        self._codes = np.append(codes.to_numpy(zero_copy_only=False), -1).astype(np.int64)
        # The last one is taken where there is none.
        self._texts = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)

    def texts(
        self, episodes: npt.NDArray[np.int64], task_index: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.object_]:
        """The text of each task, (n,); None where the episode has no task of that number."""
        starts, lengths = self._starts[episodes], self._lengths[episodes]
        codes = np.full(len(episodes), -1, np.int64)
        for place in range(int(lengths.max(initial=0))):
            # Beyond an episode's last task one stays on it; what is found twice is the same.
            at = starts + np.minimum(place, np.maximum(lengths - 1, 0))
            is_here = (lengths > 0) & (
                self._numbers[at.clip(max=len(self._numbers) - 1)] == task_index
            )
            codes[is_here] = self._codes[at[is_here]]
        found: npt.NDArray[np.object_] = self._texts[codes]
        return found
