"""One run of the ingest of episodes, from the plan to the report."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Final

import pyarrow as pa

from datalake.episodes import (
    EpisodeSet,
    create_episodes,
    episode_sets,
    frames_schema,
    open_episodes,
)
from datalake.episodes.validation import Checks
from datalake.errors import InputError, StoppedError
from datalake.lake import Lake, Lineage
from datalake.pipelines.columns import widen
from datalake.pipelines.episodes.features import Fit, fit
from datalake.pipelines.episodes.payloads import write_payloads
from datalake.pipelines.episodes.plan import EpisodePlan, make_plan
from datalake.pipelines.episodes.publish import EpisodePublisher
from datalake.pipelines.episodes.quarantine import EpisodeQuarantine
from datalake.pipelines.episodes.refused import RefusedEpisode, refused
from datalake.pipelines.episodes.report import EpisodeReport
from datalake.pipelines.episodes.rows import Source
from datalake.pipelines.episodes.settings import EpisodeSettings
from datalake.pipelines.episodes.stage import EpisodeJob, Unit
from datalake.pipelines.episodes.units import cut
from datalake.pipelines.episodes.videos import VideoJob
from datalake.pipelines.executors import Executor
from datalake.pipelines.patience import is_hopeless
from datalake.pipelines.run import ProgressSink
from datalake.pipelines.workspace import shared_folder
from datalake.quarantine import QUARANTINE_SUFFIX, Refusal
from datalake.recording import EpisodeCorpus, EpisodeRef
from datalake.tables import Table
from datalake.uri import Location

__all__ = ["EpisodeRun"]

_MIB: Final = 1 << 20


class EpisodeRun:
    """Brings one episode set up to date with one corpus. `run` may be called once."""

    def __init__(
        self,
        lake: Lake,
        set_name: str,
        corpus: EpisodeCorpus,
        *,
        connector: str,
        format: str | None,  # noqa: A002 - the word everybody uses
        settings: EpisodeSettings,
        lineage: Lineage,
        executor: Executor,
        progress: ProgressSink | None,
        dry_run: bool,
    ) -> None:
        self._lake = lake
        self._name = set_name
        self._corpus = corpus
        self._format = format
        self._settings = settings
        self._lineage = lineage
        self._executor = executor
        self._progress = progress
        self._report = EpisodeReport(
            run_id=lineage.run_id,
            episode_set=set_name,
            corpus=corpus.source,
            connector=connector,
            root=str(corpus.root),
            dry_run=dry_run,
            on_error=settings.on_error,
        )
        self._quarantine = EpisodeQuarantine(
            lake, set_name, corpus.source, format=format or "lance", lineage=lineage
        )
        self._bad_videos: dict[str, Refusal] = {}
        self._num_seen = self._num_bad = 0

    def run(self) -> EpisodeReport:
        """Plan, stage and publish.

        Raises:
            LakeError: see `ingest`.
        """
        report = self._report
        held = self._find_set()
        if held is not None:
            report.version_before = report.version_after = held.version
        with self._timed("plan_s"):
            plan = make_plan(self._corpus, held, self._settings)
            fitted = fit(
                held.features if held and held.episodes.count_rows() else None,
                plan.features,
                union=self._settings.union,
                is_known=plan.num_held > 0,
                where=self._name,
            )
        report.begin(plan)
        report.added_features = tuple(feature.name for feature in fitted.added)
        report.unfilled_features = fitted.unfilled
        self._judge(plan)
        if not report.dry_run:
            self._work(plan, fitted, held)
        report.num_in_quarantine = self._quarantine.num_episodes()
        return report

    def _find_set(self) -> EpisodeSet | None:
        """The set as it is now, if it is there.

        Raises:
            InputError: it is there in another format than the one asked for, or no set may have
                its name.
            ExistsError: a table or a selection has its name.
        """
        if self._name.endswith(QUARANTINE_SUFFIX):
            raise InputError(
                "The name is kept for refused episodes",
                found=self._name,
                fix="Choose another name",
            )
        if self._name not in episode_sets(self._lake):
            self._lake.check_free(self._name)
            return None
        held = open_episodes(self._lake, self._name)
        kept_as = held.episodes.format
        if kept_as not in (self._format or kept_as, "memory"):
            raise InputError(
                f"The episode set {self._name} has another format",
                where=held.episodes.uri,
                expected=str(self._format),
                found=kept_as,
                fix="Leave --format out, or choose another name",
            )
        self._format = kept_as if kept_as != "memory" else self._format
        return held

    # Bad episodes -------------------------------------------------------------------------------

    def _judge(self, plan: EpisodePlan) -> None:
        """Stop before anything is written if what is known already is too bad.

        Raises:
            InputError: there is a bad episode and bad episodes shall raise.
            StoppedError: there are too many bad episodes.
        """
        if not plan.refused:
            return
        if self._settings.on_error == "raise":
            raise self._bad_episode(plan.refused[0])
        self._num_bad = self._num_seen = len(plan.refused)
        if self._is_hopeless(plan):
            counted = Counter(str(episode.reason) for episode in plan.refused).most_common()
            reasons = ", ".join(f"{num:,} {reason}" for reason, num in counted)
            raise self._stopped(
                plan.num_pending,
                f" before any was read ({reasons}), such as {plan.refused[0]}; nothing was written",
            )

    def _is_hopeless(self, plan: EpisodePlan) -> bool:
        limit = self._settings.max_bad_fraction
        if limit is None:
            return False
        return is_hopeless(self._num_bad, self._num_seen, plan.num_pending, limit)

    def _bad_episode(self, episode: RefusedEpisode) -> InputError:
        first = episode.findings[0]
        where = f"{self._corpus.root}: {first.origin or episode.episode_id}"
        return InputError(
            f"An episode cannot be ingested [{first.reason}]",
            where=where,
            found=str(episode),
            fix="Mend it and run the same command again, or use --on-error quarantine",
        )

    def _stopped(self, num_episodes: int, kept: str) -> StoppedError:
        # Rounded up, so that going on with the fraction that is named does go on.
        fraction = math.ceil(1000 * self._num_bad / max(1, num_episodes)) / 1000
        see = ""
        if self._settings.on_error == "quarantine":
            see = f"See why with: datalake quarantine {self._name}, or datalake check. "
        return StoppedError(
            "The ingest stopped, as too many episodes are bad",
            where=str(self._corpus.root),
            expected=f"at most a fraction of {self._settings.max_bad_fraction:g}",
            found=f"{self._num_bad:,} of {num_episodes:,} episodes{kept}",
            fix=f"{see}Mend the files and run the same command again, which goes on where it"
            f" stopped; or go on as it is with --max-bad-fraction {fraction:g}"
            + (" or more" if fraction < 1 else ""),
        )

    # Work ---------------------------------------------------------------------------------------

    def _work(self, plan: EpisodePlan, fitted: Fit, held: EpisodeSet | None) -> None:
        with shared_folder(self._lake, self._lineage.run_id) as workspace, ExitStack() as stack:
            if plan.to_do:
                # Before anything is made: where Ray cannot be started, no empty set is left.
                with self._timed("startup_s"):
                    stack.enter_context(self._executor)
            with self._timed("work_s"):
                publisher = self._prepare(plan, fitted, held)
                publisher.refuse(plan.refused)
                self._stage_videos(plan, publisher, workspace)
                self._stage_episodes(plan, publisher, workspace)
                publisher.finish(self._corpus.source, frozenset(plan.stored_ids.values()))

    def _prepare(self, plan: EpisodePlan, fitted: Fit, held: EpisodeSet | None) -> EpisodePublisher:
        """A publisher for the set, made or widened so that it can hold this corpus."""
        if held is None:
            episode_set = create_episodes(
                self._lake,
                self._name,
                fitted.features,
                format=self._format or "lance",
                lineage=self._lineage,
            )
        else:
            episode_set = held.to_write()
            if fitted.features != held.features:
                episode_set = episode_set.publish(
                    [],
                    frames=self._fitting(episode_set, fitted),
                    features=fitted.features,
                    lineage=self._lineage,
                )
        self._report.version_after = episode_set.version
        return EpisodePublisher(
            episode_set,
            replaced=frozenset(plan.replaced),
            quarantine=self._quarantine if self._settings.on_error == "quarantine" else None,
            commit_every_s=self._settings.commit_every_s,
            lineage=self._lineage,
            report=self._report,
        )

    def _fitting(self, episode_set: EpisodeSet, fitted: Fit) -> Table:
        """The frames of the set with the columns of all features that it shall have."""
        properties = self._lineage.properties()
        if not episode_set.index.starts[-1]:
            # Nothing was taken so far: the set may become another.
            rows = frames_schema(fitted.features).empty_table()
            return episode_set.frames.overwrite(rows, properties=properties)
        columns = [feature.field() for feature in fitted.added if feature.dtype != "video"]
        return widen(episode_set.frames, pa.schema(columns), properties)

    def _stage_videos(
        self, plan: EpisodePlan, publisher: EpisodePublisher, workspace: Location
    ) -> None:
        if not plan.videos:
            return
        location = workspace.join("videos.arrow")
        num_units = write_payloads(
            location,
            cut(
                plan.videos,
                lambda task: task.file.size_bytes or 0,
                num_workers=self._executor.num_workers,
                least_bytes=16 * _MIB,
                most_bytes=256 * _MIB,
                most_items=256,
            ),
        )
        job = VideoJob(
            root=self._corpus.root,
            source=self._corpus.source,
            units=location,
            stager=publisher.set.videos.stager(),
            transcode=self._settings.transcode,
        )
        progress = _Phase(self._progress, 1, "videos", len(plan.videos))
        with closing(self._executor.run(job, num_units)) as units:
            for unit in units:
                publisher.add_videos(unit)
                self._bad_videos |= unit.refused
                progress.add(unit.num_items, unit.num_bytes, len(self._bad_videos))
                if unit.refused and self._settings.on_error == "raise":
                    publisher.publish_videos()
                    raise self._bad_episode(self._first_victim(plan))
        publisher.publish_videos()

    def _first_victim(self, plan: EpisodePlan) -> RefusedEpisode:
        return next(bad for ref in plan.to_do if (bad := self._bad_video(ref)) is not None)

    def _bad_video(self, ref: EpisodeRef) -> RefusedEpisode | None:
        """The episode refused, if one of its videos cannot be used."""
        for span in ref.videos:
            if (fault := self._bad_videos.get(span.video_id)) is not None:
                return refused(
                    ref,
                    fault.reason,
                    fault.detail,
                    feature=span.feature,
                    origin=span.video_id.removeprefix(f"{self._corpus.source}/"),
                )
        return None

    def _stage_episodes(
        self, plan: EpisodePlan, publisher: EpisodePublisher, workspace: Location
    ) -> None:
        refs, bad = [], []
        for ref in plan.to_do:
            fault = self._bad_video(ref) if self._bad_videos else None
            if fault is None:
                refs.append(ref)
            else:
                bad.append(fault)
        publisher.refuse(bad)
        self._num_bad += len(bad)
        self._num_seen += len(bad)
        if not refs:
            return
        location = workspace.join("episodes.arrow")
        num_units = write_payloads(location, self._units(refs, plan, publisher.set))
        episode_set = publisher.set
        job = EpisodeJob(
            corpus=self._corpus,
            source=Source(
                self._corpus.source,
                self._corpus.embodiment,
                self._corpus.fps,
                plan.features,
                stored_ids={},
            ),
            units=location,
            videos=episode_set.videos,
            frames_schema=episode_set.frames.schema,
            frames_stager=episode_set.frames.stager(),
            episodes_stager=episode_set.episodes.stager(),
            checks=Checks(),
            union=self._settings.union,
        )
        progress = _Phase(self._progress, 2, "episodes", len(refs))
        with closing(self._executor.run(job, num_units)) as units:
            for unit in units:
                publisher.add_episodes(unit)
                self._num_seen += unit.num_items
                self._num_bad += len(unit.refused)
                progress.add(unit.num_items, unit.num_bytes, self._num_bad)
                if unit.refused and self._settings.on_error == "raise":
                    publisher.publish_episodes()
                    raise self._bad_episode(unit.refused[0])
                if self._is_hopeless(plan):
                    publisher.publish_episodes()
                    raise self._stopped(self._num_seen, "; what was published stays")
        publisher.publish_episodes()

    def _units(
        self, refs: Sequence[EpisodeRef], plan: EpisodePlan, episode_set: EpisodeSet
    ) -> Iterator[Unit]:
        """The work of each unit. Episodes of one file stay together where they fit."""
        rows: dict[str, int] = {}
        if plan.stored_ids:
            ids = episode_set.videos.scan(["video_id"]).read_all().column(0).to_pylist()
            rows = {video_id: row for row, video_id in enumerate(ids)}
        for unit in cut(
            refs,
            lambda ref: ref.num_bytes,
            num_workers=self._executor.num_workers,
            least_bytes=4 * _MIB,
            most_bytes=128 * _MIB,
            most_items=512,
            together=lambda ref: ref.origin.partition(":")[0],
        ):
            needed = {span.video_id for ref in unit for span in ref.videos}
            stored = {video_id: plan.stored_ids[video_id] for video_id in sorted(needed)}
            yield Unit(tuple(unit), {id_: rows[at] for id_, at in stored.items()}, stored)

    @contextmanager
    def _timed(self, field: str) -> Iterator[None]:
        """Add the seconds of the block to a field of the report."""
        started = time.monotonic()
        try:
            yield
        finally:
            seconds = getattr(self._report, field) + time.monotonic() - started
            setattr(self._report, field, seconds)


class _Phase:
    """Tells a sink how far one of the two phases is."""

    def __init__(self, sink: ProgressSink | None, number: int, what: str, total: int) -> None:
        self._sink = sink
        self._what = f"{what} (phase {number} of 2)"
        self._total = total
        self._done = self._num_bytes = 0
        self._started = time.monotonic()

    def add(self, num_items: int, num_bytes: int, num_bad: int) -> None:
        """Count what a unit did."""
        self._done += num_items
        self._num_bytes += num_bytes
        if self._sink is None:
            return
        left_s = (self._total / max(1, self._done) - 1) * (time.monotonic() - self._started)
        note = (
            f"{self._what}, {self._num_bytes / 1e6:,.0f} MB, {num_bad:,} bad, {left_s:,.0f} s left"
        )
        self._sink.update(self._done, total=self._total, note=note)
