"""Ingest: a corpus of any format becomes rows of a lake table, each exactly once.

Robot data go into an episode set, by way of `datalake.pipelines.episodes`. Of speech:

    plan      rows and files of the corpus meet the table's rows      items.py, plan.py
    stage     workers read files and write rows that nobody sees      stage.py, *executor*.py
    publish   the driver commits groups of staged units               publish.py
    run       does these in turn, and stops when it must              run.py

The plan can be made at any time from the corpus and the table alone, so a run that was killed is
gone on with by running it again; `publish.py` says what a crash costs at each step.

Memory of the driver: 1 GB for DuckDB, and some hundred bytes a part. Of a worker: see `stage.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

from datalake.audio import Preset
from datalake.detection import connector as load_connector
from datalake.detection import recognise
from datalake.episodes import episode_sets
from datalake.errors import ExistsError, InputError
from datalake.lake import Lake, Lineage
from datalake.pipelines.choice import Undecided, chosen_executor
from datalake.pipelines.episodes import EpisodeReport, EpisodeRun, EpisodeSettings, VideoCodec
from datalake.pipelines.executors import Executor
from datalake.pipelines.report import RunReport
from datalake.pipelines.run import ProgressSink, Run
from datalake.pipelines.settings import ExecutorName, OnError, Settings
from datalake.recording import EpisodeCorpus, renamed
from datalake.uri import Location, locate

__all__ = ["Transcoding", "ingest"]

Transcoding: TypeAlias = Literal["flac16k", "h264", "hevc", "av1"]
"""What media may be stored as: `flac16k` for speech, the others for video."""


def ingest(
    lake: Lake,
    path: str | os.PathLike[str] | Location,
    name: str,
    *,
    connector: str | None = None,
    connector_options: Mapping[str, str] | None = None,
    format: str | None = None,  # noqa: A002 - the word everybody uses
    on_error: OnError = "quarantine",
    max_bad_fraction: float | None = None,
    transcode: Transcoding | None = None,
    min_duration_s: float = 0.0,
    max_duration_s: float = 3600.0,
    part_rows: int = 4096,
    without_video: bool = False,
    union: bool = False,
    rename: Mapping[str, str] | None = None,
    commit_every_s: float = 60.0,
    dry_run: bool = False,
    executor: Executor | Undecided | ExecutorName = "auto",
    num_workers: int | None = None,
    progress: ProgressSink | None = None,
) -> RunReport | EpisodeReport:
    """Bring a table up to date with a corpus of speech, or an episode set with robot data.

    New items (utterances or episodes) are appended, items of which anything changed are replaced,
    items that are gone are kept and reported. A run that was stopped, at any moment and by
    anything, is gone on with by calling it again.

    Args:
        lake: where the table or set is, or will be.
        path: the corpus.
        name: of the table or set.
        connector: the corpus's format; None asks all connectors and takes the one that is sure.
        connector_options: the connector's own options.
        format: `lance` (the default) or `delta`, for what is made by this run.
        on_error: what becomes of bad items: `quarantine` writes them to `<name>.quarantine`,
            `skip` only counts them, `raise` stops at the first.
        max_bad_fraction: stop if more items than this are bad. None is .01 for utterances and no
            bound for episodes, which are few.
        transcode: store speech as `flac16k`, or videos as `h264`, `hevc` or `av1`, instead of the
            original bytes.
        min_duration_s: shorter utterances are refused.
        max_duration_s: longer utterances are refused.
        part_rows: about how many utterances a part has when a corpus is first ingested.
        without_video: leave out robot features that are videos.
        union: let robot data with other features than the set's in; what one lacks is null.
        rename: new names of robot features, so that one set can hold robots of other shapes.
        commit_every_s: commit what is staged at least this often.
        dry_run: write nothing; report what would be done and the faults that are known so far.
        executor: `auto` (this process for little, Ray for much), `ray`, `local` (this process),
            or one that is set up.
        num_workers: how many tasks Ray runs at once; None for one a core.
        progress: is told how far the run is.

    Raises:
        InputError: an argument, the corpus or the table does not fit; or, with `raise`, a bad item.
        SchemaError: the set has other features than the corpus (says which).
        NotFoundError: there is no corpus or no such connector.
        ExistsError: something else has the name.
        StoppedError: too many items are bad; what was committed stays.
        StoreError: a store refused or did not answer; what was committed stays.
        ConflictError: other writers were faster; what was committed stays.
    """
    options = dict(connector_options or {})
    root = locate(path)
    read_by = connector or recognise(root).connector
    corpus = load_connector(read_by).open(root, options)
    config = {"path": str(root), "connector": read_by, "options": options}
    if isinstance(corpus, EpisodeCorpus):
        corpus = renamed(corpus, rename or {})
        config |= {"rename": dict(rename)} if rename else {}
        _refuse_foreign(
            "robot episodes",
            min_duration_s=min_duration_s != 0.0,
            max_duration_s=max_duration_s != 3600.0,
            part_rows=part_rows != 4096,
        )
        for_episodes = EpisodeSettings(
            on_error=on_error,
            max_bad_fraction=max_bad_fraction,
            # The settings say which of them are for episodes.
            transcode=cast("VideoCodec | None", transcode),
            without_video=without_video,
            union=union,
            commit_every_s=commit_every_s,
        )
        return EpisodeRun(
            lake,
            name,
            corpus,
            connector=read_by,
            format=format,
            settings=for_episodes,
            lineage=Lineage("ingest", {**config, **for_episodes.as_config()}),
            executor=chosen_executor(executor, num_workers, lake),
            progress=progress,
            dry_run=dry_run,
        ).run()
    _refuse_foreign("speech", without_video=without_video, union=union, rename=bool(rename))
    settings = Settings(
        on_error=on_error,
        max_bad_fraction=0.01 if max_bad_fraction is None else max_bad_fraction,
        transcode=cast("Preset | None", transcode),
        min_duration_s=min_duration_s,
        max_duration_s=max_duration_s,
        part_rows=part_rows,
        commit_every_s=commit_every_s,
    )
    if name in episode_sets(lake):
        raise ExistsError(
            f"The name {name!r} is taken",
            where=str(lake.location),
            found="an episode set of that name",
            fix="Choose another name",
        )
    return Run(
        lake,
        name,
        corpus,
        connector=read_by,
        format=format,
        settings=settings,
        lineage=Lineage("ingest", {**config, **settings.as_config()}),
        executor=chosen_executor(executor, num_workers, lake),
        progress=progress,
        dry_run=dry_run,
    ).run()


def _refuse_foreign(what: str, **given: bool) -> None:
    """Say which options that are given do not apply, rather than pass over them.

    Raises:
        InputError: there is one.
    """
    for option, is_given in given.items():
        if is_given:
            spelled = "--" + option.removesuffix("_s").replace("_", "-")
            raise InputError(
                f"An option does not apply to {what}",
                found=f"{option} ({spelled})",
                fix="Leave it out",
            )
