"""Makes what is missing of a corpus. A build that was killed goes on where it stopped.

The work is cut into jobs, of at most 100 utterances of one domain where they are made. A job runs
in a process of its own, so that nothing carries over from one to the next, and ends by renaming its
list of rows into place. A job with a list is done; one without is made anew. So the corpus is the
same whatever the number of workers and however often the build was interrupted.
"""

from __future__ import annotations

import csv
import hashlib
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from datalake.schema import BONAFIDE, SPOOF
from demo_corpus.channel import transmit
from demo_corpus.debian import PackageFolder
from demo_corpus.plan import GENERATORS, Plan
from demo_corpus.prompts import Prompt
from demo_corpus.recordings import SOURCES, Recording, Source

__all__ = ["Job", "Row", "build_corpus", "jobs_of", "run_job"]

_JOB_SIZE: Final = 100


@dataclass(frozen=True)
class Row:
    """One line of the manifest."""

    path: str
    """Relative to the corpus."""
    source: str
    generator: str
    """Empty for bona fide."""
    label: str
    speaker_id: str
    """Of the recording, also if a vocoder took it apart; empty if nobody's voice was used."""
    language: str


@dataclass(frozen=True)
class Job:
    """Utterances `begin` to `end` of one domain."""

    source: str
    generator: str
    """Empty for bona fide."""
    begin: int
    end: int

    @property
    def folder(self) -> str:
        """Where its files go, relative to the corpus."""
        return f"{self.source}/{self.generator or BONAFIDE}"

    @property
    def rows_file(self) -> str:
        """Its list of rows, relative to the corpus; there once it is done."""
        return f".jobs/{self.source}.{self.generator or BONAFIDE}.{self.begin:05d}-{self.end:05d}"


def jobs_of(plan: Plan) -> list[Job]:
    """The jobs of a plan. A source's recordings are one job: they are merely copied."""
    synthesis = [
        Job(*domain, begin, min(begin + _JOB_SIZE, count))
        for domain, count in plan.spoof.items()
        for begin in range(0, count, _JOB_SIZE)
    ]
    return synthesis + [Job(source, "", 0, count) for source, count in plan.bonafide.items()]


def build_corpus(
    plan: Plan,
    folder: Path,
    packages_root: Path,
    *,
    num_workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Make what is missing of a corpus, and its manifest; the corpus's folder.

    Args:
        plan: the corpus.
        folder: where corpora lie; this one goes into `folder / plan.name`.
        packages_root: the root of a `PackageFolder` that has the packages.
        num_workers: processes; None for one a core.
        on_progress: called with (utterances done, utterances wanted).
    """
    corpus = folder / plan.name
    (corpus / ".jobs").mkdir(parents=True, exist_ok=True)
    jobs = jobs_of(plan)
    _forget(corpus, keep={job.rows_file for job in jobs})
    total = sum(job.end - job.begin for job in jobs)
    missing = [job for job in jobs if not (corpus / job.rows_file).exists()]
    done = total - sum(job.end - job.begin for job in missing)
    for job in _each_done(missing, corpus, packages_root, num_workers):
        done += job.end - job.begin
        if on_progress is not None:
            on_progress(done, total)
    rows = [row for job in jobs for row in _read_rows(corpus / job.rows_file)]
    _write_rows(corpus / "manifest.csv", sorted(rows, key=lambda row: row.path))
    return corpus


def _each_done(
    jobs: list[Job], corpus: Path, packages_root: Path, num_workers: int | None
) -> Iterator[Job]:
    if not jobs:
        return
    with ProcessPoolExecutor(
        num_workers or os.cpu_count(),
        # A fresh process a job: some synthesisers keep state from one utterance to the next.
        mp_context=multiprocessing.get_context("spawn"),
        max_tasks_per_child=1,
    ) as pool:
        running = {pool.submit(run_job, job, corpus, packages_root): job for job in jobs}
        for future in as_completed(running):
            future.result()
            yield running[future]


def run_job(job: Job, corpus: Path, packages_root: Path) -> None:
    """Make the job's files, then its list of rows."""
    packages = PackageFolder(packages_root)
    source = SOURCES[job.source]
    recordings = source.recordings(packages)
    (corpus / job.folder).mkdir(parents=True, exist_ok=True)
    make = _spoof if job.generator else _bonafide
    _write_rows(corpus / job.rows_file, list(make(job, source, recordings, corpus, packages)))


def _bonafide(
    job: Job, source: Source, recordings: list[Recording], corpus: Path, _: PackageFolder
) -> Iterator[Row]:
    """The files as they were published."""
    for number, recording in enumerate(recordings[job.begin : job.end], start=job.begin):
        path = f"{job.folder}/{number:05d}{source.suffix}"
        shutil.copyfile(recording.path, corpus / path)
        yield Row(path, source.name, "", BONAFIDE, recording.speaker_id, source.language)


def _spoof(
    job: Job, source: Source, recordings: list[Recording], corpus: Path, packages: PackageFolder
) -> Iterator[Row]:
    generator = GENERATORS[job.generator](packages)
    for number in range(job.begin, job.end):
        path = f"{job.folder}/{number:05d}{source.suffix}"
        prompt = Prompt(
            seed=int.from_bytes(hashlib.md5(path.encode()).digest()[:4], "big"),
            language=source.language,
            recording=recordings[number % len(recordings)],
        )
        samples, rate_hz = generator.make(prompt)
        (corpus / path).write_bytes(transmit(samples, rate_hz, source, prompt.recording))
        yield Row(path, source.name, job.generator, SPOOF, "", source.language)


def _forget(corpus: Path, keep: set[str]) -> None:
    """Remove what jobs of another plan left."""
    for rows_file in (corpus / ".jobs").iterdir():
        if f".jobs/{rows_file.name}" not in keep:
            if not rows_file.name.endswith(".partial"):
                for row in _read_rows(rows_file):
                    (corpus / row.path).unlink(missing_ok=True)
            rows_file.unlink()


def _read_rows(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as lines:
        return [Row(**values) for values in csv.DictReader(lines)]


def _write_rows(path: Path, rows: list[Row]) -> None:
    """Write a list of rows, whole or not at all."""
    names = [field.name for field in fields(Row)]
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow(names)
        writer.writerows([getattr(row, name) for name in names] for row in rows)
    partial.replace(path)
