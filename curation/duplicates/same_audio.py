"""The same audio at another level, with other silence around it, or in another container."""

from __future__ import annotations

import tempfile
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from curation.duplicates.drops import Duplicates, outcome
from curation.duplicates.measured import measured
from curation.duplicates.sketch import (
    NUM_LEVELS,
    RATE_HZ,
    AudioSketch,
    Samples,
    buckets_of,
    decibels,
    trimmed,
)
from curation.duplicates.visits import require_columns, visits_of
from datalake.errors import InputError
from datalake.pipelines.annotation.stage import reason_of
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.pipelines.run import ProgressSink
from datalake.tables import Table

__all__ = ["correlation", "same_audio"]

_MOST_DB_APART: Final = 1.0
"""The mean difference of the 64 levels up to which clips are compared sample by sample."""
_MOST_LAG_S: Final = 0.05
_FINE_FROM: Final = 0.5
_FINE_STEPS: Final = 8
_CLIPS_HELD: Final = 64


def same_audio(
    table: Table,
    threshold: float = 0.999,
    *,
    audio: str = "audio",
    best_by: str | None = None,
    seed: int = 0,
    where: str | None = None,
    executor: Executor | None = None,
    scratch: Path | None = None,
    progress: ProgressSink | None = None,
) -> Duplicates:
    """The rows whose audio, trimmed and brought to one level, is that of a kept row.

    Each file is decoded once for its sketch, on the executor. Then rows are visited in order: a row
    is compared with the kept rows of its buckets, and goes if it correlates with one; so no two
    kept rows that met are duplicates, and each dropped one has a kept one. Files that cannot be
    judged (undecodable, silent, under .1 s) are kept, and counted. Memory: some 1 kB a row.

    Args:
        table: the version to search.
        threshold: least correlation at 16 kHz, at the best of all lags up to 50 ms.
        audio: the column of encoded audio.
        best_by: a numeric column: of duplicates the row of its largest value is kept; else the
            first by the hash of seed and id.
        seed: of the hash.
        where: consider only rows for which this holds.
        executor: where files are decoded; None: this process.
        scratch: a folder for files, which go when it is done; all workers must reach it.
        progress: is told how far it is.

    Returns:
        Drops with the correlation and the reason `same_audio`.

    Raises:
        InputError: the threshold cannot be.
        SchemaError: the table has no such audio.
        PredicateError: `where` cannot be evaluated.
    """
    if not 0.9 <= threshold <= 1:
        raise InputError(
            "The threshold cannot be", expected="a correlation of .9 to 1", found=str(threshold)
        )
    require_columns(table, [audio])
    visits = visits_of(table, seed=seed, best_by=best_by, where=where)
    rows = np.sort(visits.row_index)
    powers = np.full((len(rows), NUM_LEVELS), np.nan, np.float32)
    durations_s = np.full(len(rows), np.nan)
    left_out: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="curate-audio-", dir=scratch) as folder,
        executor or LocalExecutor() as running,
    ):
        start = 0
        parts = measured(table, AudioSketch(audio), rows, Path(folder), running, progress=progress)
        for part in parts:
            left_out.update(map(reason_of, part["error"].drop_null().to_pylist()))
            stop = start + part.num_rows
            good = part["levels"].is_valid().to_numpy()
            flat = part["levels"].combine_chunks().flatten().to_numpy()
            powers[start:stop][good] = flat.reshape(-1, NUM_LEVELS)
            durations_s[start:stop] = part["trimmed_s"].to_numpy()
            start = stop
    places = np.searchsorted(rows, visits.row_index[np.argsort(visits.ranks)])
    search = _Search(table, audio, rows, powers, durations_s, threshold)
    for place in places[np.isfinite(durations_s[places])].tolist():
        search.visit(place)
    facts = {
        "by": "audio",
        "threshold": threshold,
        "best_by": best_by,
        "seed": seed,
        "where": where,
        "num_compared": search.num_compared,
    }
    return outcome(
        table,
        rows[np.array(search.dropped, np.int64)],
        rows[np.array(search.kept_by, np.int64)],
        np.array(search.similarity, np.float64),
        reason="same_audio", parameters=facts, where=where, left_out=left_out,
    )  # fmt: skip


class _Search:
    """Rows visited so far, by their place among the rows considered."""

    def __init__(
        self,
        table: Table,
        audio: str,
        rows: npt.NDArray[np.int64],
        powers: npt.NDArray[np.float32],
        durations_s: npt.NDArray[np.float64],
        threshold: float,
    ) -> None:
        self._table = table
        self._audio = audio
        self._rows = rows
        self._powers = powers
        self._durations_s = durations_s
        self._threshold = threshold
        self._kept: dict[tuple[int, ...], list[int]] = {}
        """By bucket, in the order of visits."""
        self._visits: dict[int, int] = {}
        self._clips: OrderedDict[int, Samples] = OrderedDict()
        self.dropped: list[int] = []
        self.kept_by: list[int] = []
        self.similarity: list[float] = []
        self.num_compared = 0

    def visit(self, place: int) -> None:
        """Drop a row if a kept one is its duplicate; keep it else."""
        buckets = buckets_of(self._powers[place], float(self._durations_s[place]))
        near = {other for bucket in buckets for other in self._kept.get(bucket, ())}
        for other in self._alike(place, sorted(near, key=self._visits.__getitem__)):
            self.num_compared += 1
            value = correlation(self._clip(place), self._clip(other))
            if value >= self._threshold:
                self.dropped.append(place)
                self.kept_by.append(other)
                self.similarity.append(value)
                return
        self._visits[place] = len(self._visits)
        for bucket in buckets:
            self._kept.setdefault(bucket, []).append(place)

    def _alike(self, place: int, others: list[int]) -> list[int]:
        """Those whose levels take about the same course."""
        if not others:
            return []
        apart = np.abs(decibels(self._powers[others]) - decibels(self._powers[place]))
        near = apart.mean(axis=1) <= _MOST_DB_APART
        return [other for other, is_near in zip(others, near, strict=True) if is_near]

    def _clip(self, place: int) -> Samples:
        if place in self._clips:
            self._clips.move_to_end(place)
            return self._clips[place]
        data = self._table.take([int(self._rows[place])], [self._audio])[self._audio][0]
        clip = trimmed(memoryview(data.as_buffer()))
        if isinstance(clip, str):
            raise InputError("A clip has changed while it was compared", found=clip)
        self._clips[place] = clip
        if len(self._clips) > _CLIPS_HELD:
            self._clips.popitem(last=False)
        return clip


def correlation(left: Samples, right: Samples) -> float:
    """The correlation of two clips at 16 kHz where they overlap, at the best lag up to 50 ms.

    Lags are tried in whole samples, and in eighths around the best: a resampler may shift a clip by
    less than a sample.

    Args:
        left: (num_samples,).
        right: (num_samples,), of about the same length.

    Returns:
        0 where lengths differ by more than 100 ms.
    """
    most_lag = round(_MOST_LAG_S * RATE_HZ)
    if abs(len(left) - len(right)) > 2 * most_lag:
        return 0.0
    size = 1 << (max(len(left), len(right)) + 2 * most_lag).bit_length()
    spectrum = np.fft.rfft(left, size).conj() * np.fft.rfft(right, size)
    lags = np.fft.irfft(spectrum, size)
    near = np.concatenate([lags[-most_lag:], lags[: most_lag + 1]])
    lag = int(near.argmax()) - most_lag
    one, other = left[max(-lag, 0) :], right[max(lag, 0) :]
    common = min(len(one), len(other))
    energies = [np.square(each[:common], dtype=np.float64).sum() for each in (one, other)]
    norm = float(np.sqrt(energies[0] * energies[1]))
    if norm == 0:
        return 0.0
    value = float(near[lag + most_lag]) / norm
    if value < _FINE_FROM:
        return value
    turns = 2j * np.pi * np.arange(len(spectrum)) / size
    weights = np.full(len(spectrum), 2.0)
    weights[[0, -1]] = 1
    fine = lag + np.arange(1 - _FINE_STEPS, _FINE_STEPS) / _FINE_STEPS
    values = [(weights * (spectrum * np.exp(turns * each)).real).sum() for each in fine]
    return min(max(value, float(max(values)) / size / norm), 1.0)
