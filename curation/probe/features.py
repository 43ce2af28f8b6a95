"""Features of a table's utterances, computed once and kept on disk while a run lasts.

Training visits an utterance many times, and decoding it costs more than learning from it. The
store decodes a row the first time it is needed and keeps its features in a temporary file (about
97 kB for 4 s of LFCC, 256 kB for a waveform), which the operating system caches as memory allows. A
run of S steps with batches of B needs at most S * B rows and the validation rows, however large the
table. Rows that are augmented are kept as waveforms, and their features computed anew each time.
"""

from __future__ import annotations

import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor, nn

from curation.probe.augmentation import Augmenter
from curation.probe.detector import Design, NeuralDetector, choose_device
from datalake.errors import InputError, SchemaError, nearest
from datalake.loader import Loader, Selected, Utterances
from datalake.tables import Table

__all__ = ["FeatureStore", "Indices"]

Indices: TypeAlias = npt.NDArray[np.int64]

_BATCH: Final = 64
_VECTORS: Final = 4096


class FeatureStore:
    """Features by row index. Not thread-safe; the file goes with the object.

    Args:
        table: the version whose row indices are meant; it must have the column `audio`, or the one
            that the design reads.
        design: whose front end to use.
        duration_s: clips are cut after it, and shorter ones repeated up to it.
        device: where features are computed and handed out.
        on_progress: called with (rows done, rows wanted) while rows are decoded, from 0 on each
            time that some are: batches in between take time too.
        num_threads: that augment waveforms; results are the same for any number.
    """

    def __init__(
        self,
        table: Table,
        design: Design,
        *,
        duration_s: float = 4.0,
        device: str = "auto",
        on_progress: Callable[[int, int], None] | None = None,
        num_threads: int = 1,
    ) -> None:
        self.device = choose_device(device)
        self.num_threads = num_threads
        self._table = table
        self._column = design.column
        self._sample_rate_hz = design.sample_rate_hz
        self._num_samples = round(duration_s * design.sample_rate_hz)
        self._front_end = design.front_end().to(self.device).eval()
        self._on_progress = on_progress
        self._file = tempfile.TemporaryFile(prefix="features-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._slots: dict[int, int] = {}
        self._shape: tuple[int, ...] = ()
        self._kept = np.empty(0, np.float32)
        # Where waveforms are kept, once some are augmented.
        self._of_waveforms: Callable[[], FeatureStore] = lambda: FeatureStore(
            table,
            replace(design, front_end=nn.Identity),
            duration_s=duration_s,
            device="cpu",
            on_progress=on_progress,
        )
        self._waveform_store: FeatureStore | None = None

    def ensure(self, rows: Indices) -> None:
        """Compute the features of those rows that are not there yet.

        Raises:
            SchemaError: the table has no such column of vectors as the design reads.
            InputError: a row has no vector.
        """
        wanted = [row for row in np.unique(rows).tolist() if row not in self._slots]
        if not wanted:
            return
        self._file.seek(0, 2)
        done = 0
        self._tell(done, len(wanted))
        for indices, heard in self._inputs(np.asarray(wanted)):
            with torch.no_grad():
                features = self._front_end(heard.to(self.device)).cpu().numpy()
            self._shape = features.shape[1:]
            self._file.write(features.astype(np.float32, copy=False).tobytes())
            for row in indices.tolist():
                self._slots[row] = len(self._slots)
            done += len(indices)
            self._tell(done, len(wanted))
        self._file.flush()
        shape = (len(self._slots), *self._shape)
        self._kept = np.memmap(self._file, np.float32, mode="r", shape=shape)

    def ensure_waveforms(self, rows: Indices) -> None:
        """Decode those rows that will be augmented.

        Raises:
            InputError: the design reads vectors, which have no waveform.
        """
        self._waveforms().ensure(rows)

    def _tell(self, done: int, wanted: int) -> None:
        if self._on_progress is not None:
            self._on_progress(done, wanted)

    def features(self, rows: Indices) -> Tensor:
        """Features of rows that were ensured: float32 (len(rows), ...) on the store's device."""
        slots = [self._slots[row] for row in rows.tolist()]
        return torch.from_numpy(self._kept[slots]).to(self.device)

    @torch.no_grad()
    def augmented(
        self,
        rows: Indices,
        augmenter: Augmenter,
        utt_ids: Sequence[str],
        epochs: Sequence[int],
        record: Counter[str] | None = None,
    ) -> Tensor:
        """Features of changed waveforms: float32 (len(rows), ...) on the store's device.

        Args:
            rows: with `ensure_waveforms` done.
            augmenter: what changes them.
            utt_ids: their names.
            epochs: how often each was trained on before.
            record: counts what was done.
        """
        waves = self._waveforms().features(rows).numpy()
        changed = torch.from_numpy(augmenter.apply(waves, utt_ids, epochs, record))
        features: Tensor = self._front_end(changed.to(self.device))
        return features

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

    def _waveforms(self) -> FeatureStore:
        if self._column is not None:
            raise InputError(
                "An embedding cannot be augmented as audio",
                where=self._column,
                fix="Leave RawBoost and codecs out, or use a detector that hears audio",
            )
        if isinstance(self._front_end, nn.Identity) and self.device.type == "cpu":
            return self
        if self._waveform_store is None:
            self._waveform_store = self._of_waveforms()
        return self._waveform_store

    def _inputs(self, rows: Indices) -> Iterator[tuple[Indices, Tensor]]:
        """The rows' indices and what the front end takes, a batch at a time, in order."""
        return self._decoded(rows) if self._column is None else self._read(rows, self._column)

    def _decoded(self, rows: Indices) -> Iterator[tuple[Indices, Tensor]]:
        """Waveforms (batch, num_samples)."""
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

    def _read(self, rows: Indices, column: str) -> Iterator[tuple[Indices, Tensor]]:
        """Vectors (batch, size)."""
        schema = self._table.schema
        if column not in schema.names:
            raise SchemaError(
                f"The table has no embedding {column!r}",
                where=self._table.uri,
                fix=nearest(column, [field.name for field in schema if _is_vector(field.type)])
                or "Add one with `curate embed`, or name another with --embedding",
            )
        kind = schema.field(column).type
        if not _is_vector(kind):
            raise SchemaError(
                f"The column {column!r} is no embedding",
                where=self._table.uri,
                expected="a list of floats of one fixed size",
                found=str(kind),
            )
        for begin in range(0, len(rows), _VECTORS):
            part = rows[begin : begin + _VECTORS]
            vectors = self._table.take(part.tolist(), [column])[column].combine_chunks()
            if vectors.null_count:
                raise InputError(
                    f"Rows have no {column}",
                    where=self._table.uri,
                    found=f"{vectors.null_count:,} of {len(part):,} rows read",
                    fix=f"Add what is missing, or leave such rows out: --where "
                    f"'{column} IS NOT NULL'",
                )
            values = vectors.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
            yield part, torch.from_numpy(values.reshape(len(part), kind.list_size))


def _is_vector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type))
