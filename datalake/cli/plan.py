"""`datalake plan`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from datalake.cli import console
from datalake.cli.amounts import read_bytes
from datalake.cli.sets import is_set, table_of
from datalake.errors import InputError
from datalake.lake import Lake
from datalake.loader.order.choice import OrderName
from datalake.loader.planning import Costs, Epoch, Plan, Setting
from datalake.loader.planning import plan as predict
from datalake.loader.sampling.spec import DEFAULT_WORKING_SET, WorkingSet
from datalake.loader.sources.source import BadRowsError, Source

__all__ = ["plan"]


def plan(
    session: console.Session,
    name: Annotated[
        str, typer.Argument(metavar="TABLE_OR_SET", help="A table or episode set of the lake.")
    ],
    selection: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only the rows, or episodes, of this selection."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples a rank and step.")] = 64,
    world_size: Annotated[int, typer.Option(min=1, help="Ranks.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines that the ranks are on.")] = 1,
    order: Annotated[OrderName, typer.Option(help="Of the examples.")] = "exact",
    working_set: Annotated[
        str | None,
        typer.Option(
            metavar="N|SHARE",
            help="Of the order blocks: blocks that it mixes, or (below 1) the share of the data"
            " that the cache holds.",
        ),
    ] = None,
    bandwidth_mb_s: Annotated[
        float, typer.Option("--bandwidth-mb-s", help="Of a node to the store.")
    ] = 500.0,
    latency_ms: Annotated[float, typer.Option(min=0, help="Of a request.")] = 20.0,
    cache: Annotated[
        str, typer.Option(metavar="BYTES", help="What the cache of a node may hold, as 200GB.")
    ] = "64GiB",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of a rank, that make batches; else all cores.")
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Of a node; else as here.")] = None,
    step_s: Annotated[
        float, typer.Option(min=0, help="What the trainer takes for a step, in seconds.")
    ] = 0.0,
    num_samples: Annotated[
        int, typer.Option(min=1, help="Of speech: the length of every clip.")
    ] = 64600,
    keys: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B,…", help="Of other tables: what is read."),
    ] = None,
    read_as: Annotated[
        Literal["auto", "speech", "rows"],
        typer.Option("--as", help="Decode speech, or read columns as they are."),
    ] = "auto",
    calibrate_s: Annotated[
        float, typer.Option(min=0, help="How long to measure; 0: not at all, see --cpu-us.")
    ] = 1.5,
    cpu_us: Annotated[
        float | None,
        typer.Option(min=0, help="CPU microseconds an example, instead of measuring them."),
    ] = None,
) -> None:
    """Predict a run before it is started. Speed, waits, bytes, requests, cache, shuffle.

    Some hundred examples are read to learn what one costs on this machine; the rest is calculated
    (docs/planning.md has the formulas, and how far they are to be trusted).
    """
    if working_set is not None and order != "blocks":
        raise InputError(
            f"The order {order} has no working set",
            where="--working-set",
            fix="Give --order blocks too, or leave --working-set out",
        )
    setting = Setting(
        batch_size=batch_size,
        world_size=world_size,
        nodes=nodes,
        bandwidth_mb_s=bandwidth_mb_s,
        latency_ms=latency_ms,
        cache_bytes=read_bytes("cache", cache),
        num_threads=threads,
        num_cores=cores,
        step_s=step_s,
    )
    costs = None
    if cpu_us is not None or calibrate_s == 0:
        if cpu_us is None:
            raise InputError("Nothing says what an example costs", fix="Give --cpu-us, or measure")
        costs = Costs(cpu_us / 1e6, 4.0 * num_samples)
    source = _source(session.open_lake(), name, selection, num_samples, keys, read_as)
    try:
        found = predict(
            source,
            setting,
            order=order,
            working_set=_working_set(working_set),
            costs=costs,
            calibrate_s=calibrate_s,
        )
    except BadRowsError as error:
        bad = error.bad[0]
        raise InputError(
            "A row that was to be measured makes no example",
            where=bad.where,
            found=f"{bad.reason}: {bad.detail}",
            fix="Give the costs (--cpu-us), or mend the table",
        ) from error
    if session.as_json:
        console.print_json(asdict(found))
    else:
        _print(found)


def _source(
    lake: Lake,
    name: str,
    selection: str | None,
    num_samples: int,
    keys: str | None,
    read_as: str,
) -> Source:
    from datalake.loader import EpisodeWindows, Rows, Utterances

    if is_set(lake, name):
        return EpisodeWindows.from_lake(lake, name, selection=selection)
    columns = table_of(lake, name).schema.names
    is_speech = {"audio", "label"} <= set(columns) and keys is None
    if read_as == "speech" or (read_as == "auto" and is_speech):
        return Utterances.from_lake(lake, name, selection=selection, num_samples=num_samples)
    wanted = None if keys is None else [key.strip() for key in keys.split(",")]
    return Rows.from_lake(lake, name, wanted, selection=selection)


def _working_set(text: str | None) -> WorkingSet:
    if text is None:
        return DEFAULT_WORKING_SET
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise InputError(
            "The working set is no number", expected="128, or a share as 0.25", found=text
        ) from error


def _print(found: Plan) -> None:
    console.print_table([{"": name, **_line(epoch)} for name, epoch in _epochs(found)])
    typer.echo()
    pairs: dict[str, object] = {
        "order": found.order,
        "examples": f"{found.num_examples:,}",
        "an example takes": f"{found.costs.cpu_s * 1e6:.0f} us of a core"
        + ("" if found.costs.num_examples else " (given)"),
        "first batch": f"{found.first_batch_s:.2f} s after opening",
        "cache needed": console.size(int(found.cache_bytes)),
        "cache for all": console.size(int(found.cache_bytes_all)),
        "memory a rank": f"at most about {console.size(int(found.memory_bytes))}",
    }
    for name, quality in found.quality.items():
        pairs[f"shuffle of {name}"] = (
            f"mix {quality.mix:.3f} ({quality.blocks_a_batch:.1f} blocks a batch, "
            f"{quality.blocks_uniform:.1f} if uniform), adjacent {quality.adjacent:.2f}"
        )
    console.print_pairs(pairs)
    for note in found.notes:
        typer.echo(f"\n{note}.")


def _epochs(found: Plan) -> Iterator[tuple[str, Epoch]]:
    yield "first epoch", found.first
    yield "later epochs", found.later


def _line(epoch: Epoch) -> dict[str, Any]:
    return {
        "examples/s": f"{epoch.examples_per_s:,.0f}",
        "a rank": f"{epoch.examples_per_s_rank:,.0f}",
        "limit": epoch.limit,
        "wait": f"{epoch.wait_share:.0%}",
        "time": f"{epoch.seconds:,.1f} s",
        "from the store": console.size(int(epoch.store_bytes)),
        "requests": f"{math.ceil(epoch.requests):,}",
        "cache hits": f"{epoch.hit_share:.1%}",
    }
