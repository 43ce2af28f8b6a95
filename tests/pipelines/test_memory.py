"""An ingest holds a batch of files, whatever the size of the corpus."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.pipelines.corpora import wav

FILE_BYTES = 3_200_000

# In a process of its own, whose peak is the ingest's.
INGEST = """
import resource, sys
from datalake.lake import open_lake
from datalake.pipelines import ingest

report = ingest(open_lake(sys.argv[2]), sys.argv[1], "corpus", executor="local")
assert report.num_bytes > 0
print(report.num_added, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak_bytes(folder: Path, num_files: int) -> int:
    for index in range(num_files):
        path = folder / "corpus" / "real" / f"{index:04d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wav(index, FILE_BYTES // 2))
    done = subprocess.run(
        [sys.executable, "-c", INGEST, str(folder / "corpus"), str(folder / "lake")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    num_added, peak = (int(word) for word in done.stdout.split())
    assert num_added == num_files
    return peak


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    small = peak_bytes(tmp_path / "small", 40)
    large = peak_bytes(tmp_path / "large", 160)
    # A third of what the other 120 files hold: far more than noise, far less than keeping them.
    assert large - small < 120 * FILE_BYTES // 3, (small, large)
