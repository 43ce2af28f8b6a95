"""Metrics by any columns of the trials: attack, codec, source, or all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.metrics.bootstrap import check_bootstrap, intervals_of
from curation.metrics.ladder import IntArray
from curation.metrics.measures import Metric, check_metrics, value_of
from curation.metrics.resampling import Speakers
from curation.metrics.tandem_cost import ASVSPOOF5_ASV, AsvRates, TandemForm
from curation.metrics.trials import FloatArray, Trials
from datalake.errors import InputError, nearest
from datalake.schema import BONAFIDE, SPOOF

__all__ = ["GROUP", "MACRO", "POOLED", "breakdown"]

GROUP: Final = "group"
POOLED: Final = "pooled"
MACRO: Final = "macro"
_COLUMNS: Final = ("scope", "by", "num_bonafide", "num_spoof")


def breakdown(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    groups: Mapping[str, npt.ArrayLike | pa.Array | pa.ChunkedArray],
    *,
    metrics: Sequence[Metric] = ("eer", "min_dcf"),
    speakers: npt.ArrayLike | pa.Array | pa.ChunkedArray | None = None,
    matched: Sequence[str] | None = None,
    num_resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    asv: AsvRates = ASVSPOOF5_ASV,
    t_dcf_form: TandemForm = "2021",
) -> pa.Table:
    """Break metrics of a test down by columns, with all margins.

    For columns attack and codec there is a row for each attack under each codec, for each attack
    over all codecs, for each codec over all attacks, and one for everything. Spoofs of a group are
    held against the bona fide trials that agree with it in the `matched` columns and against all
    of them in the others, as the ASVspoof challenges do: the codec is matched, the attack cannot
    be.

    Every row is a test of its own: its intervals come from resamples of its own trials with the
    same seed. A row whose group lacks a class, or whose scores are all one value, has counts and
    no metric. The mean over groups (`macro`) has no interval.

    Args:
        scores: shape (num_trials,), higher for bona fide.
        labels: shape (num_trials,), `bonafide` or `spoof`.
        groups: columns by name, shape (num_trials,) each.
        metrics: which metrics; see `bootstrap_interval`.
        speakers: the speaker of each trial, shape (num_trials,): the bootstrap then draws speakers
            with all their trials instead of utterances.
        matched: columns in which bona fide trials must agree with the spoofs; by default those in
            which no bona fide trial is null.
        num_resamples: bootstrap replicates an interval; 0 for no intervals.
        seed: seed of the bootstrap.
        level: level of the intervals.
        asv: the verifier's error rates of the t-DCF.
        t_dcf_form: the form of the t-DCF.

    Returns:
        A table with `scope` (`group`, `pooled` for everything, `macro` for the mean over the groups
        of the same `by`), `by` (the columns that tell the groups of the row, with commas), the
        columns of `groups` (null where the row goes over all values), `num_bonafide`, `num_spoof`,
        and for each metric its value and the bounds, as `eer`, `eer_low` and `eer_high`. Groups of
        all columns come first, then margins, each by value; `pooled` is last but for `macro`.

    Raises:
        InputError: see `Trials.of`, of all trials together; or lengths differ; or a label is
            neither of the two; or a spoof has no value in a column, or a bona fide trial none in a
            matched one, or a trial no speaker; or options cannot be used.
    """
    chosen: tuple[Metric, ...] = tuple(metrics)
    check_metrics(chosen)
    check_bootstrap(num_resamples, level)
    for name in groups:
        if name in _COLUMNS or name in chosen:
            raise InputError(
                f"A group column cannot be called {name}",
                expected="a name that the table does not use itself",
                fix="Rename the column",
            )
    test = _Test.of(scores, labels, groups, speakers, matched)
    rows: list[dict[str, object]] = []
    averages: list[dict[str, object]] = []
    for size in range(len(groups), -1, -1):
        for by in combinations(groups, size):
            found = []
            for part in test.parts(by):
                row: dict[str, object] = {
                    "scope": GROUP if by else POOLED,
                    "by": ",".join(by),
                    **part.values,
                    "num_bonafide": part.bonafide.size,
                    "num_spoof": part.spoof.size,
                }
                if part.detects:
                    trials = Trials(part.bonafide, part.spoof)
                    if num_resamples:
                        intervals = intervals_of(
                            trials,
                            chosen,
                            num_resamples=num_resamples,
                            seed=seed,
                            level=level,
                            speakers=part.speakers,
                            asv=asv,
                            form=t_dcf_form,
                        )
                        for metric, interval in intervals.items():
                            row[metric] = interval.value
                            row[f"{metric}_low"] = interval.low
                            row[f"{metric}_high"] = interval.high
                    else:
                        for metric in chosen:
                            row[metric] = value_of(trials, metric, asv, t_dcf_form)
                found.append(row)
            rows += found
            scored = [row for row in found if chosen[0] in row]
            if by and scored:
                average: dict[str, object] = {
                    "scope": MACRO,
                    "by": ",".join(by),
                    "num_bonafide": test.bonafide.size,
                    "num_spoof": test.spoof.size,
                }
                for metric in chosen:
                    average[metric] = float(np.mean([row[metric] for row in scored]))
                averages.append(average)
    return pa.Table.from_pylist([*rows, *averages], schema=_schema(list(groups), chosen))


def _schema(groups: list[str], metrics: tuple[Metric, ...]) -> pa.Schema:
    fields = [pa.field("scope", pa.string(), False), pa.field("by", pa.string(), False)]
    fields += [pa.field(name, pa.string()) for name in groups]
    fields += [pa.field(name, pa.int64(), False) for name in ("num_bonafide", "num_spoof")]
    for metric in metrics:
        fields += [pa.field(metric + end, pa.float64()) for end in ("", "_low", "_high")]
    return pa.schema(fields)


@dataclass(frozen=True)
class _Part:
    """The trials of one row, ascending."""

    values: dict[str, str]
    bonafide: FloatArray
    spoof: FloatArray
    speakers: Speakers | None

    @property
    def detects(self) -> bool:
        if not (self.bonafide.size and self.spoof.size):
            return False
        first = self.bonafide[0]
        return not first == self.bonafide[-1] == self.spoof[0] == self.spoof[-1]


@dataclass(frozen=True)
class _Column:
    """A group column as codes of its sorted values, a class at a time; -1 stands for null."""

    names: list[str]
    bonafide: IntArray
    spoof: IntArray
    is_matched: bool


@dataclass(frozen=True)
class _Test:
    """All trials, ascending, with the codes of their groups and speakers: sorted once."""

    bonafide: FloatArray
    spoof: FloatArray
    columns: Mapping[str, _Column]
    bonafide_speaker: IntArray | None
    spoof_speaker: IntArray | None

    @classmethod
    def of(
        cls,
        scores: npt.ArrayLike,
        labels: npt.ArrayLike,
        groups: Mapping[str, npt.ArrayLike | pa.Array | pa.ChunkedArray],
        speakers: npt.ArrayLike | pa.Array | pa.ChunkedArray | None,
        matched: Sequence[str] | None,
    ) -> _Test:
        score, label = np.asarray(scores), np.asarray(labels)
        if score.shape != label.shape:
            raise InputError(
                "Scores and labels do not belong together",
                expected="arrays of one length",
                found=f"shapes {score.shape} and {label.shape}",
            )
        bonafide, spoof = np.flatnonzero(label == BONAFIDE), np.flatnonzero(label == SPOOF)
        if bonafide.size + spoof.size != label.size:
            strange = (label != BONAFIDE) & (label != SPOOF)
            raise InputError(
                f"{int(strange.sum())} trials have no label that can be scored",
                expected=f"{BONAFIDE} or {SPOOF}",
                found=f"{label[strange.argmax()]} at position {int(strange.argmax())}",
            )
        Trials.of(score[bonafide], score[spoof])  # refuses what means nothing
        for name in matched or ():
            if name not in groups:
                raise InputError(
                    f"The matched column {name} is no group column",
                    expected=", ".join(groups),
                    fix=nearest(name, groups),
                )
        score = score.astype(np.float64)
        bonafide = bonafide[np.argsort(score[bonafide], kind="stable")]
        spoof = spoof[np.argsort(score[spoof], kind="stable")]
        columns = {}
        for name, values in groups.items():
            names, codes = _coded(name, values, score.size)
            _check_known(name, codes, spoof, "spoof")
            is_matched = bool((codes[bonafide] >= 0).all()) if matched is None else name in matched
            if is_matched:
                _check_known(name, codes, bonafide, "bona fide")
            columns[name] = _Column(names, codes[bonafide], codes[spoof], is_matched)
        if speakers is None:
            return cls(score[bonafide], score[spoof], columns, None, None)
        _, speaker = _coded("speaker", speakers, score.size)
        _check_known("speaker", speaker, np.concatenate([bonafide, spoof]), "")
        return cls(score[bonafide], score[spoof], columns, speaker[bonafide], speaker[spoof])

    def parts(self, by: tuple[str, ...]) -> Iterator[_Part]:
        """The groups of some columns that have trials, by value."""
        columns = [self.columns[name] for name in by]
        shared = [column.is_matched for column in columns]
        sizes = [len(column.names) for column in columns]
        # A group without spoofs or without bona fide trials is shown where a matched column has it.
        spoof_keys = _joined([column.spoof for column in columns], sizes, self.spoof.size)
        bonafide_keys = _joined(
            [column.bonafide for column in columns if column.is_matched],
            [len(column.names) for column in columns if column.is_matched],
            self.bonafide.size,
        )
        keys = np.unique(spoof_keys)
        if all(shared):
            keys = np.union1d(keys, np.unique(bonafide_keys))
        spoof_order = np.argsort(spoof_keys, kind="stable")
        bonafide_order = np.argsort(bonafide_keys, kind="stable")
        spoof_sorted, bonafide_sorted = spoof_keys[spoof_order], bonafide_keys[bonafide_order]
        for key in keys:
            codes = np.unravel_index(key, sizes) if by else ()
            match = _joined(
                [
                    np.array([code])
                    for code, is_shared in zip(codes, shared, strict=True)
                    if is_shared
                ],
                [size for size, is_shared in zip(sizes, shared, strict=True) if is_shared],
                1,
            )[0]
            # Stable orders: the trials of a group are still in the order of their scores.
            yield self._part(
                {
                    name: column.names[code]
                    for name, column, code in zip(by, columns, codes, strict=True)
                },
                bonafide_order[slice(*np.searchsorted(bonafide_sorted, [match, match + 1]))],
                spoof_order[slice(*np.searchsorted(spoof_sorted, [key, key + 1]))],
            )

    def _part(self, values: dict[str, str], bonafide: IntArray, spoof: IntArray) -> _Part:
        speakers = None
        if self.bonafide_speaker is not None and self.spoof_speaker is not None:
            both = np.concatenate([self.bonafide_speaker[bonafide], self.spoof_speaker[spoof]])
            present, numbers = np.unique(both, return_inverse=True)
            speakers = Speakers(numbers[: bonafide.size], numbers[bonafide.size :], present.size)
        return _Part(values, self.bonafide[bonafide], self.spoof[spoof], speakers)


def _joined(codes: list[IntArray], sizes: list[int], length: int) -> IntArray:
    """One key a trial from its codes; the first column varies slowest."""
    keys = np.zeros(length, dtype=np.int64)
    for code, size in zip(codes, sizes, strict=True):
        keys = keys * size + code
    return keys


def _coded(
    name: str, values: npt.ArrayLike | pa.Array | pa.ChunkedArray, length: int
) -> tuple[list[str], IntArray]:
    """The sorted values of a column as text, and the code of each trial (-1 for null)."""
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    if len(array) != length:
        raise InputError(
            f"The column {name} does not belong to the scores",
            expected=f"{length} values",
            found=str(len(array)),
        )
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    names = sorted(
        value for value in pc.unique(array.cast(pa.string())).to_pylist() if value is not None
    )
    found = pc.index_in(array.cast(pa.string()), pa.array(names, pa.string()))
    return names, np.asarray(pc.fill_null(found, -1)).astype(np.int64)


def _check_known(name: str, codes: IntArray, rows: IntArray, kind: str) -> None:
    missing = rows[codes[rows] < 0]
    if missing.size:
        raise InputError(
            f"{missing.size} {kind} trials have no {name}".replace("  ", " "),
            expected=f"a {name} for each of them",
            found=f"null at position {int(missing.min())}",
        )
