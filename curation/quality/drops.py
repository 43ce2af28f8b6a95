"""What to drop by rules on columns, each row with its reason, its value and the threshold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.domains import keys_of
from datalake.errors import InputError, SchemaError, nearest
from datalake.tables import Table

__all__ = [
    "DROPS",
    "Drops",
    "OutlierRule",
    "Rule",
    "ThresholdRule",
    "broken_rules",
    "find_drops",
    "parse_rule",
]

DROPS: Final = pa.schema(
    [
        pa.field("row_index", pa.uint64(), nullable=False),
        # The row's id; of an episode its `episode_id`.
        pa.field("utt_id", pa.string()),
        # `<column>_high`, `<column>_low` or `<column>_missing`, with `_outlier` behind the former
        # two where the bound was found and not given.
        pa.field("reason", pa.string(), nullable=False),
        pa.field("column", pa.string(), nullable=False),
        # Null for `_missing`.
        pa.field("value", pa.float64()),
        # The bound that the value is beyond.
        pa.field("threshold", pa.float64()),
    ]
)
"""One row a rule that a row breaks, in the order of the table and the rules."""

_RULE: Final = re.compile(
    r"\s*(?P<column>\w+)\s*(?P<op><=|>=|<|>)\s*(?P<bound>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
    r"|\s*(?P<missing>\w+)\s+is\s+missing\s*"
    r"|\s*(?P<outlier>\w+)\s+is\s+an?\s+outlier(?:\s+by\s+(?P<by>\w+(?:\s+and\s+\w+)*))?(?:\s+at\s+(?P<z>\d+\.?\d*))?\s*",
    re.IGNORECASE,
)
_DEFAULT_Z: Final = 5.0
_SD_OF_MAD: Final = 1.4826
_LEAST_GROUP: Final = 10


@dataclass(frozen=True)
class ThresholdRule:
    """Drops rows whose value is beyond a bound; null and NaN are not, unless `op` is `missing`."""

    column: str
    op: str
    """`<`, `<=`, `>`, `>=` or `missing`."""
    bound: float | None = None


@dataclass(frozen=True)
class OutlierRule:
    """Drops rows far from the median of their group, in robust standard deviations.

    The deviation is 1.4826 times the median absolute deviation, which is that of a normal
    distribution. Groups of under ten rows, and groups more than half of whose values are one, have
    no outliers: nothing is known of their spread.
    """

    column: str
    by: str | tuple[str, ...] | None = "source"
    """The column, or columns, whose values are the groups; None: all rows are one."""
    z: float = _DEFAULT_Z

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The columns of `by`."""
        return (self.by,) if isinstance(self.by, str) else self.by or ()


Rule = ThresholdRule | OutlierRule


@dataclass(frozen=True)
class Drops:
    """What rules drop."""

    rows: pa.Table
    """`DROPS`."""
    kept: pa.Table
    """`row_index` and `utt_id` (the id) of the rows that break no rule, in order."""
    num_rows: int

    @property
    def num_dropped(self) -> int:
        """Rows that break a rule or more."""
        return self.num_rows - int(self.kept.num_rows)


def parse_rule(text: str) -> Rule:
    """A rule from text.

    `clipping_share > .01`, `snr_db is missing`, `duration_s is an outlier by source at 5`,
    `jerk_p95 is an outlier by embodiment and task`; without `by`, by source; `by all` for no
    groups; without `at`, 5 standard deviations.

    Raises:
        InputError: it is no rule.
    """
    found = _RULE.fullmatch(text)
    if found is None:
        raise InputError(
            "A rule cannot be read",
            expected="COLUMN > NUMBER (or <, <=, >=), COLUMN is missing, or "
            "COLUMN is an outlier [by COLUMN [and COLUMN]] [at NUMBER]",
            found=text,
        )
    if found["outlier"]:
        columns = tuple(re.split(r"\s+and\s+", found["by"] or "source", flags=re.IGNORECASE))
        by = columns if len(columns) > 1 else None if columns == ("all",) else columns[0]
        return OutlierRule(found["outlier"], by, float(found["z"] or _DEFAULT_Z))
    if found["missing"]:
        return ThresholdRule(found["missing"], "missing")
    return ThresholdRule(found["column"], found["op"], float(found["bound"]))


def find_drops(table: Table, rules: Sequence[Rule], *, where: str | None = None) -> Drops:
    """Judge rows by rules, in one pass over the columns that they name, two if there are outliers.

    Memory: the ids of all rows considered (about 60 bytes each), and where there are outlier rules
    12 bytes a row and rule.

    Args:
        table: the version to judge.
        rules: what to drop; a row that breaks several has a line for each.
        where: judge only rows for which this holds; others are neither dropped nor kept.

    Raises:
        InputError: there is no rule.
        SchemaError: a column is missing, or holds no numbers.
        PredicateError: `where` cannot be evaluated.
    """
    id_column = keys_of(table.schema).id_column
    dropped, kept, num_rows = [DROPS.empty_table()], [_KEPT.empty_table()], 0
    for batch, broken in broken_rules(table, rules, where=where):
        num_rows += batch.num_rows
        dropped.append(broken)
        good = pc.invert(pc.is_in(batch["row_index"], value_set=broken["row_index"]))
        rest = pa.Table.from_batches([batch.filter(good)])
        kept.append(rest.select(["row_index", id_column]).rename_columns(_KEPT.names).cast(_KEPT))
    return Drops(pa.concat_tables(dropped), pa.concat_tables(kept), num_rows)


def broken_rules(
    table: Table, rules: Sequence[Rule], *, where: str | None = None, among: pa.Array | None = None
) -> Iterator[tuple[pa.RecordBatch, pa.Table]]:
    """Judge rows a batch at a time: the batch, and the rules that its rows break (`DROPS`).

    Memory: a batch, and what outlier rules hold (see `find_drops`).

    Args:
        table: the version to judge.
        rules: what to judge by.
        where: judge only rows for which this holds.
        among: and of those only rows of these indices; outliers are still outliers among all.

    Raises:
        InputError: there is no rule.
        SchemaError: a column is missing, or holds no numbers.
        PredicateError: `where` cannot be evaluated.
    """
    if not rules:
        raise InputError("There is nothing to drop by", expected="one rule or more")
    _check(table, rules)
    bounds = {
        rule: _outlier_bounds(table, rule, where) for rule in rules if isinstance(rule, OutlierRule)
    }
    groups = [column for rule in bounds for column in rule.group_columns]
    id_column = keys_of(table.schema).id_column
    columns = list(dict.fromkeys([id_column, *(rule.column for rule in rules), *groups]))
    for batch in table.scan(columns, where=where, with_row_index=True):
        if among is not None:
            batch = batch.filter(pc.is_in(batch["row_index"], value_set=among))
        ids = batch[id_column].cast(pa.string())
        parts = [_broken(batch, ids, rule, bounds) for rule in rules]
        yield batch, pa.concat_tables(parts).sort_by("row_index")


_KEPT: Final = pa.schema([("row_index", pa.uint64()), ("utt_id", pa.string())])
_Group = tuple[str | None, ...]
_Bounds = dict[_Group, tuple[float, float]]


def _check(table: Table, rules: Sequence[Rule]) -> None:
    for rule in rules:
        by = rule.group_columns if isinstance(rule, OutlierRule) else ()
        for name in (rule.column, *by):
            if name not in table.schema.names:
                raise SchemaError(
                    f"A rule names a column that is not there: {name}",
                    where=table.uri,
                    fix=nearest(name, table.schema.names),
                )
        kind = table.schema.field(rule.column).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise SchemaError(
                f"A rule compares the column {rule.column}",
                where=table.uri,
                expected="numbers",
                found=str(kind),
            )


def _numbers(batch: pa.RecordBatch, column: str) -> npt.NDArray[np.float64]:
    """Values with NaN for null."""
    values = batch[column].cast(pa.float64(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def _groups(batch: pa.RecordBatch, by: Sequence[str]) -> list[_Group]:
    columns = [batch[name].cast(pa.string()).to_pylist() for name in by]
    return list(zip(*columns, strict=True)) if by else [()] * int(batch.num_rows)


def _broken(
    batch: pa.RecordBatch, ids: pa.Array, rule: Rule, bounds: dict[OutlierRule, _Bounds]
) -> pa.Table:
    values = _numbers(batch, rule.column)
    if isinstance(rule, OutlierRule):
        known = bounds[rule]
        nowhere = (-np.inf, np.inf)
        low, high = np.array(
            [known.get(group, nowhere) for group in _groups(batch, rule.group_columns)]
        ).T
        return pa.concat_tables(
            [
                _lines(batch, ids, rule.column, "low_outlier", values, values < low, low),
                _lines(batch, ids, rule.column, "high_outlier", values, values > high, high),
            ]
        )
    if rule.op == "missing":
        return _lines(batch, ids, rule.column, "missing", values, np.isnan(values), values)
    bound = np.full(len(values), rule.bound, np.float64)
    beyond = {
        "<": values < bound, "<=": values <= bound, ">": values > bound, ">=": values >= bound,
    }[rule.op]  # fmt: skip
    side = "low" if rule.op.startswith("<") else "high"
    return _lines(batch, ids, rule.column, side, values, beyond, bound)


def _lines(
    batch: pa.RecordBatch,
    ids: pa.Array,
    column: str,
    reason: str,
    values: npt.NDArray[np.float64],
    broken: npt.NDArray[np.bool_],
    bounds: npt.NDArray[np.float64],
) -> pa.Table:
    rows, count = batch.filter(pa.array(broken)), int(broken.sum())
    return pa.table(
        {
            "row_index": rows["row_index"].cast(pa.uint64()),
            "utt_id": ids.filter(pa.array(broken)),
            "reason": pa.array([f"{column}_{reason}"] * count, pa.string()),
            "column": pa.array([column] * count, pa.string()),
            "value": pa.array(values[broken], from_pandas=True),
            "threshold": pa.array(bounds[broken], from_pandas=True),
        },
        schema=DROPS,
    )


def _outlier_bounds(table: Table, rule: OutlierRule, where: str | None) -> _Bounds:
    """The bounds of each group."""
    columns = list(dict.fromkeys([rule.column, *rule.group_columns]))
    numbers: dict[_Group, int] = {}
    values, groups = [np.empty(0)], [np.empty(0, np.int32)]
    for batch in table.scan(columns, where=where):
        values.append(_numbers(batch, rule.column))
        names = _groups(batch, rule.group_columns)
        groups.append(
            np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int32)
        )
    value, group = np.concatenate(values), np.concatenate(groups)
    bounds: _Bounds = {}
    for name, number in numbers.items():
        own = value[(group == number) & ~np.isnan(value)]
        if len(own) < _LEAST_GROUP:
            continue
        middle = float(np.median(own))
        deviation = _SD_OF_MAD * float(np.median(np.abs(own - middle)))
        if deviation > 0:
            bounds[name] = (middle - rule.z * deviation, middle + rule.z * deviation)
    return bounds
