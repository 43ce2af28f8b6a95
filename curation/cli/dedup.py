"""`curate dedup`: leave out rows that say again what a kept row says."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_args

import pyarrow as pa
import typer

from curation.cli.drops_file import check_drops_file, write_drops
from curation.cli.selection import selection_facts
from curation.duplicates import (
    Duplicates,
    Rule,
    equal_rows,
    equal_samples,
    near_duplicates,
    near_episodes,
    num_conflicts,
    same_audio,
)
from curation.selection.passing import select_passing
from datalake.cli import console
from datalake.cli.execution import ExecutorOption, QuietOption, RayAddressOption, WorkersOption
from datalake.errors import InputError, nearest
from datalake.lake import Lineage
from datalake.pipelines.choice import decided, named_executor

__all__ = ["dedup"]

log = logging.getLogger("datalake")

_NEAR: Final = 0.97
_SAME: Final = 0.999
_MOVED: Final = 0.95
_DECODING: Final = ("samples", "audio", "movement")
_SHOWN: Final = ("recall", "still_duplicates", "num_sampled", "num_copies", "num_compared")


def dedup(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to search.")],
    by: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="bytes (of files), samples (decoded), audio (trimmed, at one level), movement (of "
            "episodes), or a column: of embeddings, else of values that are to stand once.",
        ),
    ] = "bytes",
    threshold: Annotated[
        float | None,
        typer.Option(
            help=f"Least cosine of embeddings ({_NEAR}), correlation of audio ({_SAME}), "
            f"similarity of movements ({_MOVED})."
        ),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(help="cover: each dropped row has a kept one; semdedup: not so (embeddings)."),
    ] = "cover",
    probes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Embeddings: cells in which a row is compared (3); SemDeDup's own way is 1.",
        ),
    ] = None,
    best_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Of duplicates keep the row of its largest value."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the order in which rows are visited.")] = 0,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Consider only rows for which this holds.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Save what is kept as a selection."),
    ] = None,
    drops: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write each drop with its reason (.parquet or .csv)."),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where vectors are laid out; on Ray all nodes reach it."),
    ] = None,
    executor: ExecutorOption = "auto",
    workers: WorkersOption = None,
    ray_address: RayAddressOption = None,
    quiet: QuietOption = False,
) -> None:
    """Drop duplicates, each with the kept row that stands for it, and keep the rest.

    The table stays as it is. Of duplicates the row is kept that comes first in the order of
    selections, or the best by a column.
    """
    check_drops_file(drops)
    if rule not in get_args(Rule):
        raise InputError(
            f"There is no rule {rule}",
            expected=" or ".join(get_args(Rule)),
            fix=nearest(rule, get_args(Rule)),
        )
    lake = session.open_lake()
    source = lake[table]
    is_exact = by in ("bytes", "samples") or (
        by in source.schema.names and not _is_vector(source.schema.field(by).type)
    )
    if is_exact and threshold is not None:
        raise InputError(f"--by {by} compares exactly: it takes no --threshold")
    if rule != "cover" and (is_exact or by in _DECODING):
        raise InputError(f"--by {by} takes no --rule {rule}", expected="embeddings for it")
    if probes is not None and (is_exact or by in _DECODING):
        raise InputError(f"--by {by} takes no --probes", expected="embeddings for it")
    with ExitStack() as stack:
        progress = None if quiet else stack.enter_context(console.Progress("dedup"))
        choice = named_executor(executor, workers, address=ray_address, debug=session.debug)
        # Products of vectors use all cores of this machine anyway; decoding does not.
        running = decided(choice, source.num_bytes() if by in _DECODING else 0)
        common: dict[str, Any] = {"best_by": best_by, "seed": seed, "where": where}
        heavy = {**common, "executor": running, "scratch": scratch, "progress": progress}
        if by == "bytes":
            found = equal_rows(source, **common)
        elif by == "samples":
            found = equal_samples(source, **heavy)
        elif by == "movement":
            limit = _MOVED if threshold is None else threshold
            found = near_episodes(lake, table, limit, **heavy)
        elif by == "audio":
            found = same_audio(source, _SAME if threshold is None else threshold, **heavy)
        elif is_exact:
            found = equal_rows(source, by, **common)
        else:
            limit = _NEAR if threshold is None else threshold
            cells: dict[str, Any] = {} if probes is None else {"num_probes": probes}
            found = near_duplicates(source, by, limit, rule=cast("Rule", rule), **cells, **heavy)
    conflicts = num_conflicts(source, found.drops) if "label" in source.schema.names else 0
    if conflicts:
        log.warning(
            "%s dropped rows have another label than the row that stands for them: one of the two "
            "is wrong (--drops FILE names both)",
            f"{conflicts:,}",
        )
    kept = select_passing(
        source,
        found.kept,
        table_name=table,
        name=name or "",
        method="dedup",
        parameters=found.parameters,
        where=where,
    )
    version = None
    if name is not None:
        version = lake.save_selection(
            kept, Lineage("dedup", config=dict(kept.parameters), inputs={table: source.version})
        )
    if drops is not None:
        write_drops(found.drops, drops)
    if session.as_json:
        console.print_json(
            {
                **selection_facts(kept, version),
                "num_considered": found.num_rows,
                "num_dropped": found.drops.num_rows,
                "num_uncovered": found.num_uncovered,
                "num_label_conflicts": conflicts,
                "left_out": dict(found.left_out),
            }
        )
        return
    _print(found, version, name, drops)


def _is_vector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _print(found: Duplicates, version: int | None, name: str | None, drops: Path | None) -> None:
    console.print_pairs(
        {
            "considered": found.num_rows,
            "dropped": found.drops.num_rows,
            "kept": found.kept.num_rows,
            **({"without a kept one": found.num_uncovered} if found.num_uncovered else {}),
            **{f"not judged, {why}": count for why, count in sorted(found.left_out.items())},
            **{
                key.removeprefix("num_").replace("_", " "): found.parameters[key]
                for key in _SHOWN
                if key in found.parameters
            },
            "selection": f"{name}, version {version}" if name else "not saved (--as)",
            **({"drops": str(drops)} if drops is not None else {}),
        }
    )
