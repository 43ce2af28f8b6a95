"""Lakes in memory and on disk, and small selections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from datalake.lake import SELECTION_ROWS, Lake, Lineage, Selection, open_lake

KEYS = pa.schema([pa.field("utt_id", pa.string(), nullable=False), pa.field("domain", pa.string())])


def keys(num_rows: int, first: int = 0) -> pa.Table:
    numbers = range(first, first + num_rows)
    columns = {"utt_id": [f"c/{i}" for i in numbers], "domain": [f"d{i % 3}" for i in numbers]}
    return pa.table(columns, schema=KEYS)


def selection_of(indices: list[int], *, version: int, name: str = "some") -> Selection:
    rows = pa.table(
        {
            "row_index": indices,
            "utt_id": [f"c/{i}" for i in indices],
            "domain": [f"d{i % 3}" for i in indices],
            "rank": range(len(indices)),
            "weight": [1.0 / (i + 1) for i in indices],
        },
        schema=SELECTION_ROWS,
    )
    manifest = pa.table(
        {"domain": ["d0", "d1"], "num_rows": pa.array([3, 4], pa.uint32()), "hours": [None, 0.1]}
    )
    return Selection(name, "corpus", version, rows, manifest, "random", {"seed": 0, "cap": None})


@pytest.fixture(params=["memory", "disk"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    uri = f"memory://{uuid4().hex}/lake" if request.param == "memory" else str(tmp_path / "lake")
    return open_lake(uri)


@pytest.fixture
def fill(lake: Lake) -> Callable[..., int]:
    """Create or extend a table of keys; returns the version this made."""

    def fill(name: str = "corpus", num_rows: int = 10) -> int:
        lineage = Lineage("ingest", {"path": "x"})
        table = lake[name] if name in lake else lake.create(name, KEYS, lineage=lineage)
        rows = keys(num_rows, table.count_rows())
        return table.append(rows, properties=lineage.properties()).version

    return fill
