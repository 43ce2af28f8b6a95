"""Features of a table's utterances, computed once and kept on disk while a run lasts.

Training visits an utterance many times, and decoding it costs more than learning from it. The
store decodes a row the first time it is needed and keeps its features in a temporary file (about
97 kB for 4 s of LFCC), which the operating system caches as memory allows. A run of S steps with
batches of B needs at most S * B rows and the validation rows, however large the table.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from curation.probe.detector import Design, NeuralDetector, choose_device
from datalake.loader import Loader, Selected, Utterances
from datalake.tables import Table

__all__ = ["FeatureStore", "Indices"]

Indices: TypeAlias = npt.NDArray[np.int64]

_BATCH: Final = 64


class FeatureStore:
    """Features by row index. Not thread-safe; the file goes with the object.

    Args:
        table: the version whose row indices are meant; it must have the column `audio`.
        design: whose front end to use.
        duration_s: clips are cut after it, and shorter ones repeated up to it.
        device: where features are computed and handed out.
        on_progress: called with (rows done, rows wanted) while rows are decoded, from 0 on each
            time that some are: batches in between take time too.
    """

    def __init__(
        self,
        table: Table,
        design: Design,
        *,
        duration_s: float = 4.0,
        device: str = "auto",
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.device = choose_device(device)
        self._table = table
        self._sample_rate_hz = design.sample_rate_hz
        self._num_samples = round(duration_s * design.sample_rate_hz)
        self._front_end = design.front_end().to(self.device).eval()
        self._on_progress = on_progress
        self._file = tempfile.TemporaryFile(prefix="features-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._slots: dict[int, int] = {}
        self._shape: tuple[int, ...] = ()
        self._kept = np.empty(0, np.float32)

    def ensure(self, rows: Indices) -> None:
        """Compute the features of those rows that are not there yet."""
        wanted = [row for row in np.unique(rows).tolist() if row not in self._slots]
        if not wanted:
            return
        self._file.seek(0, 2)
        done = 0
        self._tell(done, len(wanted))
        for indices, waveforms in self._waveforms(np.asarray(wanted)):
            with torch.no_grad():
                features = self._front_end(waveforms.to(self.device)).cpu().numpy()
            self._shape = features.shape[1:]
            self._file.write(features.astype(np.float32, copy=False).tobytes())
            for row in indices.tolist():
                self._slots[row] = len(self._slots)
            done += len(indices)
            self._tell(done, len(wanted))
        self._file.flush()
        shape = (len(self._slots), *self._shape)
        self._kept = np.memmap(self._file, np.float32, mode="r", shape=shape)

    def _tell(self, done: int, wanted: int) -> None:
        if self._on_progress is not None:
            self._on_progress(done, wanted)

    def features(self, rows: Indices) -> Tensor:
        """Features of rows that were ensured: float32 (len(rows), ...) on the store's device."""
        slots = [self._slots[row] for row in rows.tolist()]
        return torch.from_numpy(self._kept[slots]).to(self.device)

    @torch.no_grad()
    def scores(self, detector: NeuralDetector, rows: Indices) -> npt.NDArray[np.float64]:
        """Scores (len(rows),) of rows, ensured here, by a detector of the store's design."""
        self.ensure(rows)
        detector.eval()
        parts = [
            detector.network(self.features(rows[begin : begin + _BATCH]))
            for begin in range(0, len(rows), _BATCH)
        ]
        return torch.cat(parts).double().cpu().numpy()

    def _waveforms(self, rows: Indices) -> Iterator[tuple[Indices, Tensor]]:
        """The rows' indices and waveforms (batch, num_samples), a batch at a time, in order."""
        source = Utterances(
            self._table,
            num_samples=self._num_samples,
            sample_rate_hz=self._sample_rate_hz,
            crop="head",
        )
        loader = Loader(
            Selected(source, rows),
            batch_size=_BATCH,
            order="sequential",
            tail="short",
            rank=0,
            world_size=1,
        )
        for batch in loader:
            yield batch["row_index"].numpy(), batch["audio"]
