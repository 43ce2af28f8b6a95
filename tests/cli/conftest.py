"""The installed commands in processes of their own, and a lake for them to look at."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from datalake.lake import SELECTION_ROWS, Lineage, Selection, open_lake
from datalake.schema import QUARANTINE, UTTERANCES
from tests.patience import PATIENCE_S

Result = subprocess.CompletedProcess[str]
Cli = Callable[..., Result]

NUM_ROWS = 30


def utterances() -> pa.Table:
    """Ten bona fide rows of one source and twenty spoofs of two generators."""
    numbers = range(NUM_ROWS)
    generators = [[None, "tts", "vc"][i % 3] for i in numbers]
    columns: dict[str, list[object]] = {name: [None] * NUM_ROWS for name in UTTERANCES.names}
    columns["utt_id"] = [f"small/{i:03d}" for i in numbers]
    columns["source"] = ["small"] * NUM_ROWS
    columns["generator"] = list(generators)
    columns["label"] = ["bonafide" if g is None else "spoof" for g in generators]
    columns["domain"] = ["small" if g is None else f"small/{g}" for g in generators]
    columns["duration_s"] = [1.0 + i / 10 for i in numbers]
    columns["audio"] = [b"x" * (48_200 + i) for i in numbers]
    return pa.table(columns, schema=UTTERANCES)


@pytest.fixture(scope="session")
def filled_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a table, its quarantine and a selection. Look, do not touch."""
    path = tmp_path_factory.mktemp("cli") / "lake"
    lake = open_lake(path)
    ingest = Lineage("ingest", {"path": "corpora/small"})
    table = lake.create("corpus", UTTERANCES, lineage=ingest)
    table = table.append(utterances(), properties=ingest.properties())
    refused = pa.table(
        {
            "part_id": ["p", "p", "p"],
            "path": ["a.wav", "b.wav", "c.wav"],
            "utt_id": ["small/a", "small/b", None],
            "reason": ["truncated", "truncated", "no_protocol_row"],
            "detail": ["at 1.2 s", "at 0.1 s", None],
            "run_id": ["r", "r", "r"],
            "created_at": pa.array([None] * 3, QUARANTINE.field("created_at").type),
        },
        schema=QUARANTINE,
    )
    lake.create("corpus.quarantine", QUARANTINE, lineage=ingest).append(refused)
    rows = pa.table(
        {
            "row_index": [3, 1],
            "utt_id": ["small/003", "small/001"],
            "domain": ["small", "small/tts"],
            "rank": [0, 0],
            "weight": [1.0, 0.5],
        },
        schema=SELECTION_ROWS,
    )
    manifest = pa.table({"domain": ["small", "small/tts"], "num_rows": [10, 10], "taken": [1, 1]})
    lake.save_selection(
        Selection("few", "corpus", table.version, rows, manifest, "random", {"seed": 7}),
        Lineage("select", {"seed": 7}, {"corpus": table.version}),
    )
    return path


@pytest.fixture
def own_lake(filled_lake: Path, tmp_path: Path) -> Path:
    """A copy of the lake to write to."""
    return Path(shutil.copytree(filled_lake, tmp_path / "own"))


@pytest.fixture
def cli(filled_lake: Path, tmp_path: Path) -> Cli:
    """Run `datalake` (or another command of ours) as a user would, away from the checkout."""

    def run(
        *args: str | Path,
        program: str = "datalake",
        env: dict[str, str] | None = None,
        stdin: str = "",
    ) -> Result:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        return subprocess.run(
            [Path(sys.executable).parent / program, *map(str, args)],
            capture_output=True,
            text=True,
            input=stdin,
            timeout=PATIENCE_S,
            cwd=tmp_path,
            env={**clean, "DATALAKE_URI": str(filled_lake), "HOME": str(tmp_path), **(env or {})},
        )

    return run
