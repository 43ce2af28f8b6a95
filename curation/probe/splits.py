"""Who trains, who validates and who tests: by hashes of ids, so the same wherever it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.order import digest
from curation.probe.keys import is_bonafide, texts
from datalake.errors import InputError, NotFoundError, nearest

__all__ = [
    "HoldOut",
    "hold_out_generators",
    "hold_out_source",
    "train_on_source",
    "validation_mask",
]

Mask = npt.NDArray[np.bool_]


def validation_mask(keys: pa.Table, *, fraction: float, max_rows: int, seed: int) -> Mask:
    """Which rows validate: about a `fraction` of every domain, the first in the order of a hash.

    A domain of n rows gives round(n * fraction), at least one of two or more. The fraction shrinks
    to keep the whole near `max_rows`.
    """
    share = min(fraction, max_rows / max(keys.num_rows, 1))
    rows_of: dict[str | None, list[int]] = defaultdict(list)
    for row, domain in enumerate(texts(keys, "domain")):
        rows_of[domain].append(row)
    ids = texts(keys, "utt_id")
    mask = np.zeros(keys.num_rows, dtype=np.bool_)
    for rows in rows_of.values():
        count = max(round(len(rows) * share), int(len(rows) > 1))
        mask[sorted(rows, key=lambda row: digest(seed, f"validation/{ids[row]}"))[:count]] = True
    return mask


@dataclass(frozen=True)
class HoldOut:
    """One table parted into training and test."""

    train: Mask
    test: Mask
    bonafide_by: str
    """What test and training bona fide never share: `speaker_id`, `utt_id` or `source`."""
    num_dropped: int
    """Rows of neither side: rows of the other side's speakers, and twins of its files by sha256."""


def hold_out_generators(
    keys: pa.Table, generators: Collection[str], *, bonafide_fraction: float = 0.3, seed: int = 0
) -> HoldOut:
    """Hold generators out for a test, with bona fide rows that training never hears.

    The test is every spoof of `generators` and about `bonafide_fraction` of the bona fide rows. If
    speakers are known, whole speakers are held out, in the order of a hash, and training hears them
    in no role; else single utterances are.

    Raises:
        NotFoundError: a generator is not in the table (names the nearest).
        InputError: one side would lack bona fide or spoof rows.
    """
    found = pc.is_in(keys["generator"], pa.array(sorted(generators), pa.string()))
    test_spoof = np.asarray(found)
    known = {name for name in texts(keys, "generator") if name}
    for name in generators:
        if name not in known:
            raise NotFoundError(
                f"No row has the generator {name!r}", where="generator", fix=nearest(name, known)
            )
    bonafide = is_bonafide(keys)
    test_bonafide, column = _held_out_bonafide(keys, bonafide, bonafide_fraction, seed)
    test = test_spoof | test_bonafide
    train = ~test & ~_shares(keys, "sha256", test)
    if column == "speaker_id":
        train &= ~_shares(keys, "speaker_id", test_bonafide)
    _require_both_labels(
        bonafide,
        train,
        test,
        where=f"hold-out of {', '.join(sorted(generators))}",
        fix="Hold out fewer generators, or give a table of its own with --test",
    )
    return HoldOut(train, test, column, int((~test & ~train).sum()))


def hold_out_source(keys: pa.Table, source: str) -> HoldOut:
    """Hold a source out for a test: all of its rows.

    Training hears the bona fide speakers of the test in no role, under whatever source they stand,
    and no twin of a test file. Where a bona fide row has no speaker only the source parts the two.

    Raises:
        NotFoundError: the source is not in the table (names the nearest).
        InputError: one side would lack bona fide or spoof rows.
    """
    test = _of_source(keys, source)
    bonafide = is_bonafide(keys)
    train = ~test & ~_shares(keys, "sha256", test) & ~_shares(keys, "speaker_id", test & bonafide)
    _require_both_labels(
        bonafide,
        train,
        test,
        where=f"hold-out of the source {source}",
        fix="Hold another source out: one with both labels that leaves other speakers to train on",
    )
    return HoldOut(train, test, _parted_by(keys, bonafide), int((~test & ~train).sum()))


def train_on_source(keys: pa.Table, source: str) -> HoldOut:
    """Train on all rows of one source and test on all other sources.

    The test has no bona fide row of a speaker that the source has, and no twin of its files.

    Raises:
        NotFoundError: the source is not in the table (names the nearest).
        InputError: one side would lack bona fide or spoof rows.
    """
    train = _of_source(keys, source)
    bonafide = is_bonafide(keys)
    heard = _shares(keys, "speaker_id", train) & bonafide
    test = ~train & ~_shares(keys, "sha256", train) & ~heard
    _require_both_labels(
        bonafide,
        train,
        test,
        where=f"training on the source {source}",
        fix="Train on another source: one with both labels",
    )
    return HoldOut(train, test, _parted_by(keys, bonafide), int((~test & ~train).sum()))


def _of_source(keys: pa.Table, source: str) -> Mask:
    known = {name for name in texts(keys, "source") if name}
    if source not in known:
        raise NotFoundError(
            f"No row has the source {source!r}", where="source", fix=nearest(source, known)
        )
    return np.asarray(pc.fill_null(pc.equal(keys["source"], source), False))


def _parted_by(keys: pa.Table, bonafide: Mask) -> str:
    """What parts the bona fide rows of two sources: speakers, where all are known."""
    speakers = keys["speaker_id"].filter(pa.array(bonafide))
    return "source" if speakers.null_count else "speaker_id"


def _require_both_labels(bonafide: Mask, train: Mask, test: Mask, *, where: str, fix: str) -> None:
    for side, mask in (("training", train), ("test", test)):
        for label, rows in (("bona fide", mask & bonafide), ("spoof", mask & ~bonafide)):
            if not rows.any():
                raise InputError(f"The {side} side has no {label} rows", where=where, fix=fix)


def _held_out_bonafide(
    keys: pa.Table, bonafide: Mask, fraction: float, seed: int
) -> tuple[Mask, str]:
    wanted = fraction * bonafide.sum()
    for column in ("speaker_id", "utt_id"):
        values = texts(keys, column)
        rows_of: dict[str, list[int]] = defaultdict(list)
        for row in np.flatnonzero(bonafide):
            rows_of[values[row] or ""].append(int(row))
        if "" in rows_of:
            continue  # Some speaker is unknown, and might be any of the others.
        taken = list(_fill(rows_of, wanted, seed))
        # One speaker may hold most of a corpus; a test of a few rows would say nothing.
        if len(taken) >= wanted / 2:
            mask = np.zeros(len(bonafide), dtype=np.bool_)
            mask[taken] = True
            return mask, column
    raise InputError(
        "The bona fide rows cannot be parted", expected="two or more rows, each with an utt_id"
    )


def _fill(rows_of: dict[str, list[int]], wanted: float, seed: int) -> Iterable[int]:
    """Rows of whole groups, in the order of a hash, up to about `wanted`."""
    total = 0
    for group in sorted(rows_of, key=lambda name: digest(seed, f"test/{name}")):
        rows = rows_of[group]
        if total + len(rows) <= 1.25 * wanted:
            total += len(rows)
            yield from rows
        if total >= wanted:
            return


def _shares(keys: pa.Table, column: str, mask: Mask) -> Mask:
    """Rows whose value of `column` occurs, not null, among the rows of `mask`."""
    values = keys[column].filter(pa.array(mask)).drop_null()
    return np.asarray(pc.is_in(keys[column], value_set=values.combine_chunks()))
