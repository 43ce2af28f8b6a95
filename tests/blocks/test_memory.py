"""What a reader holds does not grow with the table."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S

SCRIPT = """
import json, os, sys, threading, time
import numpy as np, pyarrow as pa
from datalake.blocks.cache import BlockCache
from datalake.blocks.reader import TableReader
from datalake.tables import create_table, open_table

folder, count = sys.argv[1], 2_000_000
rng = np.random.default_rng(0)
table = create_table(
    folder + "/t.lance",
    pa.schema(
        [("number", pa.int64()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), 4))]
    ),
)
for start in range(0, count, 250_000):
    n = np.arange(start, start + 250_000)
    flat = pa.array(np.repeat(n, 4).astype(np.float32))
    table = table.append(pa.table({
        "number": n * 3,
        "text": pa.array([f"id/{i:09d}" for i in n]),
        "vector": pa.FixedSizeListArray.from_arrays(flat, 4),
    }))
del flat, n
reader = TableReader(open_table(folder + "/t.lance"), cache=BlockCache(folder + "/cache"))

def anonymous():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(l.split()[1]) for l in lines if l.startswith("Anonymous:")) * 1024

def handles():
    return len(os.listdir("/proc/self/fd"))

def visit(rows):
    assert (reader.numbers("number", rows) == rows * 3).all()
    assert (reader.numbers("vector", rows)[:, 3] == rows.astype(np.float32)).all()
    assert reader.texts("text", rows[:64]) == [f"id/{i:09d}" for i in rows[:64].tolist()]

for start in range(0, count, 65536):  # Every block once, so that all are cached.
    visit(np.arange(start, min(start + 65536, count)))
visit(rng.integers(0, count, 4096))
begin, opened = anonymous(), handles()
for _ in range(150):
    visit(rng.integers(0, count, 8192))
print(json.dumps({
    "grown": anonymous() - begin, "handles": handles() - opened, "threads": threading.active_count()
}))
"""


def test_memory_and_handles_stay(tmp_path: Path) -> None:
    script = tmp_path / "visit.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # The columns take 98 MB in all.
    assert found["grown"] < 24 << 20
    assert found["handles"] <= 4
    assert found["threads"] <= 2
