"""`curate audit` as a user runs it: in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import datalake
from datalake import Lineage
from tests.curation.audit.test_leakage import words
from tests.curation.audit.test_shortcuts import is_spoof, keys, selection_of
from tests.patience import PATIENCE_S

CURATE = [sys.executable, "-c", "from curation.cli import main; main()"]
NUM_ROWS = 400


@pytest.fixture(scope="module")
def lake_uri(tmp_path_factory) -> str:
    uri = str(tmp_path_factory.mktemp("audit") / "lake")
    rng = np.random.default_rng(0)
    # The first 300 rows are given away by their silence, and two of them are one recording.
    silent = is_spoof(NUM_ROWS) & (np.arange(NUM_ROWS) < 300)
    rows = pa.table(
        {
            **keys(NUM_ROWS),
            "leading_silence_s": rng.normal(0.5, 0.1, NUM_ROWS) - 0.4 * silent,
            "fingerprint": pa.array(
                [words(min(row, 398) + 1).tobytes() for row in range(NUM_ROWS)], pa.binary()
            ),
        }
    )
    lake = datalake.open_lake(uri)
    table = lake.create("corpus", rows.schema, lineage=Lineage("create")).append(rows)
    for name, ids in {"fair": range(300, 400), "last": [399], "train": range(399)}.items():
        picked = selection_of([f"s/{row}" for row in ids])
        saved = picked.__class__(
            name, "corpus", table.version, picked.rows, picked.manifest, "test", {}
        )
        lake.save_selection(saved, Lineage("select"))
    return uri


def curate(lake_uri: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CURATE, "audit", *arguments, "--lake", lake_uri],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def test_shortcuts_before_and_after_a_selection(lake_uri: str) -> None:
    done = curate(lake_uri, "shortcuts", "corpus", "--selection", "fair", "--json")
    assert done.returncode == 0, done.stderr
    audits = json.loads(done.stdout)["audits"]
    before, after = (audits[name]["results"][0] for name in ("corpus", "fair"))
    assert (before["feature"], before["scope"], before["warns"]) == (
        "leading_silence_s", "pooled", True,
    )  # fmt: skip
    assert (audits["corpus"]["num_warnings"], audits["fair"]["num_warnings"]) == (2, 0)
    assert after["eer"] > 0.35
    shown = curate(lake_uri, "shortcuts", "corpus")
    assert "corpus, pooled: leading_silence_s alone reaches an EER of 0." in shown.stderr
    assert shown.stdout.splitlines()[0] == "corpus: 400 rows"


def test_leakage_between_selections(lake_uri: str) -> None:
    arguments = ["leakage", "corpus", "--train", "train", "--test", "last"]
    done = curate(lake_uri, *arguments, "--json", "--fail")
    assert done.returncode == 1, done.stderr
    (leak,) = json.loads(done.stdout)["leaks"]
    assert leak["kind"] == "recording"
    assert leak["examples"] == ["s/399 = s/398"]
    shown = curate(lake_uri, *arguments)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[1].split()[:3] == ["recording", "last", "train"]
    assert "note: text not checked in full" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shortcuts", "corpsu"], "Did you mean corpus"),
        (["shortcuts", "corpus", "--features", "leading_silence"], "leading_silence_s"),
        (["shortcuts", "corpus", "--threshold", "2"], "The threshold of an audit is an EER"),
        (["leakage", "corpus", "--train", "fair"], "--train and --test"),
        (["leakage", "corpus", "--by", "sauce"], "source"),
        (["leakage", "corpus", "--bases", "none.csv"], "none.csv"),
    ],
)
def test_a_request_that_cannot_be_met_is_one_paragraph(lake_uri, arguments, message) -> None:
    done = curate(lake_uri, *arguments)
    assert done.returncode in {1, 2}
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr
