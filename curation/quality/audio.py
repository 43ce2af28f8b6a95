"""The audio measures as an annotator: one decoding a row, one pass over its samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.quality.audio_activity import activity_of, block_sums
from curation.quality.audio_levels import clipping_share, levels_of
from curation.quality.audio_spectrum import spectrum_of
from datalake.audio import BadAudio, decode
from datalake.errors import InputError, nearest
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["AUDIO", "MEASURES", "AudioMeasures", "measure"]

_LEVELS: Final = ("peak_dbfs", "rms_dbfs", "dc_offset")
_ACTIVITY: Final = ("leading_silence_s", "trailing_silence_s", "speech_share", "snr_db")
_SPECTRUM: Final = ("bandwidth_hz", "hole_share")

MEASURES: Final = (*_LEVELS, "clipping_share", *_ACTIVITY, *_SPECTRUM, "duration_s")
"""What can be measured. `duration_s` is there for audio that no ingest has counted."""

_VERSION: Final = 1
"""Raised when a measure's value changes, so that a run under way is not gone on with."""


@dataclass(frozen=True)
class AudioMeasures:
    """Measures of the encoded audio in one column; an `Annotator`.

    Args:
        columns: which of `MEASURES`; what none of them needs is not computed. Levels and activity
            take a tenth of the time that the spectrum takes.
        audio: the column of encoded audio.

    Raises:
        InputError: a measure is not known.
    """

    columns: tuple[str, ...] = MEASURES[:-1]
    audio: str = "audio"

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in MEASURES:
                raise InputError(
                    f"There is no audio measure {name}",
                    expected=", ".join(MEASURES),
                    fix=nearest(name, MEASURES),
                )

    @property
    def reads(self) -> tuple[str, ...]:
        """The audio."""
        return (self.audio,)

    @property
    def adds(self) -> pa.Schema:
        """A float32 a measure."""
        return pa.schema([pa.field(name, pa.float32()) for name in self.columns])

    @property
    def settings(self) -> Mapping[str, object]:
        """The version of the measures."""
        return {"audio_measures": _VERSION, "audio": self.audio}

    def open(self) -> Annotate:
        """Nothing is loaded; decoders come with the first row that needs them."""
        return self._annotate

    def _annotate(self, rows: pa.Table) -> pa.Table:
        values: dict[str, list[float | None]] = {name: [] for name in self.columns}
        errors: list[str | None] = []
        for data in rows[self.audio]:
            found: Mapping[str, float | None] = {}
            try:
                if data.is_valid:
                    found = measure(*decode(memoryview(data.as_buffer()), mono=False), self.columns)
                errors.append(None if data.is_valid else "there is no audio")
            except BadAudio as error:
                errors.append(f"{error.refusal.reason}: {error.refusal.detail}")
            for name in self.columns:
                values[name].append(found.get(name))
        columns = {name: pa.array(column, pa.float32()) for name, column in values.items()}
        return pa.table({**columns, "error": pa.array(errors, pa.string())})


def measure(
    channels: npt.NDArray[np.float32], rate_hz: int, columns: tuple[str, ...] = MEASURES
) -> dict[str, float | None]:
    """Measure decoded audio.

    Peak and clipping are those of the channels; everything else is of their mean. A clip of digital
    silence has levels of -120 dBFS, no SNR and no bandwidth (None).

    Args:
        channels: (num_channels, num_samples), full scale at 1.
        rate_hz: samples a second.
        columns: which measures; others are not computed.
    """
    wanted = set(columns)
    mono = channels[0] if len(channels) == 1 else channels.mean(axis=0, dtype=np.float32)
    found: dict[str, float | None] = {"duration_s": mono.size / rate_hz}
    if wanted & {*_LEVELS, *_ACTIVITY}:
        sums, squares, block_size = block_sums(mono, rate_hz)
        if wanted & {*_LEVELS}:
            peak = max(float(channels.max()), -float(channels.min()))
            levels = levels_of(peak, squares.sum() / mono.size, sums.sum() / mono.size)
            found |= {name: getattr(levels, name) for name in _LEVELS}
        if wanted & {*_ACTIVITY}:
            activity = activity_of(sums, squares, block_size, mono.size, rate_hz)
            found |= {name: getattr(activity, name) for name in _ACTIVITY}
    if "clipping_share" in wanted:
        found["clipping_share"] = float(np.mean([clipping_share(channel) for channel in channels]))
    if wanted & {*_SPECTRUM} and (spectrum := spectrum_of(mono, rate_hz)) is not None:
        found |= {name: getattr(spectrum, name) for name in _SPECTRUM}
    return {name: found.get(name) for name in columns}


AUDIO: Final = AudioMeasures()
