"""`datalake export`: an episode set in the format of other people's training code."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Literal

import typer

from datalake.cli import console
from datalake.episodes.export import ExportSettings, export_episodes

__all__ = ["export"]


def export(
    session: console.Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The episode set.")],
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="The folder or uri to write; made if need be.")
    ],
    exporter: Annotated[
        str,
        typer.Option("--as", metavar="FORMAT", help="lerobot_v30, lerobot_v21, or a plug-in's."),
    ] = "lerobot_v30",
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="Only episodes for which this holds."),
    ] = None,
    episode: Annotated[
        list[str] | None,
        typer.Option(
            "--episode",
            "--episodes",
            metavar="ID",
            help="Only this episode; may be repeated, or several with commas. They keep the order.",
        ),
    ] = None,
    split: Annotated[
        bool,
        typer.Option("--split", help="Write split by split, and say where each split is."),
    ] = False,
    transcode: Annotated[
        Literal["h264", "hevc", "av1"] | None,
        typer.Option(help="Encode the videos anew; left out, no frame is touched."),
    ] = None,
    join_videos: Annotated[
        bool,
        typer.Option(
            "--join-videos/--keep-video-files",
            help="Put the video files of single episodes together without encoding (lerobot_v30),"
            " or write each file byte for byte.",
        ),
    ] = True,
    version: Annotated[
        int | None, typer.Option(metavar="N", help="A version of the set; the latest if left out.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a dataset that is there.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Export an episode set as a LeRobot dataset.

    Other packages open the dataset and train from it. Numbers keep every bit, timestamps are in
    single precision as LeRobot has them, and videos are not encoded anew unless asked. What the
    format cannot hold is refused before anything is written; an export that is interrupted leaves
    no dataset.
    """
    settings = ExportSettings(
        transcode=transcode, by_split=split, join_videos=join_videos, overwrite=overwrite
    )
    ids = [each.strip() for given in episode or () for each in given.split(",")]
    with ExitStack() as stack:
        progress = (
            None if quiet else stack.enter_context(console.Progress("export", unit="episodes"))
        )
        report = export_episodes(
            session.open_lake(),
            name,
            destination,
            exporter=exporter,
            where=where,
            episode_ids=ids or None,
            version=version,
            settings=settings,
            progress=progress,
        )
    if session.as_json:
        console.print_json(report.as_dict())
    else:
        typer.echo(report)
