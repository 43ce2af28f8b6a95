"""One run of the ingest of episodes, from the plan to the report."""

from __future__ import annotations

from contextlib import ExitStack

from datalake.episodes import EpisodeSet, episode_sets, open_episodes
from datalake.errors import InputError
from datalake.lake import Lake, Lineage
from datalake.pipelines.choice import ITEM_BYTES, Undecided, decided
from datalake.pipelines.episodes.features import Fit, fit
from datalake.pipelines.episodes.plan import EpisodePlan, make_plan
from datalake.pipelines.episodes.publish import EpisodePublisher
from datalake.pipelines.episodes.quarantine import EpisodeQuarantine
from datalake.pipelines.episodes.report import EpisodeReport
from datalake.pipelines.episodes.settings import EpisodeSettings
from datalake.pipelines.episodes.tolerance import Tolerance
from datalake.pipelines.episodes.work import EpisodeWork, prepare_set
from datalake.pipelines.executors import Executor
from datalake.pipelines.run import ProgressSink
from datalake.pipelines.stopwatch import timed
from datalake.pipelines.workspace import shared_folder
from datalake.quarantine import QUARANTINE_SUFFIX
from datalake.recording import EpisodeCorpus, Feature

__all__ = ["EpisodeRun"]


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
        executor: Executor | Undecided,
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

    def run(self) -> EpisodeReport:
        """Plan, stage and publish.

        Raises:
            LakeError: see `ingest`.
        """
        report = self._report
        held = self._find_set()
        if held is not None:
            report.version_before = report.version_after = held.version
        with timed(self._report, "plan_s"):
            plan = make_plan(self._corpus, held, self._settings)
            fitted = fit(
                held.features if held and held.episodes.count_rows() else None,
                plan.features,
                union=self._settings.union,
                before=self._features_before(held),
                where=self._name,
            )
        report.begin(plan)
        report.added_features = tuple(feature.name for feature in fitted.added)
        report.unfilled_features = fitted.unfilled
        tolerance = Tolerance(
            self._settings, self._name, self._corpus.root, max(1, plan.num_pending)
        )
        kept = "nothing was written"
        if (error := tolerance.see(len(plan.refused), plan.refused, kept=kept)) is not None:
            raise error
        if not report.dry_run:
            self._work(plan, fitted, held, tolerance)
        report.num_in_quarantine = self._quarantine().num_episodes()
        return report

    def _quarantine(self) -> EpisodeQuarantine:
        return EpisodeQuarantine(
            self._lake,
            self._name,
            self._corpus.source,
            format=self._format or "lance",
            lineage=self._lineage,
        )

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

    def _features_before(self, held: EpisodeSet | None) -> tuple[Feature, ...] | None:
        """The features of this corpus's episodes in the set, by the first of them."""
        if held is None:
            return None
        ours = "source = '" + self._corpus.source.replace("'", "''") + "'"
        rows = held.episodes.scan(["features"], where=ours, limit=1).read_all().column(0)
        return tuple(map(Feature.from_row, rows[0].as_py() or ())) if len(rows) else None

    def _work(
        self, plan: EpisodePlan, fitted: Fit, held: EpisodeSet | None, tolerance: Tolerance
    ) -> None:
        executor = decided(
            self._executor, plan.video_bytes + plan.num_bytes + len(plan.to_do) * ITEM_BYTES
        )
        with shared_folder(self._lake, self._lineage.run_id) as workspace, ExitStack() as stack:
            if plan.to_do:
                # Before anything is made: where Ray cannot be started, no empty set is left.
                with timed(self._report, "startup_s"):
                    stack.enter_context(executor)
            with timed(self._report, "work_s"):
                episode_set = prepare_set(
                    self._lake,
                    self._name,
                    held,
                    fitted,
                    format=self._format,
                    lineage=self._lineage,
                )
                self._report.version_after = episode_set.version
                keeps = self._settings.on_error == "quarantine"
                publisher = EpisodePublisher(
                    episode_set,
                    replaced=frozenset(plan.replaced),
                    quarantine=self._quarantine() if keeps else None,
                    commit_every_s=self._settings.commit_every_s,
                    lineage=self._lineage,
                    report=self._report,
                )
                EpisodeWork(
                    self._corpus,
                    plan,
                    publisher,
                    settings=self._settings,
                    tolerance=tolerance,
                    executor=executor,
                    workspace=workspace,
                    progress=self._progress,
                ).run()
