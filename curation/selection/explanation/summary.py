"""What each step took away between a table and a selection of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from curation.duplicates.stand_ins import reason_of_search
from curation.manifest import MixtureTotals, totals
from curation.quality.drops import broken_rules, parse_rule
from curation.selection.explanation.earlier import earlier_of
from curation.selection.explanation.reasons import reason_beyond
from datalake.lake import Lake, Selection
from datalake.schema import BONAFIDE
from datalake.tables import Table

__all__ = ["Step", "Summary", "summarize"]


@dataclass(frozen=True)
class Step:
    """A step that refuses rows."""

    reason: str
    """A code of `Verdict.reason`."""
    num_refused: int
    num_left: int
    """Rows that are left after it."""
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """How a table became a selection."""

    name: str
    table: str
    table_version: int
    method: str
    num_rows: int
    """Of the table's version."""
    num_selected: int
    steps: tuple[Step, ...]
    """In the order in which they act; what they refuse and what is selected are all rows."""
    binding: pa.Table
    """The manifest's lines of those domains that a limit binds."""
    totals: Mapping[str, MixtureTotals]
    """By label and in all; N_eff before and after: of what was considered, and of the draws."""
    within: Summary | None
    """The same of the selection within which this one was made."""


def summarize(lake: Lake, selection: Selection) -> Summary:
    """Count what each step refused, and say which domains bind.

    The table is counted once if the selection has a `where`, and judged again if rules made it; all
    else is in the manifest. Memory does not grow with the table, but for what outlier rules hold.

    Raises:
        NotFoundError: the table's version or the earlier selection is gone.
    """
    table = lake[selection.table].at(selection.table_version)
    where = selection.parameters.get("where")
    considered = int(pc.sum(selection.manifest["num_rows"]).as_py() or 0)
    steps: list[Step] = []
    left = num_rows = table.count_rows()
    if where is not None:
        holds = table.count_rows(str(where))
        steps.append(Step("where", left - holds, holds, {"where": where}))
        left = holds
    earlier = earlier_of(lake, selection)
    # What `dedup`, `drop` and `split` leave out, their manifests count as considered.
    if earlier is not None:
        steps.append(Step("within", left - considered, considered, {"within": earlier.name}))
        left = considered
    for reason, count, facts in _by_method(table, selection):
        left -= count
        steps.append(Step(reason, count, left, facts))
    return Summary(
        name=selection.name,
        table=selection.table,
        table_version=selection.table_version,
        method=selection.method,
        num_rows=num_rows,
        num_selected=len(selection),
        steps=tuple(steps),
        binding=selection.manifest.filter(pc.field("binds")),
        totals=totals(selection.manifest),
        within=None if earlier is None else summarize(lake, earlier),
    )


_TELLING: Final = {
    "beyond_cap": ("cap", "budget", "unit", "order"),
    "beyond_ratio": ("ratio", "real_mode", "order"),
    "beyond_budget": ("num_rows", "budget", "unit", "order"),
    "beyond_first": ("order",),
}
"""The parameters that say most of a reason."""

_Refused = list[tuple[str, int, Mapping[str, object]]]


def _by_method(table: Table, selection: Selection) -> _Refused:
    """What the method itself refused, by reason."""
    manifest, parameters = selection.manifest.to_pylist(), selection.parameters
    missing = [row["num_rows"] - row["num_kept"] for row in manifest]
    if selection.method == "drop":
        return _by_rule(table, selection)
    if selection.method == "dedup":
        known = ("threshold", "rule", "recall", "num_uncovered")
        facts = {name: parameters[name] for name in known if name in parameters}
        return [(reason_of_search(parameters), sum(missing), facts)]
    if selection.method == "split":
        return [("other_part", sum(missing), {"split": parameters.get("split")})]
    counts: Counter[str] = Counter()
    for row, count in zip(manifest, missing, strict=True):
        # Of random sampling all domains are cut together, so none is left out on purpose.
        kept = len(selection) if selection.method == "random" else row["num_kept"]
        is_bonafide = row["label"] == BONAFIDE
        counts[reason_beyond(selection.method, is_bonafide=is_bonafide, num_kept=kept)] += count
    return [
        (
            reason,
            count,
            {
                name: parameters[name]
                for name in _TELLING.get(reason, ())
                if parameters.get(name) is not None
            },
        )
        for reason, count in sorted(counts.items())
        if count
    ]


def _by_rule(table: Table, selection: Selection) -> _Refused:
    """Rows by the first rule that they break; `num_broken` counts them by every rule."""
    where = selection.parameters.get("where")
    listed = selection.parameters.get("rules")
    rules = [parse_rule(str(rule)) for rule in listed] if isinstance(listed, list) else []
    first: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for _, broken in broken_rules(table, rules, where=None if where is None else str(where)):
        seen: set[int] = set()
        lines = zip(broken["row_index"].to_pylist(), broken["reason"].to_pylist(), strict=True)
        for row, reason in lines:
            every[reason] += 1
            if row not in seen:
                first[reason] += 1
                seen.add(row)
    return [
        (reason, first[reason], {"num_broken": count}) for reason, count in sorted(every.items())
    ]
