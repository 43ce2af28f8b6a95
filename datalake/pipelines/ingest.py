"""Ingest: a corpus of any format becomes rows of a lake table, each exactly once.

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

from datalake.audio import Preset
from datalake.detection import connector as load_connector
from datalake.errors import InputError
from datalake.lake import Lake, Lineage
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.pipelines.recognition import recognise
from datalake.pipelines.report import RunReport
from datalake.pipelines.run import ProgressSink, Run
from datalake.pipelines.settings import ExecutorName, OnError, Settings
from datalake.recording import EpisodeCorpus
from datalake.uri import Location, locate

__all__ = ["ingest"]


def ingest(
    lake: Lake,
    path: str | os.PathLike[str] | Location,
    table: str,
    *,
    connector: str | None = None,
    connector_options: Mapping[str, str] | None = None,
    format: str | None = None,  # noqa: A002 - the word everybody uses
    on_error: OnError = "quarantine",
    max_bad_fraction: float = 0.01,
    transcode: Preset | None = None,
    min_duration_s: float = 0.0,
    max_duration_s: float = 3600.0,
    part_rows: int = 4096,
    commit_every_s: float = 60.0,
    dry_run: bool = False,
    executor: Executor | ExecutorName = "ray",
    num_workers: int | None = None,
    progress: ProgressSink | None = None,
) -> RunReport:
    """Bring a table up to date with a corpus.

    New items are appended, items whose bytes or protocol row changed are replaced, items that are
    gone are kept and reported. A run that was stopped, at any moment and by anything, is gone on
    with by calling it again.

    Args:
        lake: where the table is, or will be.
        path: the corpus.
        table: the table's name.
        connector: the corpus's format; None asks all connectors and takes the one that is sure.
        connector_options: the connector's own options.
        format: `lance` (the default) or `delta`, for a table that is made by this run.
        on_error: what becomes of bad items: `quarantine` writes them to `<table>.quarantine`,
            `skip` only counts them, `raise` stops at the first.
        max_bad_fraction: stop if more items than this are bad.
        transcode: store `flac16k` instead of the original bytes.
        min_duration_s: shorter files are refused.
        max_duration_s: longer files are refused.
        part_rows: about how many rows a part has when a corpus is first ingested.
        commit_every_s: commit what is staged at least this often.
        dry_run: write nothing; report what would be done and the faults that are known so far.
        executor: `ray`, `local` (in this process), or one that is set up.
        num_workers: how many tasks Ray runs at once; None for one a core.
        progress: is told how far the run is.

    Raises:
        InputError: an argument, the corpus or the table does not fit; or, with `raise`, a bad item.
        NotFoundError: there is no corpus or no such connector.
        StoppedError: too many items are bad; what was committed stays.
        StoreError: a store refused or did not answer; what was committed stays.
        ConflictError: other writers were faster every time; what was committed stays.
    """
    settings = Settings(
        on_error=on_error,
        max_bad_fraction=max_bad_fraction,
        transcode=transcode,
        min_duration_s=min_duration_s,
        max_duration_s=max_duration_s,
        part_rows=part_rows,
        commit_every_s=commit_every_s,
    )
    root = locate(path)
    name = connector or recognise(root).connector
    options = dict(connector_options or {})
    config = {"path": str(root), "connector": name, "options": options, **settings.as_config()}
    corpus = load_connector(name).open(root, options)
    if isinstance(corpus, EpisodeCorpus):
        raise InputError("Robot episodes are ingested otherwise", where=str(root))
    run = Run(
        lake,
        table,
        corpus,
        connector=name,
        format=format,
        settings=settings,
        lineage=Lineage("ingest", config),
        executor=_executor(executor, num_workers, lake),
        progress=progress,
        dry_run=dry_run,
    )
    return run.run()


def _executor(choice: Executor | ExecutorName, num_workers: int | None, lake: Lake) -> Executor:
    if choice == "local":
        return LocalExecutor()
    if lake.location.scheme == "memory":
        raise InputError(
            "Workers of Ray cannot reach a lake in memory",
            where=str(lake.location),
            fix="Use the executor local, or a lake on disk or in an object store",
        )
    if choice == "ray":
        from datalake.pipelines.ray_executor import RayExecutor

        return RayExecutor(num_workers=num_workers)
    if isinstance(choice, str):
        raise InputError("The executor is not known", expected="ray or local", found=repr(choice))
    return choice
