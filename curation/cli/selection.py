"""How the commands show a selection."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa
import typer

from curation.manifest import ratio_reached, remarks, totals
from datalake.cli import console
from datalake.lake import Selection

__all__ = ["DOMAINS_SHOWN", "print_selection", "selection_facts"]

DOMAINS_SHOWN: Final = 20


def selection_facts(selection: Selection, version: int | None) -> dict[str, object]:
    """What `--json` says of a selection, saved as `version` or not at all."""
    return {
        "name": selection.name or None,
        "version": version,
        "table": selection.table,
        "table_version": selection.table_version,
        "method": selection.method,
        "parameters": selection.parameters,
        "num_rows": len(selection),
        "ratio_reached": ratio_reached(selection.manifest),
        "remarks": remarks(selection.manifest, selection.parameters),
        "totals": {label: asdict(sums) for label, sums in totals(selection.manifest).items()},
        "manifest": selection.manifest,
    }


def print_selection(selection: Selection, version: int | None, num_shown: int | None) -> None:
    """Show a selection to a person: its largest domains, sums, and how it was made."""
    shown = selection.manifest.slice(0, num_shown)
    console.print_table(_lines(shown))
    if hidden := selection.manifest.num_rows - shown.num_rows:
        typer.echo(f"… and {hidden:,} smaller domains (--all shows them)")
    typer.echo()
    console.print_table(
        [
            {
                "label": label,
                "domains": sums.num_domains,
                "rows": sums.num_rows,
                "kept": sums.num_kept,
                "share": _rounded(sums.mass),
                "hours": _rounded(sums.hours),
                "hours kept": _rounded(sums.hours_kept),
                "effective domains": round(sums.num_effective_domains, 2),
                "after": round(sums.num_effective_domains_kept, 2),
            }
            for label, sums in totals(selection.manifest).items()
        ]
    )
    typer.echo()
    console.print_pairs(
        {
            "selection": f"{selection.name}, version {version}" if version else "not saved (--as)",
            "table": f"{selection.table}, version {selection.table_version}",
            "method": selection.method,
            **{key: value for key, value in selection.parameters.items() if value is not None},
            "ratio reached": _rounded(ratio_reached(selection.manifest)),
        }
    )


def _lines(manifest: pa.Table) -> list[dict[str, Any]]:
    has_value = manifest["order_value"].null_count < manifest.num_rows
    return [
        {
            "domain": row["domain"],
            **({"label": row["label"]} if row["label"] else {}),
            "rows": row["num_rows"],
            "kept": row["num_kept"],
            "hours": _rounded(row["hours"]),
            "hours kept": _rounded(row["hours_kept"]),
            "retention": _rounded(row["retention"]),
            "share": _rounded(row["mass"]),
            "binds": row["binds"],
            **({"order value": _rounded(row["order_value"])} if has_value else {}),
        }
        for row in manifest.to_pylist()
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
