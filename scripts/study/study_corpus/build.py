"""The real pool and the generated domains in one folder, under one manifest."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

from demo_corpus.build import Row, build_corpus
from demo_corpus.debian import PackageFolder
from demo_corpus.recordings import SOURCES

from study_corpus.plan import GENERATED, VOCODERS
from study_corpus.pool import add_pool

__all__ = ["build_study_corpus"]


def build_study_corpus(
    pool: Path,
    folder: Path,
    packages_root: Path,
    *,
    num_workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Make what is missing of the corpus; its folder.

    Args:
        pool: the real pool, a folder with `manifest.csv`.
        folder: where the corpus goes, into `folder / "corpus"`.
        packages_root: the root of a `PackageFolder` that has the packages.
        num_workers: processes; None for one a core.
        on_progress: called with (utterances done, utterances wanted) of the generated domains.
    """
    corpus = build_corpus(
        GENERATED, folder, packages_root, num_workers=num_workers, on_progress=on_progress
    )
    pooled = add_pool(pool, corpus, packages_root, num_workers)
    with (corpus / "manifest.csv").open(newline="", encoding="utf-8") as lines:
        generated = [Row(**line) for line in csv.DictReader(lines)]
    rows = [*_with_speakers(generated, packages_root), *pooled]
    partial = corpus / "manifest.csv.partial"
    with partial.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        names = [field.name for field in fields(Row)]
        writer.writerow(names)
        writer.writerows([getattr(row, name) for name in names] for row in rows)
    partial.replace(corpus / "manifest.csv")
    return corpus


def _with_speakers(rows: list[Row], packages_root: Path) -> list[Row]:
    """The rows with the speaker whose recording a vocoder took apart, so that folds part by him."""
    packages = PackageFolder(packages_root)
    recordings = {name: SOURCES[name].recordings(packages) for name in GENERATED.bonafide}
    named = []
    for row in rows:
        if row.generator in VOCODERS:
            spoken = recordings[row.source]
            speaker = spoken[int(Path(row.path).stem) % len(spoken)].speaker_id
            row = replace(row, speaker_id=speaker)
        named.append(row)
    return named
