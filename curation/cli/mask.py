"""`curate mask`: mark frames of episodes that training is not to see."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import numpy as np
import typer

from curation.quality.robot_masks import REASONS, make_mask
from datalake.cli import console
from datalake.cli.execution import QuietOption
from datalake.episodes import EpisodeSet, open_episodes
from datalake.episodes.masks import MASK_SUFFIX, Mask, save_mask
from datalake.lake import Lineage

__all__ = ["mask"]


def mask(
    session: console.Session,
    name: Annotated[str, typer.Argument(metavar="SET", help="The episode set to judge.")],
    reasons: Annotated[
        str, typer.Option(metavar="A,B,…", help=f"What to mask for: {', '.join(REASONS)}.")
    ] = "idle",
    trim_only: Annotated[
        bool,
        typer.Option(
            "--trim-only", help="Of idle frames mask only those at an episode's two ends."
        ),
    ] = False,
    spell_s: Annotated[
        float,
        typer.Option(
            "--spell-s", metavar="S", help="So long nothing moves before it is idle or frozen."
        ),
    ] = 0.5,
    saved_as: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help=f"Save the mask; a loader finds reasons in SET{MASK_SUFFIX}.",
        ),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Mark frames that training is not to see, and say why; no episode is rewritten.

    Without a name nothing is saved. A loader takes a saved mask by its name.
    """
    lake = session.open_lake()
    episodes = open_episodes(lake, name)
    wanted = [reason.strip() for reason in reasons.split(",") if reason.strip()]
    with ExitStack() as stack:
        progress = None
        if not quiet:
            progress = stack.enter_context(console.Progress("mask", unit="frames"))
        made = make_mask(
            episodes,
            wanted,
            trim_only=trim_only,
            spell_s=spell_s,
            progress=None if progress is None else lambda done, of: progress.update(done, total=of),
        )
    version = None
    if saved_as is not None:
        lineage = Lineage("mask", config=dict(made.parameters), inputs={name: episodes.version})
        version = save_mask(lake, saved_as, made, lineage)
    facts = _facts(made, episodes)
    if session.as_json:
        console.print_json(
            {**facts, "reasons": made.by_reason(), "mask": saved_as, "mask_version": version,
             "parameters": made.parameters, "digest": made.digest}
        )  # fmt: skip
        return
    console.print_table(made.by_reason())
    typer.echo()
    saved = f"{saved_as}, version {version}" if saved_as else "not saved (--as)"
    console.print_pairs({**facts, "mask": saved})


def _facts(made: Mask, episodes: EpisodeSet) -> dict[str, object]:
    """How much is masked of a set, each frame counted once."""
    index = episodes.index
    masked = made.on(episodes)
    owners, _, _ = masked.runs(index.starts[:-1], index.starts[1:])
    num_whole = len(index.lengths) - len(np.unique(owners))
    return {
        "set": made.set_name,
        "set_version": made.set_version,
        "num_episodes": len(index.lengths),
        # Nothing is left of these. Those without frames have nothing to lose.
        "num_episodes_masked_whole": num_whole - int((index.lengths == 0).sum()),
        "num_frames": int(index.starts[-1]),
        "num_frames_masked": made.num_frames,
        "share_masked": round(made.num_frames / max(1, int(index.starts[-1])), 6),
        # Windows stop at each of their ends.
        "num_runs_left": len(owners),
        "num_not_judged": made.parameters["num_not_judged"],
    }
