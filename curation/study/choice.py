"""What a method takes of a training side: rows, how often each is drawn, and the mixture made.

Methods see the rows of the training side and no others. Labels are drawn alike often in all of
them, whatever the weights say: the methods are compared for how they mix domains within a label.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.domains import UTTERANCES, Domain
from curation.duplicates import Rule, near_duplicates
from curation.manifest import MANIFEST, num_effective_domains, remarks
from curation.order import PLACE_DIGITS, place
from curation.probe.keys import is_bonafide, with_weights
from curation.selection import select, weigh
from curation.selection.amounts import Amount
from curation.selection.census import manifest_of
from curation.selection.orders import OrderOptions
from curation.study.design import ORDER_OPTIONS, Method
from curation.study.diversity import diverse_subset
from datalake import tables
from datalake.errors import InputError
from datalake.lake import SELECTION_ROWS, Selection
from datalake.tables import Table
from datalake.uri import Location

__all__ = ["Choice", "choose", "first_by_weight"]

_THRESHOLD: Final = 0.97
_ROWS_COPIED: Final = 8192

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """Rows to train on."""

    keys: pa.Table
    """Rows of the training side, with a column `weight` where rows are drawn unevenly."""
    mixture: pa.Table
    """`MANIFEST`: what the training side has of each domain, and what was taken; `mass` is the
    share of draws, labels alike."""
    remarks: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the method says of its choice: the cap that a budget found, rows dropped."""

    @property
    def is_weighted(self) -> bool:
        """Whether rows are drawn by their weights."""
        return "weight" in self.keys.column_names

    @property
    def num_effective_domains(self) -> float:
        """exp(entropy) of the domains' shares of the draws."""
        return num_effective_domains(self.mixture["mass"].to_pylist())

    @property
    def hours(self) -> float | None:
        """Hours of speech among the rows; None if durations are not known of all."""
        durations = self.keys["duration_s"]
        if durations.null_count:
            return None
        return float(pc.sum(durations).as_py() or 0.0) / 3600


def choose(
    table: Table, table_name: str, side: pa.Table, method: Method, budget: int | None, seed: int
) -> Choice:
    """Choose among the rows of a training side.

    - A selector chooses rows as `curate select` does.
    - A weighter says how often each row is drawn; with a budget, the rows are drawn once, without
      replacement, in proportion to the weights (`first_by_weight`), as many of each label.
    - A deduplication leaves rows out; with a budget, as many of the others as it allows are taken
      at random.
    - A subset has so many sources and generators and no other (`diverse_subset`).

    Args:
        table: the version that the rows are of.
        table_name: its name.
        side: the rows that may train, with the columns of `read_keys` and `duration_s`.
        method: how to choose.
        budget: how many rows to keep at most; None for no limit.
        seed: of the choice.

    Raises:
        InputError: the method cannot choose from these rows.
        SchemaError: the table lacks what the method reads.
    """
    within = _selection_of(side, table, table_name)
    if method.verb == "subset":
        chosen = diverse_subset(side, **method.parameters, budget=budget, seed=seed)
        return Choice(chosen, _mixture(side, chosen))
    if method.verb == "dedup":
        return _dedup(table, side, method, budget, seed)
    parameters = dict(method.parameters)
    common: dict[str, Any] = {
        "table_name": table_name, "method": method.plugin, "seed": seed, "within": within,
    }  # fmt: skip
    if method.verb == "weigh":
        weights = weigh(table, **common, **parameters)
        keys = with_weights(side, weights)
        notes = remarks(weights.manifest, weights.parameters)
        if budget is None:
            return _balanced(side, keys, notes)
        chosen = first_by_weight(keys, budget, seed).drop_columns(["weight"])
        return Choice(chosen, _mixture(side, chosen), tuple(notes))
    ordering = {name: parameters.pop(name) for name in list(parameters) if name in ORDER_OPTIONS}
    if ordering:
        parameters["order_options"] = OrderOptions(**ordering)
    selection = select(table, **common, **parameters, budget=budget)
    chosen = _filtered(side, selection.rows["row_index"].to_numpy())
    # The report keeps what the budget found.
    facts = {
        name: value
        for name, value in selection.parameters.items()
        if name not in method.parameters and name not in ("seed", "where", "within", "budget")
        and not name.startswith("within") and value is not None
    }  # fmt: skip
    notes = remarks(selection.manifest, selection.parameters)
    return Choice(chosen, _mixture(side, chosen), tuple(notes), facts)


def first_by_weight(keys: pa.Table, budget: int, seed: int) -> pa.Table:
    """At most `budget` rows, drawn without replacement in proportion to the column `weight`.

    SOURCE: Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006): the rows of
    the largest u^(1/w). OURS: u is the row's place in the order of `curation.order` under the seed,
    so that the rows are the same however they are stored; half of the budget goes to either label,
    and what one label lacks to the other.
    """
    bonafide = is_bonafide(keys)
    sizes = {label: int((bonafide == label).sum()) for label in (True, False)}
    half = min(budget // 2, sizes[True])
    spoofs = min(budget - half, sizes[False])
    wanted = {True: min(budget - spoofs, sizes[True]), False: spoofs}
    ranks = _exponential(keys, seed) / keys["weight"].to_numpy()
    taken = np.zeros(keys.num_rows, np.bool_)
    for label, count in wanted.items():
        rows = np.flatnonzero(bonafide == label)
        taken[rows[np.argsort(ranks[rows], kind="stable")[:count]]] = True
    return keys.filter(pa.array(taken))


def _exponential(keys: pa.Table, seed: int) -> Numbers:
    """-ln(u) for each row, with u above 0 and below 1 from the hash of its id."""
    places = [int(place(seed, str(name)), 16) for name in keys["utt_id"].to_pylist()]
    uniform = (np.array(places, np.float64) + 0.5) / 16.0**PLACE_DIGITS
    return np.asarray(-np.log(np.clip(uniform, 1e-300, 1 - 2**-53)))


def _dedup(table: Table, side: pa.Table, method: Method, budget: int | None, seed: int) -> Choice:
    """Leave near-duplicates out, found among the rows of the side alone."""
    parameters = dict(method.parameters)
    column = str(parameters.pop("embedding"))
    threshold = float(parameters.pop("threshold", _THRESHOLD))
    best_by = parameters.get("best_by")
    with tempfile.TemporaryDirectory(prefix="curate-study-") as folder:
        extra = [str(best_by)] if best_by is not None else []
        copied = _copied(table, side, ["utt_id", column, *extra], Path(folder))
        found = near_duplicates(
            copied,
            column,
            threshold,
            rule=cast("Rule", method.plugin),
            seed=seed,
            num_sampled=0,
            scratch=Path(folder),
            **parameters,
        )
        kept = found.kept["utt_id"]
    chosen = side.filter(pc.is_in(side["utt_id"], value_set=kept.combine_chunks()))
    facts = {
        "threshold": threshold,
        "num_dropped": found.drops.num_rows,
        "num_uncovered": found.num_uncovered,
    }
    notes: list[str] = []
    if budget is not None:
        if chosen.num_rows < budget:
            notes.append(
                f"Of {side.num_rows:,} rows {chosen.num_rows:,} are no duplicates, fewer than the "
                f"budget of {budget:,}."
            )
        order = np.argsort(
            [place(seed, str(name)) for name in chosen["utt_id"].to_pylist()], kind="stable"
        )
        chosen = chosen.take(np.sort(order[:budget]))
    return Choice(chosen, _mixture(side, chosen), tuple(notes), facts)


def _copied(table: Table, side: pa.Table, columns: list[str], folder: Path) -> Table:
    """The columns of the side's rows as a table of their own: a search takes no ids to keep to."""
    if missing := [name for name in columns if name not in table.schema.names]:
        raise InputError(
            f"The table has no column {missing[0]!r} to compare by",
            where=table.uri,
            fix="Add one with `curate embed`, or name another in the study",
        )
    schema = pa.schema([table.schema.field(name) for name in columns])
    copied = tables.create_table(Location(str(folder / "side.lance")), schema)
    rows = side["row_index"].to_numpy()

    def batches() -> Any:
        for begin in range(0, len(rows), _ROWS_COPIED):
            part = table.take(rows[begin : begin + _ROWS_COPIED].tolist(), columns)
            yield from part.select(columns).cast(schema).to_batches()

    return copied.append(pa.RecordBatchReader.from_batches(schema, batches()))


def _balanced(side: pa.Table, keys: pa.Table, notes: list[str]) -> Choice:
    """Weighted rows, with half of the weight on either label, and a mean of 1."""
    bonafide = is_bonafide(keys)
    weights = np.array(keys["weight"].to_numpy(), np.float64)
    for rows in (bonafide, ~bonafide):
        total = math.fsum(weights[rows].tolist())
        if not total:
            raise InputError("The weights leave one of the labels out")
        weights[rows] *= len(weights) / 2 / total
    at = keys.schema.get_field_index("weight")
    keys = keys.set_column(at, "weight", pa.array(weights))
    return Choice(keys, _mixture(side, keys), tuple(notes))


def _mixture(side: pa.Table, chosen: pa.Table) -> pa.Table:
    """The manifest of a choice, with the masses that training draws: labels alike."""
    domains = _domains(side)
    kept = _filtered_mask(side, chosen["row_index"].to_numpy())
    weights = np.zeros(side.num_rows)
    weights[kept] = chosen["weight"].to_numpy() if "weight" in chosen.column_names else 1.0
    durations = side["duration_s"].to_numpy(zero_copy_only=False).astype(np.float64)
    rows_of: dict[Domain, list[int]] = defaultdict(list)
    for row, domain in enumerate(domains):
        rows_of[domain].append(row)
    masses = {domain: math.fsum(weights[rows].tolist()) for domain, rows in rows_of.items()}
    for label in (True, False):
        mine = [domain for domain in masses if domain.is_bonafide is label]
        total = math.fsum(masses[domain] for domain in mine)
        for domain in mine:
            masses[domain] = masses[domain] / total / 2 if total else 0.0
    return manifest_of(
        {domain: _amount(durations[rows]) for domain, rows in rows_of.items()},
        {
            domain: _amount(durations[rows][kept[rows]])
            for domain, rows in rows_of.items()
            if kept[rows].any()
        },
        masses,
    ).cast(MANIFEST)


def _amount(durations: Numbers) -> Amount:
    known = durations[~np.isnan(durations)]
    return Amount(len(durations), len(known), int(np.rint(known * 1e6).sum()))


def _domains(side: pa.Table) -> list[Domain]:
    columns = [side[name].to_pylist() for name in UTTERANCES.columns]
    known: dict[tuple[str | None, ...], Domain] = {}
    found = []
    for utt_id, *values in zip(side["utt_id"].to_pylist(), *columns, strict=True):
        key = tuple(values)
        if key not in known:
            domain = UTTERANCES.domain(*key)
            if domain is None:
                raise InputError(
                    "A row has no domain", where=str(utt_id), expected=UTTERANCES.expected
                )
            known[key] = domain
        found.append(known[key])
    return found


def _filtered(side: pa.Table, rows: npt.NDArray[Any]) -> pa.Table:
    return side.filter(pa.array(_filtered_mask(side, rows)))


def _filtered_mask(side: pa.Table, rows: npt.NDArray[Any]) -> Mask:
    return np.isin(side["row_index"].to_numpy(), rows)


def _selection_of(side: pa.Table, table: Table, table_name: str) -> Selection:
    """A training side as a selection, which others are made within."""
    ids = side["utt_id"]
    rows = pa.table(
        {
            "row_index": side["row_index"].cast(pa.uint64()),
            "utt_id": ids,
            "domain": side["domain"],
            "rank": pa.array(np.zeros(side.num_rows, np.uint64)),
            "weight": pa.array(np.ones(side.num_rows)),
        },
        schema=SELECTION_ROWS,
    )
    name = hashlib.sha256("\n".join(map(str, ids.to_pylist())).encode()).hexdigest()[:16]
    return Selection(
        name=f"side-{name}",
        table=table_name,
        table_version=table.version,
        rows=rows,
        manifest=MANIFEST.empty_table(),
        method="training side",
        parameters={},
    )
