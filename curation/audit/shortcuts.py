"""The shortcut audit: what gives bona fide and spoof away before anybody listens.

A detector takes the easiest way there is. Where silence at the beginning, the level or the sample
rate of a file tells the classes apart, that is what it learns, and what it fails without: on
ASVspoof 2019 the length of silence alone reaches 15.1 % EER (arXiv 2106.12914). This audit takes
each such feature alone and says how far it gets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.audit.one_feature import FeatureTrial, cells_of, folds_of
from datalake.errors import InputError, SchemaError, nearest
from datalake.lake import Selection
from datalake.schema import BONAFIDE, SPOOF
from datalake.tables import Table

__all__ = [
    "FEATURES",
    "DomainAtFault",
    "FeatureResult",
    "ShortcutAudit",
    "audit_shortcuts",
]

FEATURES: Final = (
    "leading_silence_s",
    "trailing_silence_s",
    "duration_s",
    "peak_dbfs",
    "rms_dbfs",
    "dc_offset",
    "clipping_share",
    "speech_share",
    "snr_db",
    "bandwidth_hz",
    "hole_share",
    "sample_rate_hz",
    "num_channels",
    "codec",
)
"""The features audited by default, as far as the table has them."""

_KEYS: Final = ("utt_id", "label", "domain", "source")
_POOLED: Final = "pooled"
_HASH_SPACE: Final = 2**64
_MAX_DOMAINS_NAMED: Final = 3
_NO_PLACES: Final = np.empty(0, np.uint64)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DomainAtFault:
    """A domain whose rows a feature gives away."""

    domain: str
    eer: float
    """Of the feature on this domain against all of the other class."""
    eer_without: float | None
    """Of the feature once the domain is gone; None for the only domain of its class."""


@dataclass(frozen=True)
class FeatureResult:
    """One feature in one scope."""

    scope: str
    """`pooled`, or the name of a source."""
    feature: str
    num_bonafide: int
    num_spoof: int
    eer: float | None
    """None where a class has too few rows to judge by."""
    eer_low: float | None
    eer_high: float | None
    bonafide_typical: str
    """The median of a number (weighted), the most frequent value of text."""
    spoof_typical: str
    warns: bool
    """Whether the EER is under the threshold."""
    domains: tuple[DomainAtFault, ...]
    """For a warning: the domains whose removal raises the EER most, the worst first."""


@dataclass(frozen=True)
class ShortcutAudit:
    """What an audit found, for a table or for a selection of it."""

    num_rows: int
    """Rows that have a label and a domain."""
    num_audited: int
    """Rows looked at: all of them, or a sample."""
    num_left_out: int
    """Rows without a label or a domain; rows of the selection that the table has no more."""
    results: tuple[FeatureResult, ...]
    """By scope, `pooled` first; within a scope the lowest EER first."""

    @property
    def warnings(self) -> list[FeatureResult]:
        """The results under the threshold."""
        return [result for result in self.results if result.warns]


def audit_shortcuts(
    table: Table,
    *,
    features: Sequence[str] | None = None,
    selection: Selection | None = None,
    where: str | None = None,
    threshold: float = 0.3,
    least_rows: int = 10,
    max_rows: int = 500_000,
    num_resamples: int = 500,
    seed: int = 0,
) -> ShortcutAudit:
    """Audit each feature alone: its EER pooled and within each source that has both classes.

    How a feature is scored is said in `FeatureTrial`. Chance is one half. Under the threshold (.3)
    one number that has nothing to do with how speech is made decides more than two rows of three
    rightly in both classes; a detector trained there learns it first, and its results on a test
    with the same fault are too good. Pooled, a feature also counts that only tells sources apart
    whose mixture of classes differs: what a detector could learn all the same.

    Domains at fault are those of whose removal the EER grows most.

    Args:
        table: the version to read; it needs utt_id, label, domain and source.
        features: columns of numbers, text or truth values; None for `FEATURES`, as far as the
            table has them.
        selection: audit its rows alone, with its weights. Rows are found by utt_id, so columns may
            have been added since it was made.
        where: audit only rows for which this holds.
        threshold: EER under which a feature is warned of.
        least_rows: rows that each class of a scope needs.
        max_rows: of a larger table a sample of about so many rows is audited, those that come first
            in the order of a hash of utt_id. Memory grows with it, some 150 bytes a row.
        num_resamples: bootstrap replicates an interval.
        seed: seed of sample, folds and bootstrap.

    Raises:
        SchemaError: a column is missing.
        InputError: an option is out of range, or one of the classes has no row.
        PredicateError: `where` cannot be evaluated.
    """
    if not 0 < threshold <= 0.5:
        raise InputError(
            "The threshold of an audit is an EER", expected="above 0, at most 0.5",
            found=str(threshold),
        )  # fmt: skip
    names = _features(table, features)
    rows = _read(table, names, selection, where, max_rows, seed)
    is_bonafide = np.asarray(pc.equal(rows.keys["label"], BONAFIDE))
    if is_bonafide.all() or not is_bonafide.any():
        raise InputError(
            "A shortcut audit needs both classes", where=table.uri,
            expected=f"rows labelled {BONAFIDE} and rows labelled {SPOOF}",
            found=f"{int(is_bonafide.sum())} and {int((~is_bonafide).sum())}",
        )  # fmt: skip
    sources = rows.keys["source"].combine_chunks().dictionary_encode()
    index_of_source = sources.indices.to_numpy(zero_copy_only=False)
    scopes = [(_POOLED, np.ones(len(is_bonafide), np.bool_))]
    scopes += sorted(
        (name, index_of_source == index)
        for index, name in enumerate(sources.dictionary.to_pylist())
        if len({*is_bonafide[index_of_source == index]}) == 2
    )
    options = _Options(threshold, least_rows, num_resamples, seed)
    results = []
    for scope, mask in scopes:
        found = [_result(scope, name, rows, mask, is_bonafide, options) for name in names]
        results += sorted(found, key=lambda result: 1.0 if result.eer is None else result.eer)
    return ShortcutAudit(rows.num_rows, rows.keys.num_rows, rows.num_left_out, tuple(results))


@dataclass(frozen=True)
class _Options:
    threshold: float
    least_rows: int
    num_resamples: int
    seed: int


@dataclass(frozen=True, eq=False)
class _Rows:
    keys: pa.Table
    """In the order of their hashes."""
    weights: npt.NDArray[np.float64]
    num_rows: int
    num_left_out: int


def _features(table: Table, features: Sequence[str] | None) -> list[str]:
    known = table.schema.names
    if missing := [name for name in (*_KEYS, *(features or ())) if name not in known]:
        raise SchemaError(
            "The table cannot be audited for shortcuts",
            where=table.uri,
            expected=", ".join((*_KEYS, *(features or ()))),
            found=f"no column {', '.join(missing)}",
            fix=nearest(missing[0], known),
        )
    names = list(features) if features else [name for name in FEATURES if name in known]
    if not names:
        raise SchemaError(
            "The table has no feature to audit",
            where=table.uri,
            expected=f"a column such as {', '.join(FEATURES)}",
            fix="Add the audio measures to the table first (curate measure)",
        )
    return names


def _read(
    table: Table,
    features: Sequence[str],
    selection: Selection | None,
    where: str | None,
    max_rows: int,
    seed: int,
) -> _Rows:
    """Keys, features and weights of the rows to audit, in the order of their hashes."""
    usable = f"label IN ('{BONAFIDE}', '{SPOOF}') AND domain IS NOT NULL AND source IS NOT NULL"
    predicate = f"({where}) AND {usable}" if where else usable
    num_all, num_usable = table.count_rows(where), table.count_rows(predicate)
    expected = len(selection) if selection is not None else num_usable
    below = min(max_rows / max(expected, 1), 1.0) * _HASH_SPACE
    chosen = selection.rows["utt_id"].combine_chunks() if selection is not None else None
    batches, weights, places, num_found = [], [], [], 0
    columns = [*_KEYS, *(name for name in features if name not in _KEYS)]
    for batch in table.scan(columns, where=predicate):
        found = batch
        weight = np.ones(batch.num_rows)
        if selection is not None:
            at = pc.index_in(batch["utt_id"], value_set=chosen)
            found = batch.filter(at.is_valid())
            weight = selection.rows["weight"].to_numpy()[at.drop_null().to_numpy()]
        num_found += found.num_rows
        place = _places(found["utt_id"].to_pylist(), seed)
        kept = (place < below) & (weight > 0)
        batches.append(found.filter(pa.array(kept)))
        weights.append(weight[kept])
        places.append(place[kept])
    keys = pa.Table.from_batches(
        batches, schema=pa.schema([table.schema.field(name) for name in columns])
    )
    place, weight = np.concatenate([*places, _NO_PLACES]), np.concatenate([*weights, []])
    # The order of the hashes: random for the folds, and the same whatever the table's is.
    order = np.lexsort([keys["utt_id"].to_numpy(), place])
    left_out = (num_all - num_usable) if selection is None else len(selection) - num_found
    return _Rows(
        keys.take(pa.array(order)),
        weight[order],
        num_usable if selection is None else num_found,
        left_out,
    )


def _places(ids: Sequence[str], seed: int) -> npt.NDArray[np.uint64]:
    """Uniform 64-bit hashes of seed and id."""
    prefix = hashlib.md5(f"{seed}/".encode(), usedforsecurity=False)
    digests = bytearray()
    for utt_id in ids:
        digest = prefix.copy()
        digest.update(utt_id.encode())
        digests += digest.digest()[:8]
    return np.frombuffer(bytes(digests), "<u8")


def _result(
    scope: str, feature: str, rows: _Rows, mask: Mask, is_bonafide: Mask, options: _Options
) -> FeatureResult:
    bonafide = is_bonafide[mask]
    column = rows.keys[feature].filter(pa.array(mask)).combine_chunks()
    weights = rows.weights[mask]
    num_bonafide, num_spoof = int(bonafide.sum()), int((~bonafide).sum())
    values = _values(column)
    real, fake = (_typical(values[side], weights[side]) for side in (bonafide, ~bonafide))
    if min(num_bonafide, num_spoof) < options.least_rows:
        return FeatureResult(
            scope, feature, num_bonafide, num_spoof, None, None, None, real, fake, False, ()
        )
    domains = rows.keys["domain"].filter(pa.array(mask)).combine_chunks()
    # A domain belongs to one class; a table that mixes them has one of each.
    labelled = pc.binary_join_element_wise(
        rows.keys["label"].filter(pa.array(mask)).combine_chunks(), domains, "\0"
    ).dictionary_encode()
    names = [str(name).partition("\0") for name in labelled.dictionary.to_pylist()]
    trial = FeatureTrial.of(
        cells_of(values, bonafide),
        folds_of(bonafide),
        labelled.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        np.array([label == BONAFIDE for label, _, _ in names]),
        weights,
    )
    low, high = trial.interval(num_resamples=options.num_resamples, seed=options.seed)
    warns = trial.eer < options.threshold
    return FeatureResult(
        scope,
        feature,
        num_bonafide,
        num_spoof,
        trial.eer,
        low,
        high,
        real,
        fake,
        warns,
        _at_fault(trial, [name for _, _, name in names]) if warns else (),
    )


def _at_fault(trial: FeatureTrial, names: Sequence[str]) -> tuple[DomainAtFault, ...]:
    eers, without = trial.domain_eers(), trial.eers_without()
    # What cannot be removed, since its class would be gone, is at fault as far as it is given away.
    rise = np.where(np.isnan(without), trial.eer - eers, without - trial.eer)
    order = sorted(range(len(names)), key=lambda index: (-rise[index], names[index]))
    return tuple(
        DomainAtFault(
            names[index],
            float(eers[index]),
            None if np.isnan(without[index]) else float(without[index]),
        )
        for index in order[:_MAX_DOMAINS_NAMED]
        if rise[index] > 0 or np.isnan(without[index])
    )


def _values(column: pa.Array) -> npt.NDArray[np.generic]:
    """Numbers with NaN for null, or objects."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        return np.array(column.to_pylist(), dtype=object)
    raise SchemaError(
        "A feature cannot be audited",
        expected="a column of numbers, text or truth values",
        found=str(kind),
    )


def _typical(values: npt.NDArray[np.generic], weights: npt.NDArray[np.float64]) -> str:
    if values.dtype == object:
        found, at = np.unique([str(value) for value in values], return_inverse=True)
        return str(found[np.bincount(at, weights).argmax()]) if found.size else ""
    numbers = values.astype(np.float64)
    known = ~np.isnan(numbers)
    if not known.any():
        return ""
    order = np.argsort(numbers[known], kind="stable")
    reached = np.cumsum(weights[known][order])
    return f"{numbers[known][order][np.searchsorted(reached, reached[-1] / 2)]:.4g}"
