"""`curate split`: disjoint training, validation and test selections."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from curation.audit.split import split_rows
from curation.selection.passing import select_passing
from datalake.cli import console
from datalake.errors import InputError
from datalake.lake import Lineage

__all__ = ["split"]

log = logging.getLogger("datalake")


def split(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to part.")],
    by: Annotated[
        str,
        typer.Option(metavar="COLUMNS", help="Keys that no two parts share, commas between."),
    ],
    name: Annotated[
        str,
        typer.Option("--as", metavar="NAME", help="Save as NAME.train, NAME.test and so on."),
    ],
    test: Annotated[float, typer.Option(help="The share of rows that test.")] = 0.2,
    validation: Annotated[float, typer.Option(help="The share of rows that validate.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the order in which groups are dealt.")] = 0,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Part only rows for which this holds.")
    ] = None,
    extend: Annotated[
        bool,
        typer.Option("--extend", help="Keep each row where an earlier split NAME has it."),
    ] = False,
) -> None:
    """Part a table so that no speaker, generator or source (--by) stands in two parts.

    Rows that share a key stay together, so shares are reached as nearly as the groups allow. The
    parts are selections: train on NAME.train, test on NAME.test.
    """
    lake = session.open_lake()
    source = lake[table]
    if not (test > 0 and validation >= 0 and test + validation < 1):
        raise InputError(
            "The shares of a split are out of range",
            expected="a test above 0, a validation of 0 or more, together less than 1",
            found=f"--test {test} --validation {validation}",
        )
    shares = {"train": 1 - test - validation, "validation": validation, "test": test}
    shares = {part: share for part, share in shares.items() if share > 0}
    keys = [key.strip() for key in by.split(",") if key.strip()]
    inputs = {table: source.version}
    previous = {}
    if extend:
        for part in shares:
            kept = lake.selection(f"{name}.{part}")
            if kept.parameters.get("by") != keys or kept.table != table:
                raise InputError(
                    f"The split {name} cannot be extended",
                    expected=f"one of {table} by {', '.join(keys)}",
                    found=f"one of {kept.table} by {kept.parameters.get('by')}",
                )
            previous[part] = kept.rows["utt_id"].combine_chunks()
            inputs[kept.name] = lake.selection_table(kept.name).version
    made = split_rows(source, by=keys, shares=shares, seed=seed, where=where, previous=previous)
    for remark in made.remarks:
        log.warning(remark)
    facts = []
    for part, rows in made.parts.items():
        selection = select_passing(
            source,
            rows,
            table_name=table,
            name=f"{name}.{part}",
            method="split",
            parameters={
                "split": name, "part": part, "by": keys, "shares": shares, "seed": seed,
                "where": where,
            },
            where=where,
        )  # fmt: skip
        version = lake.save_selection(
            selection, Lineage("split", config=dict(selection.parameters), inputs=inputs)
        )
        label = selection.manifest.group_by("label").aggregate([("num_kept", "sum")]).to_pylist()
        facts.append(
            {
                "selection": selection.name,
                "version": version,
                "rows": len(selection),
                "share": round(len(selection) / sum(p.num_rows for p in made.parts.values()), 4),
                **{str(each["label"]): each["num_kept_sum"] for each in label},
            }
        )
    if session.as_json:
        console.print_json(
            {
                "table": table,
                "table_version": source.version,
                "by": keys,
                "num_groups": made.num_components,
                "parts": facts,
                "remarks": list(made.remarks),
            }
        )
    else:
        console.print_table(facts)
        typer.echo()
        console.print_pairs(
            {"groups that share no key": made.num_components, "by": ", ".join(keys)}
        )
