"""The real pool: sample pages of published generators, and LibriSpeech clips cut into pieces.

`manifest.csv` of the pool names path, source, generator, label, speaker and corpus. A file may have
another suffix than its line (FLAC for WAV). Bona fide clips of LibriSpeech run for 13 s; their
pieces make rows enough to train on, and vocoded pieces make the source's spoofs.
"""

from __future__ import annotations

import csv
import hashlib
import io
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import numpy as np
import soundfile
from demo_corpus.build import Row
from demo_corpus.debian import PackageFolder
from demo_corpus.plan import GENERATORS
from demo_corpus.prompts import Prompt
from demo_corpus.recordings import Recording

from datalake.audio.decoding import resample
from datalake.schema import BONAFIDE, SPOOF
from study_corpus.plan import PIECE_S, POOL_VOCODED

__all__ = ["add_pool"]

_CUT: Final = "librispeech-clips"
_LEAST_S: Final = 1.5


@dataclass(frozen=True)
class _Piece:
    path: Path
    speaker_id: str


def add_pool(pool: Path, corpus: Path, packages_root: Path, num_workers: int | None) -> list[Row]:
    """Put the pool into a corpus's folder; its rows, ordered by path. What is there stays."""
    rows, pieces = [], []
    with (pool / "manifest.csv").open(newline="", encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            stored = next(pool.glob(str(Path(line["path"]).with_suffix(".*"))))
            # Who is not known counts as one speaker a corpus, so that such rows stay together.
            speaker = line["speaker"] or f"unknown-{line['corpus']}"
            if line["source"] == _CUT:
                pieces += _cut(stored, corpus / _CUT / BONAFIDE, speaker)
                continue
            path = corpus / line["source"] / stored.name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                shutil.copyfile(stored, path)
            generator = line["generator"] if line["label"] == SPOOF else ""
            rows.append(_row(path, corpus, line["source"], generator, speaker))
    rows += [_row(piece.path, corpus, _CUT, "", piece.speaker_id) for piece in pieces]
    pieces.sort(key=lambda piece: hashlib.md5(piece.path.name.encode()).digest())
    jobs = []
    for number, (generator, count) in enumerate(POOL_VOCODED.items()):
        (corpus / _CUT / generator).mkdir(parents=True, exist_ok=True)
        # Other pieces for each generator, as far as there are.
        own = [pieces[(number * count + at) % len(pieces)] for at in range(count)]
        for piece in own:
            target = corpus / _CUT / generator / piece.path.name
            rows.append(_row(target, corpus, _CUT, generator, piece.speaker_id))
            if not target.exists():
                jobs.append((generator, piece, target, packages_root))
    with ProcessPoolExecutor(num_workers, mp_context=get_context("spawn")) as workers:
        list(workers.map(_vocode, jobs, chunksize=8))
    return sorted(rows, key=lambda row: row.path)


def _row(path: Path, corpus: Path, source: str, generator: str, speaker: str) -> Row:
    label = SPOOF if generator else BONAFIDE
    return Row(str(path.relative_to(corpus)), source, generator, label, speaker, "")


def _cut(clip: Path, folder: Path, speaker: str) -> Iterator[_Piece]:
    """Pieces of a clip as FLAC of 16 kHz; the last, if it is short, is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    samples, rate_hz = soundfile.read(clip, dtype="float32")
    step = round(PIECE_S * rate_hz)
    for number, begin in enumerate(range(0, len(samples), step)):
        part = samples[begin : begin + step]
        if len(part) < _LEAST_S * rate_hz:
            return
        path = folder / f"{clip.stem}-{number}.flac"
        if not path.exists():
            _write(path, part, rate_hz)
        yield _Piece(path, speaker)


def _vocode(job: tuple[str, _Piece, Path, Path]) -> None:
    generator, piece, target, packages_root = job
    seed = int.from_bytes(hashlib.md5(f"{generator}/{target.name}".encode()).digest()[:4], "big")
    prompt = Prompt(seed, "en", Recording(piece.path, piece.speaker_id))
    samples, made_hz = GENERATORS[generator](PackageFolder(packages_root)).make(prompt)
    like, rate_hz = soundfile.read(piece.path, dtype="float32")
    if made_hz != rate_hz:
        samples = resample(samples, made_hz, rate_hz)
    samples = samples * (_rms(like) / max(_rms(samples), 1e-6))
    _write(target, samples * min(1.0, 0.99 / max(float(np.abs(samples).max()), 1e-6)), rate_hz)


def _rms(samples: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def _write(path: Path, samples: np.ndarray, rate_hz: int) -> None:
    """Write a file whole or not at all."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format="FLAC", subtype="PCM_16")
    partial = path.with_suffix(".partial")
    partial.write_bytes(file.getvalue())
    partial.replace(path)
