"""Packing: episodes, windows and rows of tables become sequences of one budget, one row each.

    read      lengths and costs of the sources' items                  sources.py
    plan      the order, the sequences, the report; no media is read   plan.py
    stage     workers read frames and write rows that nobody sees      stage.py
    publish   one commit fills the table                               target.py

A run that dies has published nothing: what it staged is removed by clean-up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa

from datalake.errors import InputError, NotFoundError, nearest
from datalake.lake import Lake, Lineage
from datalake.packing.rows import PACKED_COLUMNS, packed_schema
from datalake.pipelines.choice import Undecided, chosen_executor, decided
from datalake.pipelines.executors import Executor
from datalake.pipelines.packing.plan import Plan, make_plan, write_plan
from datalake.pipelines.packing.report import PackReport
from datalake.pipelines.packing.settings import PackSettings
from datalake.pipelines.packing.sources import Source, open_masks, read_source
from datalake.pipelines.packing.stage import PackedSource, PackJob, StagedSequences
from datalake.pipelines.packing.target import Target
from datalake.pipelines.run import ProgressSink
from datalake.pipelines.settings import ExecutorName
from datalake.pipelines.workspace import shared_folder
from datalake.recording import column_of, feature_of

__all__ = ["pack"]

# Position, segment and modality of a token.
_TOKEN_BYTES: Final = 9


def pack(
    lake: Lake,
    sources: str | Sequence[str],
    settings: PackSettings,
    *,
    into: str | None = None,
    version: int | None = None,
    executor: Executor | Undecided | ExecutorName = "auto",
    num_workers: int | None = None,
    progress: ProgressSink | None = None,
) -> PackReport:
    """Pack the items of episode sets and tables into sequences, and write these as a table.

    Args:
        lake: where they are, and where the table will be.
        sources: an episode set or table, or several.
        settings: how.
        into: the table's name. One that an earlier packing made, with the same columns, is filled
            anew as a new version. None writes nothing and only reports.
        version: of the source (of a single one); None for the latest.
        executor: `auto` (this process for little, Ray for much), `ray`, `local` (this process),
            or one that is set up.
        num_workers: how many tasks Ray runs at once; None for one a core.
        progress: is told how far the run is.

    Raises:
        InputError: an option does not fit, or an item is too long and shall raise.
        NotFoundError: a source, a version, a mask or a feature is not there.
        ExistsError: the name is taken, or the table has other columns.
        StoreError: a store refused or did not answer; nothing is published.
        ConflictError: another writer filled the table meanwhile; nothing is published.
    """
    names = [sources] if isinstance(sources, str) else list(sources)
    _check_sources(names, version)
    target = Target(lake, into) if into is not None else None
    workers = chosen_executor(executor, num_workers, lake) if target else None
    started = time.monotonic()
    masks = open_masks(lake, settings.masks, names)
    read = [read_source(lake, name, version, settings, masks.get(name)) for name in names]
    columns = _columns(read, settings)
    plan = make_plan(read, settings)
    plan.report.plan_s = time.monotonic() - started
    if target is None or workers is None:
        return plan.report
    inputs = {table: number for source in read for table, number in source.inputs.items()}
    lineage = Lineage("pack", {"sources": names, **settings.as_config()}, inputs)
    started = time.monotonic()
    ready = decided(workers, _num_bytes(plan, read, columns))
    _write(lake, plan, settings, columns, target, ready, lineage, progress)
    plan.report.work_s = time.monotonic() - started
    return plan.report


def _num_bytes(plan: Plan, sources: Sequence[Source], columns: tuple[pa.Field, ...]) -> int:
    """About how many bytes are read and written."""
    of_tokens = plan.report.num_sequences * plan.report.budget * _TOKEN_BYTES
    of_frames = [each.frames.num_bytes() for each in sources if each.frames is not None]
    return of_tokens + (sum(of_frames) if columns else 0)


def _check_sources(names: Sequence[str], version: int | None) -> None:
    if not names or len(set(names)) < len(names):
        raise InputError(
            "What is to be packed is not clear",
            expected="one or more episode sets or tables, each once",
            found=", ".join(names),
        )
    if version is not None and len(names) > 1:
        raise InputError("A version of several sources cannot be chosen", found=str(version))


def _columns(sources: Sequence[Source], settings: PackSettings) -> tuple[pa.Field, ...]:
    """The columns of frames that are put into rows.

    Raises:
        InputError: there are no frames, the name is one of a sequence's own, or sources disagree.
        NotFoundError: a source lacks the feature.
    """
    fields: dict[str, pa.Field] = {}
    for source in sources:
        for wanted in settings.columns:
            column = column_of(wanted)
            if source.frames is None:
                continue
            if column not in source.frames.schema.names:
                _refuse_column(source, wanted)
            field = source.frames.schema.field(column)
            if column in PACKED_COLUMNS or fields.setdefault(column, field) != field:
                raise InputError(
                    f"The feature {feature_of(column)} cannot be put into rows",
                    expected="one type in all sources, and a name that no column of sequences has",
                    found=f"{fields.get(column, field).type} and {field.type}",
                )
    if settings.columns and not fields:
        raise InputError("There are no frames whose values could be put into rows")
    return tuple(fields.values())


def _refuse_column(source: Source, wanted: str) -> None:
    assert source.frames is not None
    known = [feature_of(name) for name in source.frames.schema.names]
    is_video = any(f.name == wanted and f.dtype == "video" for f in source.features)
    raise NotFoundError(
        f"There is no column {wanted!r} among the frames",
        where=source.name,
        found="a video, whose pictures are in the videos table" if is_video else "",
        fix=nearest(wanted, known),
    )


def _write(
    lake: Lake,
    plan: Plan,
    settings: PackSettings,
    columns: tuple[pa.Field, ...],
    target: Target,
    workers: Executor,
    lineage: Lineage,
    progress: ProgressSink | None,
) -> None:
    schema = packed_schema(
        settings.budget,
        token_columns=settings.token_columns,
        modalities=settings.unit == "tokens",
        columns=columns,
    )
    with (
        workers,
        shared_folder(lake, lineage.run_id) as workspace,
        # Only now: where Ray cannot be started, no empty table is left behind.
        target.opened(schema, format=plan.sources[0].format, lineage=lineage) as table,
    ):
        units = workspace.join("units.arrow")
        sizes = write_plan(plan, units, num_workers=workers.num_workers, with_values=bool(columns))
        job = PackJob(
            units=units,
            stager=table.stager(),
            schema=schema,
            budget=settings.budget,
            sources=tuple(
                PackedSource(source.name, source.frames, source.layouts) for source in plan.sources
            ),
            columns=columns,
        )
        staged = _staged(workers, job, sizes, progress)
        pieces = [piece for unit in staged for piece in unit.pieces]
        filled = target.fill(table, pieces, lineage)
    plan.report.table = target.name
    plan.report.version = filled.version
    plan.report.run_id = lineage.run_id


def _staged(
    workers: Executor, job: PackJob, sizes: Sequence[int], progress: ProgressSink | None
) -> list[StagedSequences]:
    """What became of each unit, in order."""
    staged: list[StagedSequences] = []
    if not sizes:
        return staged
    num_done = 0
    with closing(workers.run(job, len(sizes))) as outcomes:
        for outcome in outcomes:
            staged.append(outcome)
            num_done += outcome.num_sequences
            if progress is not None:
                progress.update(num_done, total=sum(sizes))
    return sorted(staged, key=lambda unit: unit.index)
