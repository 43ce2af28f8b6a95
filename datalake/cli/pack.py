"""`datalake pack`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Any, Final, Literal

import typer

from datalake.cli import console
from datalake.cli.execution import ExecutorOption, QuietOption, RayAddressOption, WorkersOption
from datalake.cli.pairs import read_pairs
from datalake.errors import InputError
from datalake.packing import CARRY, WINDOW, Characters, Exhausted, Method, Overlong, TokenCosts
from datalake.pipelines.choice import named_executor
from datalake.pipelines.packing import PackSettings, shard
from datalake.pipelines.packing import pack as make_sequences
from datalake.pipelines.packing.settings import Parts, Unit, WeightBy

__all__ = ["pack"]

_WHOLE: Final = ("state", "action", "other", "image", "patch", "video_frame")


def pack(
    session: console.Session,
    sources: Annotated[
        list[str], typer.Argument(metavar="SET...", help="Episode sets, or other tables.")
    ],
    into: Annotated[
        str | None, typer.Option(metavar="NAME", help="The table that is made or filled anew.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Tokens, or frames, of a sequence.")
    ] = None,
    unit: Annotated[Unit, typer.Option(help="What the budget counts.")] = "tokens",
    cost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TOKENS",
            help="What costs how many tokens: state, action, other, image, patch (pixels a side;"
            " a token a patch), text (characters a token), audio_s (a second), video_frame, or a"
            " camera by its feature's name. May be repeated.",
        ),
    ] = None,
    episodes_as: Annotated[
        Parts, typer.Option(help="Pack episodes whole, or every window of them.")
    ] = "episodes",
    history: Annotated[
        int, typer.Option(min=0, help="Frames of a window before the current one.")
    ] = 0,
    chunk: Annotated[
        int, typer.Option(min=1, help="Frames of a window from the current one on.")
    ] = 1,
    stride: Annotated[int, typer.Option(min=1, help="Frames from a window to the next.")] = 1,
    method: Annotated[Method, typer.Option(help="How items are placed.")] = "best_fit_decreasing",
    window: Annotated[
        int, typer.Option(min=0, help="Items that are placed together; 0 for all.")
    ] = WINDOW,
    carry: Annotated[
        int, typer.Option(min=0, help="Open sequences that go from a window to the next.")
    ] = CARRY,
    ranks: Annotated[
        int, typer.Option(min=1, help="Make the number of sequences (or shards) a multiple of it.")
    ] = 1,
    overlong: Annotated[
        Overlong, typer.Option(help="What becomes of items longer than a sequence.")
    ] = "raise",
    mask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Leave out the frames of this mask: what is left between them is an item. May be "
            "repeated.",
        ),
    ] = None,
    with_: Annotated[
        str | None,
        typer.Option("--with", metavar="A,B,…", help="Put the values of these features in."),
    ] = None,
    token_columns: Annotated[
        bool, typer.Option(help="Write position_ids, segment_ids and modality_ids.")
    ] = True,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SHARE", help="The share of a source in the tokens. May be repeated."
        ),
    ] = None,
    weight_by: Annotated[
        WeightBy, typer.Option(help="Whether weights name sources or modalities.")
    ] = "source",
    exhausted: Annotated[
        Exhausted, typer.Option(help="When a source has no items left at its turn.")
    ] = "stop",
    as_: Annotated[
        Literal["sequences", "shards"],
        typer.Option("--as", help="Sequences, or shards of steps in strides."),
    ] = "sequences",
    shard_steps: Annotated[int, typer.Option(min=1, help="Steps of a shard.")] = 1024,
    shard_episodes: Annotated[
        int, typer.Option(min=1, help="About how many episodes a shard draws on.")
    ] = 16,
    batch_size: Annotated[
        int,
        typer.Option(min=1, help="The size of the padded batches that packing is compared with."),
    ] = 32,
    version: Annotated[
        int | None, typer.Option(metavar="N", help="A version of the set; the latest if left out.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives another order.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; report what would be made.")
    ] = False,
    executor: ExecutorOption = "auto",
    workers: WorkersOption = None,
    ray_address: RayAddressOption = None,
    quiet: QuietOption = False,
) -> None:
    """Pack episodes into sequences of a budget, or shards.

    Episodes, windows of them or rows of other tables fill sequences of one budget, or steps are
    dealt to balanced shards. Nothing is read but lengths until the plan is made. Rows have
    cu_seqlens, position_ids, segment_ids and what each segment is of; padding is last.
    """
    if into is None and not dry_run:
        raise InputError(
            "The table to make has no name", fix="Name it with --into, or only look with --dry-run"
        )
    target = None if dry_run else into
    lake = session.open_lake()
    if as_ == "shards":
        if mask:
            raise InputError("Shards take no mask", fix="Pack sequences, or leave out --mask")
        report: Any = shard(
            lake,
            _only(sources),
            into=target,
            version=version,
            shard_steps=shard_steps,
            episodes_per_shard=shard_episodes,
            history=history,
            chunk=chunk,
            num_ranks=ranks,
            seed=seed,
        )
    else:
        settings = PackSettings(
            budget=_given(budget),
            unit=unit,
            costs=_costs(cost or ()),
            parts=episodes_as,
            history=history,
            chunk=chunk,
            stride=stride,
            method=method,
            window=window or None,
            carry=carry,
            num_ranks=ranks,
            overlong=overlong,
            seed=seed,
            masks=tuple(mask or ()),
            columns=tuple(name.strip() for name in with_.split(",")) if with_ else (),
            token_columns=token_columns,
            weights=_weights(weight or ()),
            weight_by=weight_by,
            exhausted=exhausted,
            batch_size=batch_size,
        )
        with ExitStack() as stack:
            bar = console.Progress("pack", unit="sequences")
            report = make_sequences(
                lake,
                sources,
                settings,
                into=target,
                version=version,
                executor=named_executor(
                    executor, workers, address=ray_address, debug=session.debug
                ),
                progress=None if quiet else stack.enter_context(bar),
            )
    if session.as_json:
        console.print_json(report.as_dict())
    else:
        typer.echo(report)


def _only(sources: Sequence[str]) -> str:
    if len(sources) > 1:
        raise InputError("Shards are of one episode set", found=", ".join(sources))
    return sources[0]


def _given(budget: int | None) -> int:
    if budget is None:
        raise InputError("A sequence has no budget", fix="Give one, such as --budget 4096")
    return budget


def _costs(pairs: Sequence[str]) -> TokenCosts:
    values: dict[str, Any] = {}
    cameras: dict[str, int] = {}
    for name, text in read_pairs("A cost", pairs, expected="NAME=TOKENS").items():
        if name in {"text", "audio_s"}:
            number = _number(name, text)
            if name == "text" and not number > 0:
                raise InputError("The cost text is out of range", expected="above 0", found=text)
            values[name] = Characters(number) if name == "text" else number
        elif name in _WHOLE:
            values[name] = _whole(name, text)
        else:
            cameras[name] = _whole(name, text)
    return TokenCosts(**values, cameras=cameras)


def _weights(pairs: Sequence[str]) -> dict[str, float]:
    return {
        name: _number(name, text)
        for name, text in read_pairs("A weight", pairs, expected="NAME=SHARE").items()
    }


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"The value of {name} is no number", found=text) from error


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"The value of {name} is no whole number", found=text) from error
