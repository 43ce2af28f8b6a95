"""Folds: who trains and who tests, for each protocol.

A fold is the same for all methods, budgets and seeds, so that their results are pairs. It follows
from the keys alone: hashes of ids, speakers and sources, never the order of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from curation.probe.keys import is_bonafide, texts
from curation.probe.overlap import find_overlaps, refuse_leaks
from curation.probe.splits import HoldOut, hold_out_generators, hold_out_source, train_on_source
from curation.study.design import ProtocolPlan
from curation.study.results import Protocol
from datalake.errors import ConfigError, InputError, LakeError, NotFoundError, nearest

__all__ = ["Fold", "FoldName", "Folds", "SkippedFold", "fold_of", "folds_of"]


@dataclass(frozen=True)
class FoldName:
    """Which fold."""

    protocol: Protocol
    fold: str
    """What is held out; in `cross`, what is trained on."""

    def __str__(self) -> str:
        return f"{self.protocol} {self.fold}"


@dataclass(frozen=True)
class Fold:
    """One parting of a table."""

    name: FoldName
    sides: HoldOut

    def facts(self, keys: pa.Table) -> dict[str, object]:
        """What a report says of it: rows of each side and label, and what parts the two."""
        bonafide = is_bonafide(keys)
        train, test = self.sides.train, self.sides.test
        return {
            "protocol": self.name.protocol,
            "fold": self.name.fold,
            "train_bonafide": int((train & bonafide).sum()),
            "train_spoof": int((train & ~bonafide).sum()),
            "test_bonafide": int((test & bonafide).sum()),
            "test_spoof": int((test & ~bonafide).sum()),
            "num_dropped": self.sides.num_dropped,
            "bonafide_by": self.sides.bonafide_by,
        }


@dataclass(frozen=True)
class SkippedFold:
    """A fold that cannot be made of this table."""

    name: FoldName
    reason: str


@dataclass(frozen=True)
class Folds:
    """The folds of a protocol."""

    made: tuple[Fold, ...]
    skipped: tuple[SkippedFold, ...]


def folds_of(keys: pa.Table, plan: ProtocolPlan) -> Folds:
    """All folds of a protocol. Memory: two bytes a row and fold.

    Args:
        keys: of the whole table, as `read_keys` gives them.
        plan: which folds there are to be.

    Raises:
        NotFoundError: the plan names a generator or a source that is not there.
        ConfigError: a generator is in two groups, or a group has the name of a generator that is
            in none.
        InputError: not one fold can be made.
    """
    made: list[Fold] = []
    skipped: list[SkippedFold] = []
    for fold in _names(keys, plan):
        name = FoldName(plan.protocol, fold)
        try:
            made.append(fold_of(keys, plan, fold))
        except NotFoundError:
            raise
        except InputError as error:
            skipped.append(SkippedFold(name, str(error)))
    if not made:
        raise InputError(
            f"No fold can be made for {plan.protocol}",
            expected="generators or sources of which the test gets both labels",
            found=skipped[0].reason if skipped else "none in the table",
        )
    return Folds(tuple(made), tuple(skipped))


def fold_of(keys: pa.Table, plan: ProtocolPlan, fold: str) -> Fold:
    """One fold; checked for utterances on both sides.

    Raises:
        NotFoundError: what is to be held out is not there.
        InputError: a side would lack a label, or the test has too few spoofs.
    """
    if plan.protocol == "logo":
        sides = hold_out_generators(
            keys,
            plan.groups.get(fold, (fold,)),
            bonafide_fraction=plan.bonafide_fraction,
            seed=plan.seed,
        )
    elif plan.protocol == "loso":
        sides = hold_out_source(keys, fold)
    else:
        sides = train_on_source(keys, fold)
    bonafide = is_bonafide(keys)
    for label, rows, least in (
        ("bona fide rows", bonafide, plan.min_bonafide),
        ("spoofs", ~bonafide, plan.min_spoof),
    ):
        count = int((sides.test & rows).sum())
        if count < least:
            raise InputError(
                f"The test of {plan.protocol} {fold} has too few {label}",
                expected=f"{least:,} or more",
                found=f"{count:,}",
            )
    test = keys.filter(pa.array(sides.test))
    overlaps = find_overlaps(keys.filter(pa.array(sides.train)), test)
    refuse_leaks(overlaps)
    _require_apart(keys, sides)
    return Fold(FoldName(plan.protocol, fold), sides)


def _require_apart(keys: pa.Table, sides: HoldOut) -> None:
    """See that no bona fide speaker of the test is heard in training, where speakers part them."""
    if sides.bonafide_by != "speaker_id":
        return
    speakers = keys["speaker_id"].to_numpy(zero_copy_only=False)
    tested = set(speakers[sides.test & is_bonafide(keys)])
    if shared := sorted(tested & {each for each in speakers[sides.train] if each is not None}):
        raise LakeError(
            "A fold is not disjoint",
            where="speaker_id",
            found=f"{shared[0]} on both sides",
            fix="This is a fault of the folds: please report it",
        )


def _names(keys: pa.Table, plan: ProtocolPlan) -> list[str]:
    if plan.protocol != "logo":
        return _chosen(plan, _present(keys, "source"), "source")
    generators = _present(keys, "generator")
    members = [name for names in plan.groups.values() for name in names]
    twice = [name for name, count in Counter(members).items() if count > 1]
    alone = set(generators) - set(members)
    if clash := twice or sorted(alone & set(plan.groups)):
        raise ConfigError(
            f"The generator {clash[0]} would be held out twice",
            where="protocols.logo.groups",
            expected="each generator in one group at most, and groups with names of their own",
        )
    for name in members:
        _require(name, generators, "generator")
    return _chosen(plan, sorted({*alone, *plan.groups}), "generator")


def _chosen(plan: ProtocolPlan, names: list[str], column: str) -> list[str]:
    for name in plan.only:
        _require(name, names, column)
    return [name for name in names if not plan.only or name in plan.only]


def _require(name: str, names: Iterable[str], column: str) -> None:
    if name not in set(names):
        raise NotFoundError(
            f"No row has the {column} {name!r}", where=column, fix=nearest(name, names)
        )


def _present(keys: pa.Table, column: str) -> list[str]:
    rows = np.ones(keys.num_rows, np.bool_) if column == "source" else ~is_bonafide(keys)
    return sorted({name for name in texts(keys.filter(pa.array(rows)), column) if name})
