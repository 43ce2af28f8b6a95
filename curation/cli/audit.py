"""`curate audit`: what gives the classes away, and what leaks from training to test."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from datalake.cli import console
from datalake.errors import InputError
from datalake.lake import Lake, Selection
from datalake.tables.failures import translated
from datalake.uri import Location

if TYPE_CHECKING:
    from curation.audit.leakage import Leak, LeakageAudit
    from curation.audit.shortcuts import FeatureResult, ShortcutAudit

__all__ = ["app"]

_LEAKS_SHOWN: Final = 30

app = console.new_app("Find what gives classes away, and what training and test share.")


@app.callback()
def _audit() -> None:
    """Find what gives classes away, and what training and test share."""


@console.command(app)
def shortcuts(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to audit.")],
    selection: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Audit a selection of it too, with its weights."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Columns to audit, commas between; not the usual."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Audit only rows for which this holds.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Warn of features whose EER alone is under this.")
    ] = 0.3,
    max_rows: Annotated[
        int, typer.Option(min=100, help="Rows to look at; of a larger table a sample.")
    ] = 500_000,
    resamples: Annotated[
        int, typer.Option(min=1, help="Bootstrap replicates of an interval.")
    ] = 500,
    seed: Annotated[int, typer.Option(help="Seed of sample, folds and bootstrap.")] = 0,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show scopes with too few rows to judge, too.")
    ] = False,
) -> None:
    """Say how well each trivial feature ALONE tells bona fide from spoof, as an equal error rate.

    Silence, level, duration, bandwidth, codec: one half is chance, and under .3 a detector will
    learn the feature before it learns to listen. Pooled, and within each source of both classes.
    The measures must be columns: see `curate measure`.
    """
    from curation.audit.shortcuts import audit_shortcuts

    lake = session.open_lake()
    source = lake[table]
    chosen = _selection_of(lake, selection, table)

    def audit(rows: Selection | None) -> ShortcutAudit:
        return audit_shortcuts(
            source,
            features=[name.strip() for name in features.split(",")] if features else None,
            selection=rows,
            where=where,
            threshold=threshold,
            max_rows=max_rows,
            num_resamples=resamples,
            seed=seed,
        )

    audits = {table: audit(None)}
    if chosen is not None and selection is not None:
        audits[selection] = audit(chosen)
    if session.as_json:
        console.print_json(
            {
                "table": table,
                "table_version": source.version,
                "threshold": threshold,
                "audits": {
                    name: {**asdict(found), "num_warnings": len(found.warnings)}
                    for name, found in audits.items()
                },
            }
        )
        return
    for name, found in audits.items():
        sample = "" if found.num_audited == found.num_rows else f", {found.num_audited:,} looked at"
        left_out = f", {found.num_left_out:,} left out" if found.num_left_out else ""
        typer.echo(f"{name}: {found.num_rows:,} rows{sample}{left_out}")
        shown = [each for each in found.results if show_all or each.eer is not None]
        console.print_table([_feature_line(each) for each in shown], columns=_FEATURE_COLUMNS)
        typer.echo()
    for name, found in audits.items():
        for each in found.warnings:
            typer.echo(f"WARNING: {_warning(name, each)}", err=True)


_FEATURE_COLUMNS: Final = (
    "scope", "feature", "EER", "95 % interval", "bona fide", "spoof", "typical of bona fide",
    "of spoof", "warns",
)  # fmt: skip


def _feature_line(result: FeatureResult) -> dict[str, object]:
    judged = result.eer is not None
    return {
        "scope": result.scope,
        "feature": result.feature,
        "EER": f"{result.eer:.3f}" if judged else "too few rows",
        "95 % interval": f"{result.eer_low:.3f} – {result.eer_high:.3f}" if judged else "",
        "bona fide": result.num_bonafide,
        "spoof": result.num_spoof,
        "typical of bona fide": result.bonafide_typical,
        "of spoof": result.spoof_typical,
        "warns": result.warns,
    }


def _warning(name: str, result: FeatureResult) -> str:
    domains = "; ".join(
        each.domain
        + (
            f" (without it {each.eer_without:.3f})"
            if each.eer_without is not None
            else f" (alone {each.eer:.3f})"
        )
        for each in result.domains
    )
    return (
        f"{name}, {result.scope}: {result.feature} alone reaches an EER of {result.eer:.3f}"
        + (f". At fault: {domains}" if domains else "")
        + "."
    )


@console.command(app)
def leakage(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to audit.")],
    train: Annotated[
        str | None, typer.Option(metavar="NAME", help="The selection that trains.")
    ] = None,
    test: Annotated[
        str | None, typer.Option(metavar="NAME", help="The selection, or table, that tests.")
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="COLUMN", help="Without --train and --test: what parts rows.")
    ] = "source",
    bases: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Columns source,base: which corpora sources came from."),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of transcripts.")
    ] = None,
    embedding: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Compare these embeddings too (`curate embed`)."),
    ] = None,
    cosine: Annotated[
        float, typer.Option(min=0, max=1, help="With --embedding: from which cosine on.")
    ] = 0.95,
    fail: Annotated[
        bool, typer.Option("--fail", help="Exit 1 if utterances themselves are shared.")
    ] = False,
) -> None:
    """Find speakers, texts, recordings and base corpora that sources, or train and test, share.

    Recordings are compared by fingerprints (`curate measure --with fingerprint`), so that copies in
    another codec, and speech that a vocoder made anew from the same recording, are found.
    """
    from curation.audit.leakage import Side, audit_leakage

    lake = session.open_lake()
    if (train is None) != (test is None):
        raise InputError("Training and test are audited together", expected="--train and --test")
    sides = None
    if train is not None and test is not None:
        sides = []
        for name in (train, test):
            if name in lake:
                sides.append(Side(name, lake[name]))
            else:
                chosen = lake.selection(name)
                sides.append(Side(name, lake[chosen.table], chosen))
    found = audit_leakage(
        lake[table] if sides is None else sides,
        by=by,
        bases=_bases(bases),
        text=text,
        embedding=embedding,
        least_cosine=cosine,
    )
    if session.as_json:
        console.print_json(asdict(found))
    else:
        _print_leakage(found)
    if fail and any(leak.is_utterance for leak in found.leaks):
        raise typer.Exit(1)


def _print_leakage(found: LeakageAudit) -> None:
    console.print_table(
        [_leak_line(leak) for leak in found.leaks[:_LEAKS_SHOWN]],
        columns=("kind", "left", "right", "shared", "left rows", "right rows", "such as"),
    )
    if (hidden := len(found.leaks) - _LEAKS_SHOWN) > 0:
        typer.echo(f"… and {hidden:,} more (--json has all)")
    typer.echo()
    console.print_pairs({f"rows of {side}": count for side, count in found.sides.items()})
    for kind, why in found.not_checked.items():
        typer.echo(f"note: {kind} not checked in full: {why}", err=True)


def _leak_line(leak: Leak) -> dict[str, object]:
    return {
        "kind": leak.kind,
        "left": leak.left,
        "right": leak.right,
        "shared": leak.num_values,
        "left rows": leak.num_left_rows,
        "right rows": leak.num_right_rows,
        "such as": leak.examples[0],
    }


def _selection_of(lake: Lake, name: str | None, table: str) -> Selection | None:
    if name is None:
        return None
    chosen = lake.selection(name)
    if chosen.table != table:
        raise InputError(
            f"The selection {name!r} was made from another table",
            expected=f"a selection of {table}",
            found=f"one of {chosen.table}",
        )
    return chosen


def _bases(path: Path | None) -> Mapping[str, list[str]]:
    if path is None:
        return {}
    found: dict[str, list[str]] = {}
    with (
        translated(Location(str(path)), "Reading the base corpora"),
        path.open(encoding="utf-8", newline="") as file,
    ):
        rows = csv.DictReader(file)
        if not {"source", "base"} <= set(rows.fieldnames or ()):
            raise InputError(
                "The base corpora cannot be read", where=str(path),
                expected="a CSV file with the columns source and base",
                found=", ".join(rows.fieldnames or ()) or "no columns",
            )  # fmt: skip
        for row in rows:
            found.setdefault(row["source"], []).append(row["base"])
    return found
