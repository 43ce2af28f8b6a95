"""`curate proxy`: learn how much each domain should weigh (DoReMi)."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from curation.cli.drops_file import check_drops_file, write_drops
from curation.selection import WeightOptions
from datalake.cli import console

__all__ = ["proxy"]

_SHOWN = 20


def proxy(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to train on.")],
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Write the losses of each step (.parquet or .csv)."),
    ],
    selection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Train on a selection of it only.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Train on rows for which this holds.")
    ] = None,
    detector: Annotated[
        str, typer.Option(metavar="NAME", help="What is trained, as of `curate probe`.")
    ] = "lfcc_lcnn",
    embedding: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With embedding_mlp: the column it reads."),
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps of the proxy; of the reference at most.")] = 600,
    batch_size: Annotated[
        int, typer.Option(help="Utterances a step, half of them bona fide.")
    ] = 64,
    learning_rate: Annotated[float, typer.Option(help="Of both.")] = 1e-3,
    step_size: Annotated[
        float, typer.Option(help="How fast weights follow the losses (eta).")
    ] = WeightOptions.step_size,
    smoothing: Annotated[
        float, typer.Option(help="The share of weight spread evenly at each step (c).")
    ] = WeightOptions.smoothing,
    seconds: Annotated[float, typer.Option(help="Seconds of an utterance that are heard.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Of the networks and the batches.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Train a reference and a proxy, and write what the proxy lost on each domain, step by step.

    Domains on which the proxy is behind the reference weigh more from step to step (DoReMi). Weigh
    rows by the mean: curate weigh TABLE --method doremi --losses FILE.
    """
    from curation import probe as judge

    check_drops_file(out, "losses")
    settings = judge.TrainingSettings(
        num_steps=steps, batch_size=batch_size, learning_rate=learning_rate, seed=seed
    )
    design = judge.load_design(detector)
    if embedding is not None:
        design = design.reading(embedding)
    lake = session.open_lake()
    chosen = None if selection is None else lake.selection(selection)
    source = lake[table] if chosen is None else lake[table].at(chosen.table_version)
    keys = judge.read_keys(source, where=where, selection=chosen)
    with ExitStack() as stack:
        progress = None if quiet else stack.enter_context(console.Progress("proxy"))

        def told(done: int, total: int) -> None:
            if progress is not None:
                progress.update(done, total=total)

        store = judge.FeatureStore(
            source, design, duration_s=seconds, device=device, on_progress=told
        )
        run = judge.train_proxy(
            store,
            keys,
            design,
            settings,
            step_size=step_size,
            smoothing=smoothing,
            on_step=lambda step, _: told(step, steps),
        )
    write_drops(run.losses, out, "losses")
    if session.as_json:
        console.print_json(
            {
                "table": table,
                "table_version": source.version,
                "num_rows": keys.num_rows,
                "num_steps": steps,
                "weights": dict(run.weights),
                "losses": str(out),
            }
        )
        return
    heaviest = sorted(run.weights.items(), key=lambda pair: (-pair[1], pair[0]))
    console.print_table(
        [{"domain": name, "weight": round(value, 4)} for name, value in heaviest[:_SHOWN]]
    )
    if len(heaviest) > _SHOWN:
        typer.echo(f"… and {len(heaviest) - _SHOWN:,} lighter domains")
    typer.echo()
    console.print_pairs(
        {
            "rows": keys.num_rows,
            "losses": str(out),
            "next": f"curate weigh {table} --method doremi --losses {out}",
        }
    )
