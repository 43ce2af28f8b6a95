"""The parts of the study's corpus that need no download, and its designs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from study_corpus import plan, pool

from curation.study.design import read_design

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "study"


def write_pool(folder: Path) -> None:
    """A clip of 9 s to cut, and a bona fide row and a spoof of another source."""
    lines = ["path,source,generator,label,speaker,corpus"]
    for path, source, generator, speaker, duration_s in (
        ("librispeech-clips/1.wav", "librispeech-clips", "", "7", 9.0),
        ("demo/real.wav", "demo", "", "", 2.0),
        ("demo/made.wav", "demo", "gan", "lj", 2.0),
    ):
        # The manifest says WAV where the file is FLAC.
        target = (folder / path).with_suffix(".flac")
        target.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(len(path)).uniform(-0.1, 0.1, round(duration_s * 16_000))
        soundfile.write(target, noise, 16_000)
        label = "spoof" if generator else "bonafide"
        lines.append(f"{path},{source},{generator},{label},{speaker},vctk")
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")


def test_the_pool_is_cut_and_vocoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pool(tmp_path / "pool")
    monkeypatch.setattr(pool, "POOL_VOCODED", {"griffin_lim": 1})
    corpus = tmp_path / "corpus"
    rows = pool.add_pool(tmp_path / "pool", corpus, tmp_path, 1)
    assert [(row.source, row.generator, row.label, row.speaker_id) for row in rows] == [
        ("demo", "gan", "spoof", "lj"),
        ("demo", "", "bonafide", "unknown-vctk"),
        ("librispeech-clips", "", "bonafide", "7"),
        ("librispeech-clips", "", "bonafide", "7"),
        ("librispeech-clips", "griffin_lim", "spoof", "7"),
    ]
    durations = [soundfile.info(corpus / row.path).duration for row in rows]
    # The rest of 1 s is left out.
    assert durations[2:4] == [4.0, 4.0]
    assert durations[4] == pytest.approx(4.0, abs=0.1)
    written = {path: path.stat().st_mtime_ns for path in corpus.rglob("*.flac")}
    assert pool.add_pool(tmp_path / "pool", corpus, tmp_path, 1) == rows
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_the_designs_can_be_read_and_few_domains_hold_most() -> None:
    for path in SCRIPTS.glob("*.yaml"):
        design = read_design(path)
        assert design.table == "pool"
        assert len(design.seeds) == 5
        assert {"naive", "random", "doss", "doss_weight"} <= {m.name for m in design.methods}
    sizes = sorted(plan.GENERATED.spoof.values())
    assert sum(sizes[-2:]) > 0.5 * (sum(sizes) + sum(plan.POOL_VOCODED.values()))


def test_without_the_pool_the_script_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTS / "run.py", "--pool", tmp_path, "--folder", tmp_path / "out"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "skipped: there is no real pool" in done.stderr
    assert not (tmp_path / "out").exists()
