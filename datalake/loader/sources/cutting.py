"""Encoded clips to one array of samples: decoded, cropped and padded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from datalake.audio import BadAudio, Clip, open_clip
from datalake.audio.clip import DecodedClip
from datalake.audio.pcm import plain_lengths, write_plain
from datalake.loader.order.hashing import Words
from datalake.loader.sources.clips import (
    Crop,
    Layout,
    Pad,
    Samples,
    crop_start,
    crop_starts,
    pad_behind,
)
from datalake.loader.sources.source import Allocate
from datalake.quarantine import Reason, Refusal
from datalake.tables.mapped import Bytes

__all__ = ["Cut", "Cutting"]


@dataclass
class Cut:
    """Clips of one batch."""

    audio: Samples
    """(n, num_samples), or flat: (total,)."""
    lengths: npt.NDArray[np.int64]
    """Samples of each before padding, (n,)."""
    refused: dict[int, Refusal] = field(default_factory=dict)
    """Which of them could not be decoded; their samples mean nothing."""


@dataclass(frozen=True)
class Cutting:
    """What of clips comes into a batch, and how it lies there."""

    num_samples: int | None
    """None: whole clips, padded to the longest of the batch."""
    sample_rate_hz: int
    crop: Crop
    pad: Pad
    layout: Layout = "padded"

    def cut(
        self,
        files: Sequence[Bytes | None],
        words: Words,
        allocate: Allocate,
        decoded: Mapping[int, Samples],
    ) -> Cut:
        """Decode and cut clips.

        Args:
            files: the encoded bytes of each clip; None for null.
            words: (n,), from which the random crops follow.
            allocate: for the samples.
            decoded: clips that are at hand decoded, by their place; their bytes may be None.
        """
        lengths = plain_lengths(files, self.sample_rate_hz)
        if self.layout == "flat":
            return self._flat(files, lengths, words, allocate, decoded)
        if self.num_samples is None:
            return self._whole(files, lengths, allocate, decoded)
        return self._cropped(files, lengths, words, allocate, decoded, self.num_samples)

    def open(self, file: Bytes | None) -> Clip:
        """One clip that is not plain.

        Raises:
            BadAudio: it is no audio, or damaged.
        """
        if file is None:
            raise BadAudio.of(Reason.EMPTY, "null")
        return open_clip(file, self.sample_rate_hz)

    def _cropped(
        self,
        files: Sequence[Bytes | None],
        lengths: npt.NDArray[np.int64],
        words: Words,
        allocate: Allocate,
        decoded: Mapping[int, Samples],
        num_samples: int,
    ) -> Cut:
        cut = Cut(allocate((len(files), num_samples), np.float32), np.zeros(len(files), np.int64))
        starts = crop_starts(lengths, num_samples, words, self.crop).tolist()
        for index, (row, length) in enumerate(zip(cut.audio, lengths.tolist(), strict=True)):
            start, clip = starts[index], None
            try:
                if not length:
                    clip = _open(self, files[index], decoded.get(index))
                    length = clip.num_samples
                    start = crop_start(length, num_samples, int(words[index]), self.crop)
                length = min(length, num_samples)
                _write(row[:length], clip, files[index], start)
            except BadAudio as error:
                cut.refused[index] = error.refusal
                continue
            cut.lengths[index] = length
            if length < num_samples:
                pad_behind(row, length, self.pad)
        return cut

    def _whole(
        self,
        files: Sequence[Bytes | None],
        lengths: npt.NDArray[np.int64],
        allocate: Allocate,
        decoded: Mapping[int, Samples],
    ) -> Cut:
        clips, refused = self._measured(files, lengths, decoded)
        longest = int(lengths.max(initial=0))
        cut = Cut(allocate((len(files), longest), np.float32), lengths, refused)
        for index, (row, length) in enumerate(zip(cut.audio, lengths.tolist(), strict=True)):
            if not length:
                continue
            try:
                _write(row[:length], clips.pop(index, None), files[index], 0)
            except BadAudio as error:
                refused[index] = error.refusal
                continue
            if length < longest:
                pad_behind(row, length, self.pad)
        return cut

    def _flat(
        self,
        files: Sequence[Bytes | None],
        lengths: npt.NDArray[np.int64],
        words: Words,
        allocate: Allocate,
        decoded: Mapping[int, Samples],
    ) -> Cut:
        clips, refused = self._measured(files, lengths, decoded)
        starts = np.zeros_like(lengths)
        if self.num_samples is not None:
            starts = crop_starts(lengths, self.num_samples, words, self.crop)
            lengths = np.minimum(lengths, self.num_samples)
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        cut = Cut(allocate((total,), np.float32), lengths, refused)
        for index, (start, length, end) in enumerate(
            zip(starts.tolist(), lengths.tolist(), ends.tolist(), strict=True)
        ):
            if not length:
                continue
            try:
                out = cut.audio[end - length : end]
                _write(out, clips.pop(index, None), files[index], start)
            except BadAudio as error:
                refused[index] = error.refusal
        return cut

    def _measured(
        self,
        files: Sequence[Bytes | None],
        lengths: npt.NDArray[np.int64],
        decoded: Mapping[int, Samples],
    ) -> tuple[dict[int, Clip], dict[int, Refusal]]:
        """Open the clips that are not plain, fill in their lengths, and say which are no audio."""
        clips: dict[int, Clip] = {}
        refused: dict[int, Refusal] = {}
        for index in np.flatnonzero(lengths == 0).tolist():
            try:
                clips[index] = _open(self, files[index], decoded.get(index))
                lengths[index] = clips[index].num_samples
            except BadAudio as error:
                refused[index] = error.refusal
        return clips, refused


def _open(cutting: Cutting, file: Bytes | None, decoded: Samples | None) -> Clip:
    if decoded is not None:
        return DecodedClip(decoded, cutting.sample_rate_hz)
    return cutting.open(file)


def _write(out: Samples, clip: Clip | None, file: Bytes | None, start: int) -> None:
    """Fill `out` from a clip, or from a plain file where there is none."""
    if clip is not None:
        clip.write(out, start)
    elif file is not None:
        write_plain(out, file, start)
