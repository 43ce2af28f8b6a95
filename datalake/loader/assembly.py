"""Rows to one batch of tensors: read, decode, crop or pad, collate."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from datalake import audio
from datalake.errors import InputError
from datalake.loader.clips import Crop, Pad, Samples, crop, crop_words, fill
from datalake.loader.examples import Examples
from datalake.loader.order import Indices, Order
from datalake.loader.split import Share
from datalake.schema import BONAFIDE, SPOOF
from datalake.tables.protocol import Table

__all__ = ["BATCH_KEYS", "LABELS", "Assembler", "Batch"]

Batch: TypeAlias = dict[str, Any]

LABELS: Final = {BONAFIDE: 1, SPOOF: 0, None: -1}
"""Labels as numbers: a higher one means bona fide; -1 where the corpus does not say."""

BATCH_KEYS: Final = frozenset(
    {"audio", "num_samples", "label", "weight", "row_index", "is_pad", "epoch", "position"}
)
"""The keys of every batch; the columns asked for stand beside them."""


@dataclass(frozen=True)
class Assembler:
    """Makes batches. A batch depends on nothing but its share and its epoch.

    Picklable and thread-safe. The table is read here and nowhere else in the loader, by one `take`
    a batch: a cache of blocks would answer it. Decoding is `_clip` alone: a policy for utterances
    that cannot be decoded, or a cache of decoded ones, would wrap it.
    """

    table: Table
    examples: Examples
    columns: tuple[str, ...]
    num_samples: int | None
    sample_rate_hz: int
    crop: Crop
    pad: Pad
    seed: int

    def assemble(self, share: Share, order: Order, epoch: int, decoders: Executor) -> Batch:
        """Read and decode one rank's share of one step.

        Raises:
            InputError: an utterance cannot be decoded, or its label is unknown; names row and id.
            StoreError: the store refused.
        """
        examples = order.examples(share.positions)
        rows = self.examples.rows(examples)
        table, places = self._take(rows)
        clips, lengths = self._clips(rows, table["audio"], places, epoch, decoders)
        labels = self._labels(rows, table["label"], places)
        batch: Batch = {
            "audio": torch.from_numpy(clips),
            "num_samples": torch.from_numpy(lengths),
            "label": torch.from_numpy(labels),
            "weight": torch.from_numpy(self.examples.weights(examples)),
            "row_index": torch.from_numpy(rows),
            "is_pad": torch.from_numpy(share.is_pad),
            "epoch": epoch,
            "position": share.end,
        }
        for name in self.columns:
            values = table[name].to_pylist()
            batch[name] = [values[place] for place in places]
        return batch

    def _take(self, rows: Indices) -> tuple[pa.Table, Indices]:
        """The rows in ascending order, as stores like to read, and the place of each row there."""
        ascending = np.argsort(rows, kind="stable")
        places = np.empty_like(ascending)
        places[ascending] = np.arange(len(rows))
        columns = list(dict.fromkeys(("audio", "label", *self.columns)))
        return self.table.take(rows[ascending], columns), places

    def _clips(
        self,
        rows: Indices,
        encoded: pa.ChunkedArray,
        places: Indices,
        epoch: int,
        decoders: Executor,
    ) -> tuple[Samples, npt.NDArray[np.int64]]:
        """Decoded clips (batch, num_samples); how many samples of each are no padding (batch,)."""
        words = crop_words(rows, seed=self.seed, epoch=epoch)

        def clip(index: int) -> Samples:
            word = words[index] if self.crop == "random" else None
            return self._clip(rows[index], encoded[places[index]].as_py(), word)

        indices = range(len(rows))
        if self.num_samples is None:
            clips = list(decoders.map(clip, indices))
            lengths = np.array([len(samples) for samples in clips])
            out = np.empty((len(rows), lengths.max()), np.float32)
            for index in indices:
                fill(out[index], clips[index], self.pad)
            return out, lengths
        out = np.empty((len(rows), self.num_samples), np.float32)

        def clip_into(index: int) -> int:
            samples = clip(index)
            fill(out[index], samples, self.pad)
            return len(samples)

        return out, np.fromiter(decoders.map(clip_into, indices), np.int64, len(rows))

    def _clip(self, row: np.int64, encoded: bytes | None, word: np.uint64 | None) -> Samples:
        try:
            samples, _ = audio.decode(encoded or b"", sample_rate_hz=self.sample_rate_hz)
        except audio.BadAudio as error:
            raise InputError(
                "An utterance cannot be decoded",
                where=self._place(row),
                found=error.refusal.detail,
                fix="Delete the row and select again, or ingest the corpus again: "
                "ingest keeps such files in the quarantine table",
            ) from error
        return samples if self.num_samples is None else crop(samples, self.num_samples, word)

    def _labels(
        self, rows: Indices, labels: pa.ChunkedArray, places: Indices
    ) -> npt.NDArray[np.int64]:
        values = labels.to_pylist()
        numbers = np.empty(len(rows), np.int64)
        for index, (row, place) in enumerate(zip(rows, places, strict=True)):
            if values[place] not in LABELS:
                raise InputError(
                    "A label is unknown",
                    where=self._place(row),
                    expected=f"{BONAFIDE}, {SPOOF} or null",
                    found=repr(values[place]),
                )
            numbers[index] = LABELS[values[place]]
        return numbers

    def _place(self, row: np.int64) -> str:
        """Where a row stands, for a person. The id is read only now, since few ask for it."""
        (utt_id,) = self.table.take([int(row)], ["utt_id"])["utt_id"].to_pylist()
        return f"{self.table.uri}, version {self.table.version}, row {row}, utt_id {utt_id}"
