"""Why some rows of a table are in a selection, or out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curation.domains import Domain, keys_of
from curation.duplicates.stand_ins import reason_of_search, stand_ins
from curation.quality.drops import broken_rules, parse_rule
from curation.selection.explanation.earlier import earlier_of
from curation.selection.explanation.places import Standing, standings
from curation.selection.explanation.reasons import reason_beyond
from curation.selection.explanation.verdict import Verdict
from datalake import plugins
from datalake.errors import NotFoundError
from datalake.lake import Lake, Selection
from datalake.tables import Table
from datalake.tables.predicate import columns_of, parse

__all__ = ["explain"]

Judge = Callable[["_Asked"], None]


def explain(lake: Lake, selection: Selection, ids: Iterable[str]) -> list[Verdict]:
    """Say of each row why it is in a selection, or which step left it out, and by what numbers.

    What refused a row is found in the order `where`, `within`, then the method. Each takes a pass
    or two over the columns that it reads; memory grows with the selection and the ids, not with the
    table. Nothing is decoded, so of duplicates by samples, audio and movement the kept row that
    stands for one is not named.

    Args:
        lake: has the table, and the selection within which this one was made.
        selection: saved or not.
        ids: the rows' ids.

    Returns:
        In the order of the ids; several for an id that several rows have, by their index.

    Raises:
        NotFoundError: the table's version, the earlier selection or a plug-in is gone.
    """
    names = list(dict.fromkeys(ids))
    asked = _Asked(lake, selection, names)
    for judge in (_kept, _where, _within, _method):
        if asked.open:
            judge(asked)
    return [verdict for name in names for verdict in asked.verdicts_of(name)]


class _Asked:
    """The rows asked about, and what was found so far."""

    def __init__(self, lake: Lake, selection: Selection, names: Sequence[str]) -> None:
        self.lake = lake
        self.selection = selection
        self.table: Table = lake[selection.table].at(selection.table_version)
        keys = keys_of(self.table.schema)
        self.id_column = keys.id_column
        wanted = pa.array(names, pa.string())
        found = [pa.array([], pa.uint64())]
        self.ids: dict[int, str] = {}
        for batch in self.table.scan([keys.id_column], with_row_index=True):
            own = batch[keys.id_column].cast(pa.string())
            is_asked = pc.is_in(own, value_set=wanted)
            found.append(batch["row_index"].filter(is_asked))
            self.ids |= zip(found[-1].to_pylist(), own.filter(is_asked).to_pylist(), strict=True)
        taken = self.table.take(np.array(list(self.ids), np.int64), list(keys.columns))
        columns = [taken[column].cast(pa.string()).to_pylist() for column in keys.columns]
        self.domains: dict[int, Domain | None] = {
            row: keys.domain(*values) for row, *values in zip(self.ids, *columns, strict=True)
        }
        self.verdicts: dict[int, Verdict] = {}

    @property
    def open(self) -> list[int]:
        """Rows of which nothing is known yet."""
        return [row for row in self.ids if row not in self.verdicts]

    @property
    def where(self) -> str | None:
        where = self.selection.parameters.get("where")
        return None if where is None else str(where)

    def domain(self, row: int) -> str | None:
        found = self.domains[row]
        return found.name if found is not None else None

    def refuse(self, row: int, reason: str, text: str, **more: object) -> None:
        known: dict[str, object] = {"domain": self.domain(row), **more}
        self.verdicts[row] = Verdict(self.ids[row], row, False, reason, text, **known)  # type: ignore[arg-type]

    def verdicts_of(self, name: str) -> Iterator[Verdict]:
        rows = [row for row, own in self.ids.items() if own == name]
        if not rows:
            version = f"{self.selection.table}, version {self.selection.table_version}"
            is_later = _has(self.lake[self.selection.table], self.id_column, name)
            yield Verdict(
                name, None, False, "not_in_table",
                f"{version} has no row {name}" + (": it came in later" if is_later else ""),
                facts={"is_in_latest": is_later},
            )  # fmt: skip
        for row in sorted(rows):
            yield self.verdicts[row]


def _has(table: Table, id_column: str, name: str) -> bool:
    wanted = pa.array([name])
    return any(
        pc.any(pc.is_in(batch[id_column].cast(pa.string()), value_set=wanted)).as_py()
        for batch in table.scan([id_column])
    )


def _kept(asked: _Asked) -> None:
    selection = asked.selection
    manifest = {row["domain"]: row for row in selection.manifest.to_pylist()}
    rows = selection.rows
    chosen = rows.filter(pc.is_in(rows["row_index"], value_set=pa.array(asked.open, pa.uint64())))
    for row in chosen.to_pylist():
        domain = manifest[row["domain"]]
        kept, there = domain["num_kept"], domain["num_rows"]
        if selection.method.startswith("weigh:"):
            text = (
                f"all rows are kept; {there:,} of {row['domain']} share {domain['mass']:.2%} of "
                f"the draws"
            )
        elif kept == there:
            text = f"{row['domain']} is kept whole, {there:,} rows"
        else:
            text = (
                f"{row['rank']:,} rows come before it, and {kept:,} of {there:,} of "
                f"{row['domain']} are kept"
            )
        asked.verdicts[row["row_index"]] = Verdict(
            row["utt_id"], row["row_index"], True, "kept", text,
            domain=row["domain"], place=row["rank"], num_kept=kept, num_rows=there,
            weight=row["weight"],
        )  # fmt: skip


def _where(asked: _Asked) -> None:
    if asked.where is None:
        return
    wanted = pa.array(asked.open, pa.uint64())
    holds: set[int] = set()
    for batch in asked.table.scan([asked.id_column], where=asked.where, with_row_index=True):
        index = batch["row_index"]
        holds |= set(index.filter(pc.is_in(index, value_set=wanted)).to_pylist())
    refused = [row for row in asked.open if row not in holds]
    schema = asked.table.schema
    columns = sorted(columns_of(parse(asked.where, schema)))
    values = asked.table.take(np.array(refused, np.int64), columns).to_pylist() if refused else []
    for row, own in zip(refused, values, strict=True):
        shown = ", ".join(f"{name} = {_short(value)}" for name, value in own.items())
        asked.refuse(
            row, "where", f"`{asked.where}` does not hold: {shown}",
            facts={"where": asked.where, "values": {k: _short(v) for k, v in own.items()}},
        )  # fmt: skip


def _within(asked: _Asked) -> None:
    if "within_digest" not in asked.selection.parameters:
        return
    earlier = earlier_of(asked.lake, asked.selection)
    assert earlier is not None
    names = pa.array([asked.ids[row] for row in asked.open], pa.string())
    inside = pc.is_in(names, value_set=earlier.rows["utt_id"]).to_pylist()
    refused = [row for row, is_in in zip(asked.open, inside, strict=True) if not is_in]
    why = {verdict.utt_id: verdict for verdict in _explained(asked, earlier, refused)}
    for row in refused:
        because = why[asked.ids[row]]
        asked.refuse(
            row, "within", f"{earlier.name} does not have it: {because.text}",
            facts={"within": earlier.name}, within=because,
        )  # fmt: skip


def _explained(asked: _Asked, earlier: Selection, rows: Sequence[int]) -> list[Verdict]:
    return explain(asked.lake, earlier, [asked.ids[row] for row in rows]) if rows else []


def _method(asked: _Asked) -> None:
    method = asked.selection.method
    known: Mapping[str, Judge] = {"drop": _rules, "dedup": _duplicates, "split": _parts}
    if method in known:
        known[method](asked)
    elif method in plugins.names("datalake.selectors"):
        _order(asked)
    for row in asked.open:
        asked.refuse(row, "not_chosen", f"{method} did not choose it")


def _rules(asked: _Asked) -> None:
    listed = asked.selection.parameters.get("rules")
    rules = [parse_rule(str(rule)) for rule in listed] if isinstance(listed, list) else []
    among = pa.array(asked.open, pa.uint64())
    for _, broken in broken_rules(asked.table, rules, where=asked.where, among=among):
        for line in broken.to_pylist():
            row, facts = line["row_index"], _facts(line)
            text = f"{line['column']} has no value"
            if line["value"] is not None:
                side = "below" if "_low" in line["reason"] else "above"
                text = f"{line['column']} is {line['value']:g}, {side} {line['threshold']:g}"
            if row in asked.verdicts:  # another rule refused it as well
                first = asked.verdicts[row]
                also = [*first.facts.get("also", ()), {"reason": line["reason"], **facts}]  # type: ignore[misc]
                asked.verdicts[row] = replace(
                    first, text=f"{first.text}; {text}", facts={**first.facts, "also": also}
                )
            else:
                asked.refuse(row, line["reason"], text, facts=facts)


def _facts(line: Mapping[str, object]) -> dict[str, object]:
    return {name: line[name] for name in ("column", "value", "threshold")}


def _duplicates(asked: _Asked) -> None:
    parameters = asked.selection.parameters
    reason = reason_of_search(parameters)
    found = stand_ins(asked.table, parameters, asked.selection.rows["row_index"], asked.open)
    threshold = parameters.get("threshold")
    facts = {"threshold": threshold} if threshold is not None else {}
    is_column = str(parameters.get("by")) in asked.table.schema.names
    for row in asked.open:
        other = found.get(row)
        if other is not None:
            text = f"row {other.row_index} ({other.utt_id}) stands for it"
            text += f", similarity {other.similarity:.4f}" if threshold is not None else ""
            asked.refuse(
                row, reason, text,
                facts={
                    "kept_by": other.row_index, "kept_by_id": other.utt_id,
                    "similarity": other.similarity, **facts,
                },
            )  # fmt: skip
        elif is_column:
            asked.refuse(
                row, reason, "a dropped row is its duplicate, no kept one (semdedup)", facts=facts
            )
        else:
            text = "a kept row stands for it; `curate dedup --drops FILE` names it"
            asked.refuse(row, reason, text, facts=facts)


def _parts(asked: _Asked) -> None:
    parameters = asked.selection.parameters
    shares = parameters.get("shares")
    for part in shares if isinstance(shares, dict) else ():
        name = f"{parameters.get('split')}.{part}"
        if name == asked.selection.name or not asked.open:
            continue
        try:
            rows = asked.lake.selection(name).rows
        except NotFoundError:
            continue
        names = pa.array([asked.ids[row] for row in asked.open], pa.string())
        inside = pc.is_in(names, value_set=rows["utt_id"]).to_pylist()
        for row, is_in in zip(asked.open, inside, strict=True):
            if is_in:
                text = f"the split gave it to {name}"
                asked.refuse(row, "other_part", text, facts={"part": part, "selection": name})


def _order(asked: _Asked) -> None:
    domains = {row: domain for row in asked.open if (domain := asked.domains[row]) is not None}
    earlier = earlier_of(asked.lake, asked.selection)
    ids = None if earlier is None else earlier.rows["utt_id"]
    order = str(asked.selection.parameters.get("order", "hash"))
    for row, standing in standings(asked.table, asked.selection, domains, ids).items():
        domain = domains[row]
        reason, text = _beyond(asked.selection, domain, standing, order)
        asked.refuse(
            row, reason, text,
            place=standing.place, num_kept=standing.num_kept, num_rows=standing.num_rows,
            facts={"order": order},
        )  # fmt: skip


def _beyond(
    selection: Selection, domain: Domain, standing: Standing, order: str
) -> tuple[str, str]:
    reason = reason_beyond(
        selection.method, is_bonafide=domain.is_bonafide, num_kept=standing.num_kept
    )
    if reason == "domain_left_out":
        return reason, f"none of the {standing.num_rows:,} rows of {domain.name} is kept"
    pool = domain.name if standing.num_domains == 1 else f"{standing.num_domains:,} domains"
    before = "more" if standing.place is None else f"{standing.place:,}"
    text = (
        f"{before} rows come before it (order {order}), and {standing.num_kept:,} of "
        f"{standing.num_rows:,} of {pool} are kept"
    )
    if reason == "beyond_ratio":
        ratio, mode = (selection.parameters.get(name) for name in ("ratio", "real_mode"))
        text += f": ratio {ratio}, {mode}"
    return reason, text


def _short(value: object) -> object:
    """A value as JSON has it; what is long or binary is cut."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= 100 else text[:100] + "…"
