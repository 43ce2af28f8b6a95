"""Parting a table so that no speaker, generator or source stands on two sides.

Rows that share a value of any of the keys belong together; what belongs together makes components
(union-find), and whole components are dealt out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.order import digest
from datalake.errors import InputError, LakeError
from datalake.schema import BONAFIDE, SPOOF
from datalake.tables import Table

__all__ = ["Split", "split_rows"]

_LABELS: Final = (BONAFIDE, SPOOF, None)
_KEPT: Final = pa.schema([("row_index", pa.uint64()), ("utt_id", pa.string())])

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Rows parted. No value of a key is in two parts; that was verified on the rows as parted."""

    parts: Mapping[str, pa.Table]
    """`row_index` and `utt_id` of the rows of each part, in the table's order."""
    num_components: int
    remarks: tuple[str, ...]
    """What a person should know: a part far from its share, or without one of the labels."""


def split_rows(
    table: Table,
    *,
    by: Sequence[str],
    shares: Mapping[str, float],
    seed: int = 0,
    where: str | None = None,
    previous: Mapping[str, pa.Array] | None = None,
) -> Split:
    """Part the rows of a table by keys.

    Components come largest first (by powers of two, within one by a hash of seed and keys), each to
    the part that lacks most of what it has, bona fide and spoof counted apart. So the result
    depends neither on the order of the rows nor on how they are stored. New rows may change what
    becomes of old ones, unless `previous` says where those are: then they stay.

    A null is no value: a row without any key is a component of its own.

    Memory: the ids of all rows and a few numbers each, some 100 bytes a row; the values of the
    keys.

    Args:
        table: the version to part.
        by: the keys, such as speaker_id, generator, source, or episode_id.
        shares: what share of the rows each part is to have; they sum to 1.
        seed: seed of the order of components.
        where: part only rows for which this holds.
        previous: by part, the utt_ids that an earlier split of the same keys gave it.

    Raises:
        InputError: shares do not sum to 1; a part gets no row; or rows that came in since connect
            what `previous` has in two parts (names them).
        SchemaError: a column is missing.
    """
    names = list(shares)
    if (
        not by
        or len(names) < 2
        or min(shares.values()) <= 0
        or not math.isclose(sum(shares.values()), 1)
    ):
        raise InputError(
            "A split cannot be made so",
            expected="a key or more, and shares above 0 that sum to 1",
            found=f"keys {', '.join(by) or 'none'}; {dict(shares)}",
        )
    rows = _read(table, by, where)
    if not rows.num_rows:
        raise InputError("There is nothing to split", where=table.uri, found="no row")
    sizes = np.zeros((rows.num_components, len(_LABELS)))
    np.add.at(sizes, (rows.component, rows.label), 1)
    fixed = _fixed(rows, names, previous or {})
    part_of = _dealt(sizes, rows.hashes(seed), np.array([shares[name] for name in names]), fixed)
    part = part_of[rows.component]
    _verify(rows, part, by)
    parts = {
        name: pa.table(
            {
                "row_index": rows.indices[part == at].astype(np.uint64),
                "utt_id": rows.ids.filter(pa.array(part == at)),
            },
            schema=_KEPT,
        )
        for at, name in enumerate(names)
    }
    if empty := [name for name, kept in parts.items() if not kept.num_rows]:
        largest = sizes.sum(axis=1).max() / rows.num_rows
        raise InputError(
            f"The part {empty[0]} would be empty",
            where=f"split by {', '.join(by)}",
            found=f"{rows.num_components:,} groups that share no key, the largest {largest:.0%} "
            "of the rows",
            fix="Split by fewer keys: a key such as source joins all of its speakers",
        )
    unknown = [
        f"{count:,} rows have no {column}, and may share it with rows of another part."
        for column, count in zip(by, (rows.keys < 0).sum(axis=0), strict=True)
        if count and column != "generator"  # bona fide has none
    ]
    remarks = [*unknown, *_remarks(parts, part, rows.label, shares)]
    return Split(parts, rows.num_components, tuple(remarks))


@dataclass(eq=False)
class _Rows:
    """The rows read, each in a component."""

    ids: pa.ChunkedArray
    indices: IntArray
    label: IntArray
    keys: IntArray
    """(num_rows, num_keys): numbers of values, over all keys; -1 for null."""
    component: IntArray
    num_components: int
    names: list[str] = field(default_factory=list)
    """`column=value` by number."""

    @property
    def num_rows(self) -> int:
        """Rows read."""
        return len(self.indices)

    def hashes(self, seed: int) -> list[bytes]:
        """A hash for each component: the smallest of those of its values, or of its row's id."""
        smallest = [b"\xff" * 17] * self.num_components
        seen = np.full(len(self.names), -1, np.int64)
        for column in self.keys.T:
            seen[column[column >= 0]] = self.component[column >= 0]
        for number, component in enumerate(seen):
            if component >= 0:
                smallest[component] = min(
                    smallest[component], digest(seed, f"split/{self.names[number]}")
                )
        for row in np.flatnonzero((self.keys < 0).all(axis=1)):
            name = f"split/utt_id={self.ids[int(row)]}"
            smallest[self.component[row]] = digest(seed, name)
        return smallest


def _read(table: Table, by: Sequence[str], where: str | None) -> _Rows:
    numbers: dict[tuple[str, str], int] = {}
    parents: list[int] = []

    def root(node: int) -> int:
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    labels = ["label"] if "label" in table.schema.names else []
    ids, indices, label, keys = [], [], [], []
    columns = list(dict.fromkeys(["utt_id", *labels, *by]))
    for batch in table.scan(columns, where=where, with_row_index=True):
        coded = np.empty((batch.num_rows, len(by)), np.int64)
        for at, name in enumerate(by):
            values = batch[name].cast(pa.string()).dictionary_encode()
            local = []
            for value in values.dictionary.to_pylist():
                number = numbers.setdefault((name, value), len(numbers))
                if number == len(parents):
                    parents.append(number)
                local.append(number)
            known = pc.fill_null(values.indices, -1).to_numpy(zero_copy_only=False)
            coded[:, at] = np.array([*local, -1])[known]
        for combination in np.unique(coded, axis=0):
            nodes = [int(node) for node in combination if node >= 0]
            for node in nodes[1:]:
                parents[max(root(nodes[0]), root(node))] = min(root(nodes[0]), root(node))
        keys.append(coded)
        ids.append(batch["utt_id"].cast(pa.string()))
        indices.append(batch["row_index"].to_numpy().astype(np.int64))
        found = batch["label"].to_pylist() if labels else [None] * batch.num_rows
        label.append(np.array([_LABELS.index(x) if x in _LABELS else 2 for x in found], np.int64))
    all_keys = np.concatenate([*keys, np.empty((0, len(by)), np.int64)])
    roots = np.array([root(node) for node in range(len(parents))] + [-1], np.int64)
    first = all_keys.max(axis=1, initial=-1)
    lone = first < 0
    mark = roots[first]
    mark[lone] = len(parents) + np.arange(lone.sum())
    found_roots, component = np.unique(mark, return_inverse=True)
    return _Rows(
        pa.chunked_array(ids, pa.string()),
        np.concatenate([*indices, np.empty(0, np.int64)]),
        np.concatenate([*label, np.empty(0, np.int64)]),
        all_keys,
        component.astype(np.int64),
        len(found_roots),
        [f"{column}={value}" for column, value in numbers],
    )


def _fixed(rows: _Rows, names: Sequence[str], previous: Mapping[str, pa.Array]) -> IntArray:
    """The part that each component has already; -1 for none."""
    fixed = np.full(rows.num_components, -1, np.int64)
    for at, name in enumerate(names):
        if name not in previous:
            continue
        known = pc.is_in(rows.ids, value_set=previous[name]).to_numpy()
        here = np.unique(rows.component[known])
        if (torn := here[(fixed[here] >= 0) & (fixed[here] != at)]).size:
            members = rows.component == torn[0]
            values = np.unique(rows.keys[members])
            shown = [rows.names[value] for value in values if value >= 0][:8]
            raise InputError(
                "Rows that came in since connect what the earlier split has in two parts",
                found=f"{int(members.sum()):,} rows that belong together by {', '.join(shown)}",
                expected=f"none of them in both {names[fixed[torn[0]]]} and {name}",
                fix="Leave the connecting rows out (--where), or split anew under another name",
            )
        fixed[here] = at
    return fixed


def _dealt(
    sizes: FloatArray, hashes: Sequence[bytes], shares: FloatArray, fixed: IntArray
) -> IntArray:
    """The part of each component."""
    totals = np.maximum(sizes.sum(axis=0), 1)
    # What is lacking, as a share of each label, (num_parts, num_labels).
    lacking = shares[:, None] * (sizes.sum(axis=0) > 0)
    relative = sizes / totals
    parts = fixed.copy()
    for component in np.flatnonzero(fixed >= 0):
        lacking[fixed[component]] -= relative[component]
    rows = sizes.sum(axis=1).astype(int)
    order = sorted(
        np.flatnonzero(fixed < 0), key=lambda at: (-int(rows[at]).bit_length(), hashes[int(at)])
    )
    for component in order:
        parts[component] = int((lacking @ relative[component]).argmax())
        lacking[parts[component]] -= relative[component]
    for empty in set(range(len(shares))) - set(parts.tolist()):
        # A small table may have no group that fits: the smallest of a part that has several.
        spare = [at for at in reversed(order) if (parts == parts[at]).sum() > 1]
        parts[spare[:1]] = empty
    return parts


def _verify(rows: _Rows, part: IntArray, by: Sequence[str]) -> None:
    """See, on the rows as they were parted, that no value is in two parts."""
    for at, column in enumerate(by):
        known = rows.keys[:, at] >= 0
        pairs = np.unique(np.column_stack([rows.keys[known, at], part[known]]), axis=0)
        if len(np.unique(pairs[:, 0])) < len(pairs):
            raise LakeError("A split is not disjoint; nothing was saved", where=column)


def _remarks(
    parts: Mapping[str, pa.Table], part: IntArray, label: IntArray, shares: Mapping[str, float]
) -> list[str]:
    remarks = []
    for at, (name, kept) in enumerate(parts.items()):
        reached = kept.num_rows / len(part)
        if abs(reached - shares[name]) > 0.25 * shares[name]:
            remarks.append(
                f"The part {name} has {reached:.1%} of the rows where {shares[name]:.1%} was asked:"
                " rows that share a key stay together."
            )
        remarks += [
            f"The part {name} has no {kind} rows."
            for number, kind in enumerate(("bona fide", "spoof"))
            if (label == number).any() and not (label[part == at] == number).any()
        ]
    return remarks
