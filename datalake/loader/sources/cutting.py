"""Encoded clips to one array of samples: decoded, cropped and padded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from datalake.audio import BadAudio, Clip, open_clip
from datalake.audio.clip import DecodedClip
from datalake.audio.pcm import PLAIN_SCALE, plain_lengths, plain_span
from datalake.blocks.gather import gatherer
from datalake.loader.order.hashing import Words
from datalake.loader.sources.clips import (
    Crop,
    Layout,
    Pad,
    Samples,
    crop_start,
    crop_starts,
    pad_all,
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
        cut = Cut(allocate((len(files), num_samples), np.float32), np.minimum(lengths, num_samples))
        starts = crop_starts(lengths, num_samples, words, self.crop).tolist()
        lying = _Lying()
        for index, (row, length) in enumerate(zip(cut.audio, cut.lengths.tolist(), strict=True)):
            if length:
                lying.add_plain(row[:length], files[index], starts[index])
                continue
            try:
                clip = _open(self, files[index], decoded.get(index))
                length = min(clip.num_samples, num_samples)
                start = crop_start(clip.num_samples, num_samples, int(words[index]), self.crop)
                if index in decoded and isinstance(clip, DecodedClip):
                    lying.add_decoded(row[:length], clip, start)
                else:
                    clip.write(row[:length], start)
            except BadAudio as error:
                cut.refused[index] = error.refusal
                continue
            cut.lengths[index] = length
        lying.write()
        pad_all(zip(cut.audio, cut.lengths.tolist(), strict=True), self.pad)
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
        rows = list(zip(cut.audio, lengths.tolist(), strict=True))
        lying = _Lying()
        for index, (row, length) in enumerate(rows):
            _write(lying, row[:length], clips.pop(index, None), files[index], 0, index, refused)
        lying.write()
        pad_all(rows, self.pad)
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
        lying = _Lying()
        for index, (start, length, end) in enumerate(
            zip(starts.tolist(), lengths.tolist(), ends.tolist(), strict=True)
        ):
            out = cut.audio[end - length : end]
            _write(lying, out, clips.pop(index, None), files[index], start, index, refused)
        lying.write()
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


class _Lying:
    """Clips of a batch that need no decoder, to be written in one go."""

    def __init__(self) -> None:
        self._plain: list[tuple[Samples, npt.NDArray[np.int16]]] = []
        self._decoded: list[tuple[Samples, Samples]] = []

    def add_plain(self, out: Samples, file: Bytes | None, start: int) -> None:
        if file is not None:
            self._plain.append((out, plain_span(file, start, len(out))))

    def add_decoded(self, out: Samples, clip: DecodedClip, start: int) -> None:
        self._decoded.append((out, clip.span(start, len(out))))

    def write(self) -> None:
        own = gatherer()
        own.copy([out for out, _ in self._plain], [span for _, span in self._plain], PLAIN_SCALE)
        own.copy([out for out, _ in self._decoded], [span for _, span in self._decoded])


def _write(
    lying: _Lying,
    out: Samples,
    clip: Clip | None,
    file: Bytes | None,
    start: int,
    index: int,
    refused: dict[int, Refusal],
) -> None:
    """Fill `out` from a clip, or later from a plain file where there is none."""
    if not len(out):
        return
    if clip is None:
        lying.add_plain(out, file, start)
        return
    if isinstance(clip, DecodedClip):
        lying.add_decoded(out, clip, start)
        return
    try:
        clip.write(out, start)
    except BadAudio as error:
        refused[index] = error.refusal
