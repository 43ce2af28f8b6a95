"""What an ingest of episodes did, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Literal

from datalake.pipelines.episodes.plan import VIDEO_REASONS, EpisodePlan
from datalake.recording import Finding

__all__ = ["EpisodeReport"]

_EXAMPLES: Final = 3
"""Warnings of each reason that are shown; the others are counted."""


@dataclass
class EpisodeReport:
    """Counts of one run. Episodes count once they are published.

    After a run, `num_episodes` is the sum of `num_unchanged`, `num_added`, `num_replaced` and the
    refused. After a dry run, `num_to_read` and `refused` say what a run would begin with.
    """

    run_id: str
    episode_set: str
    corpus: str
    connector: str
    root: str
    dry_run: bool = False
    on_error: Literal["quarantine", "skip", "raise"] = "quarantine"
    num_episodes: int = 0
    """Episodes that the corpus has."""
    num_unchanged: int = 0
    """Episodes that were in the set as they are."""
    num_added: int = 0
    num_replaced: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Episodes refused by this run, by their first reason."""
    num_in_quarantine: int = 0
    """Episodes of this corpus that stand in the quarantine table, those of earlier runs too."""
    num_vanished: int = 0
    """Episodes in the set that the corpus no longer has; they are kept."""
    num_to_read: int = 0
    """Episodes that the plan sends to the workers."""
    num_frames: int = 0
    """Frames of the episodes added and replaced."""
    duration_s: float = 0.0
    """Seconds of robot time that they are."""
    num_videos: int = 0
    """Video files that the plan sends to the workers."""
    num_videos_added: int = 0
    num_videos_held: int = 0
    """Files that these episodes need and the set had already."""
    num_videos_dropped: int = 0
    """Files that the corpus replaced and no episode refers to any more."""
    num_bytes: int = 0
    """Bytes read: of videos exactly, of other files about. After a dry run: those to read."""
    warnings: Counter[str] = field(default_factory=Counter)
    """Findings that do not stop an episode, by reason."""
    examples: list[Finding] = field(default_factory=list)
    """Some of them."""
    startup_s: float = 0.0
    """Starting the executor."""
    plan_s: float = 0.0
    work_s: float = 0.0
    version_before: int | None = None
    """Of the set; null if it was not there."""
    version_after: int | None = None
    added_features: tuple[str, ...] = ()
    """Features that the set got, null in its older episodes."""
    unfilled_features: tuple[str, ...] = ()
    """Features of the set that this corpus does not have; null in its frames."""

    def begin(self, plan: EpisodePlan) -> None:
        """Take over what a plan says."""
        self.num_episodes = plan.num_episodes
        self.num_unchanged = plan.num_unchanged
        self.num_vanished = plan.num_vanished
        self.num_to_read = len(plan.to_do)
        self.num_videos = len(plan.videos)
        self.num_videos_held = plan.num_videos_held
        self.warn(Counter(str(finding.reason) for finding in plan.warnings), plan.warnings)
        if self.dry_run:
            self.refused.update(str(episode.reason) for episode in plan.refused)
            self.num_bytes = plan.num_bytes + plan.video_bytes

    def warn(self, counts: Mapping[str, int], examples: Iterable[Finding]) -> None:
        """Count findings that are no errors, and keep some of them."""
        self.warnings.update(counts)
        kept = Counter(str(finding.reason) for finding in self.examples)
        for finding in examples:
            kept[str(finding.reason)] += 1
            if kept[str(finding.reason)] <= _EXAMPLES:
                self.examples.append(finding)

    @property
    def num_refused(self) -> int:
        """Episodes refused by this run."""
        return self.refused.total()

    @property
    def num_out(self) -> int:
        """Episodes this run wrote."""
        return self.num_added + self.num_replaced

    @property
    def frames_per_s(self) -> float:
        """Frames written in a second of work, start-up and plan left out."""
        return self.num_frames / self.work_s if self.work_s > 0 else 0.0

    @property
    def exit_code(self) -> int:
        """3 while episodes of this corpus stand refused, else 0."""
        return 3 if self.num_refused or self.num_in_quarantine else 0

    def as_dict(self) -> dict[str, object]:
        """The report as JSON values, with what follows from the counts."""
        return {
            **asdict(self),
            "refused": dict(self.refused),
            "warnings": dict(self.warnings),
            "examples": [finding.as_dict() for finding in self.examples],
            "num_refused": self.num_refused,
            "num_out": self.num_out,
            "frames_per_s": round(self.frames_per_s, 1),
            "exit_code": self.exit_code,
        }

    def __str__(self) -> str:
        verb = "Would ingest" if self.dry_run else "Ingested"
        lines = [
            f"{verb} {self.corpus} ({self.connector}) from {self.root} into the episode set"
            f" {self.episode_set}",
            *self._counts(),
            *self._features(),
            *self._warnings(),
        ]
        if self.dry_run:
            lines.append(f"  {self.num_bytes / 1e6:,.1f} MB to read (plan {self.plan_s:.1f} s)")
        else:
            rate = self.num_bytes / 1e6 / self.work_s if self.work_s > 0 else 0.0
            lines.append(
                f"  {self.num_bytes / 1e6:,.1f} MB read at {rate:,.0f} MB/s,"
                f" {self.frames_per_s:,.0f} frames/s (start-up {self.startup_s:.1f} s,"
                f" plan {self.plan_s:.1f} s, work {self.work_s:.1f} s)"
            )
            before = "none" if self.version_before is None else self.version_before
            lines.append(f"  version {before} -> {self.version_after}, run {self.run_id}")
        return "\n".join(lines)

    def _counts(self) -> list[str]:
        episodes = {
            "episodes in": self.num_episodes,
            "done before": self.num_unchanged,
            "to read": self.num_to_read if self.dry_run else 0,
            "added": self.num_added,
            "replaced": self.num_replaced,
            "kept though gone from the corpus": self.num_vanished,
        }
        lines = [_line(num, what) for what, num in episodes.items() if num or what == "episodes in"]
        fate = {"quarantine": "quarantined", "skip": "skipped", "raise": "refused"}[self.on_error]
        lines += [
            _line(num, f"{fate}: {reason}")
            for reason, num in sorted(self.refused.items(), key=lambda pair: (-pair[1], pair[0]))
        ]
        if self.num_in_quarantine:
            where = f"{self.episode_set}.quarantine"
            lines.append(_line(self.num_in_quarantine, f"of this corpus in {where}"))
        if self.refused.keys() & VIDEO_REASONS:
            lines.append("               (state and action alone can be had with --without-video)")
        rest = {
            f"frames ({_time(self.duration_s)})": self.num_frames,
            "video files to read": self.num_videos if self.dry_run else 0,
            "video files added": self.num_videos_added,
            "video files there already": self.num_videos_held,
            "video files dropped, for newer ones": self.num_videos_dropped,
        }
        return lines + [_line(num, what) for what, num in rest.items() if num]

    def _features(self) -> list[str]:
        lines = []
        if self.added_features:
            names = ", ".join(self.added_features)
            lines.append(f"  new features, null in older episodes: {names}")
        if self.unfilled_features:
            lines.append(f"  features left null: {', '.join(self.unfilled_features)}")
        return lines

    def _warnings(self) -> list[str]:
        lines = []
        for reason, num in self.warnings.most_common():
            lines.append(_line(num, f"warned of: {reason}"))
            shown = [finding for finding in self.examples if finding.reason == reason]
            for finding in shown:
                place = finding.episode_id or finding.origin or self.corpus
                frame = "" if finding.frame_index is None else f" frame {finding.frame_index:,}"
                about = f" {finding.feature}" if finding.feature else ""
                lines.append(f"                 {place}{frame}{about}: {finding.detail}")
            if num > len(shown):
                lines.append("                 …")
        return lines


def _line(num: int, what: str) -> str:
    if num == 1:
        what = what.replace("episodes", "episode").replace("files", "file")
        what = what.replace("frames", "frame")
    return f"  {num:>12,} {what}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
