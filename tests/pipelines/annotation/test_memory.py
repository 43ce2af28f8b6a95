"""An annotation holds some rows, whatever the size of the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from datalake.lake import open_lake
from tests.pipelines.annotation.annotators import make_table, rows

ROOT = Path(__file__).parents[3]
ROW_BYTES = 1 << 20

# In a process of its own, whose peak is the annotation's.
ANNOTATE = """
import resource, sys
from datalake.lake import open_lake
from datalake.pipelines.annotation import annotate
from tests.pipelines.annotation.annotators import Bytes

report = annotate(open_lake(sys.argv[1]), "t", Bytes(), executor="local")
print(report.num_annotated, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak_bytes(folder: Path, num_rows: int) -> int:
    lake = open_lake(folder)
    table = make_table(lake, 0)
    for start in range(0, num_rows, 20):
        table = table.append(rows(start, start + 20, ROW_BYTES))
    done = subprocess.run(
        [sys.executable, "-c", ANNOTATE, str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    num_annotated, peak = (int(word) for word in done.stdout.split())
    assert num_annotated == num_rows
    return peak


def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    small, large = (peak_bytes(tmp_path / str(size), size) for size in (40, 200))
    # A quarter of what the other 160 rows hold: more than noise, less than keeping them.
    assert large - small < 160 * ROW_BYTES // 4, (small, large)
