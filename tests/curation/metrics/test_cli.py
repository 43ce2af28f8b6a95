"""`curate score` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as as_csv
import pyarrow.parquet as as_parquet
import pytest

from curation import metrics
from curation.cli.app import app
from datalake.cli import console
from tests.patience import PATIENCE_S

CURATE = [sys.executable, "-c", "from curation.cli import main; main()", "score"]
RNG = np.random.default_rng(3)
LABELS = np.array(["bonafide"] * 60 + ["spoof"] * 90)
SCORES = np.concatenate([RNG.normal(1, 1, 60), RNG.normal(-1, 1, 90)])
TABLE = pa.table(
    {
        "utt_id": [f"u{number}" for number in range(150)],
        "score": SCORES,
        "label": LABELS,
        "attack": pa.array([None] * 60 + ["A01"] * 45 + ["A02"] * 45),
        "speaker": [f"s{number % 7}" for number in range(150)],
    }
)


def score(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*CURATE, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_file_is_broken_down_by_its_columns(tmp_path: Path) -> None:
    as_csv.write_csv(TABLE, tmp_path / "scores.csv")
    done = score(tmp_path / "scores.csv", "--by", "attack", "--resamples", 50, "--json")
    assert done.returncode == 0, done.stderr
    rows = {(row["scope"], row["attack"]): row for row in json.loads(done.stdout)["rows"]}
    bonafide, spoof = SCORES[:60], SCORES[60:]
    assert rows["pooled", None]["eer"] == metrics.eer(bonafide, spoof)
    assert rows["group", "A01"]["min_dcf"] == metrics.min_dcf(bonafide, spoof[:45])
    assert rows["group", "A02"]["eer_low"] <= rows["group", "A02"]["eer"]
    assert ("macro", None) in rows

    as_parquet.write_table(TABLE, tmp_path / "scores.parquet")
    shown = score(tmp_path / "scores.parquet", "--metric", "cllr", "--speaker", "speaker")
    assert shown.returncode == 0, shown.stderr
    assert f"{metrics.cllr(bonafide, spoof):.4f}".rstrip("0") in shown.stdout


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("score,label\n1,bonafide\n0,spoof\n", ["--by", "atack"], "no column 'atack'"),
        ("scores,label\n1,bonafide\n", [], "Did you mean scores"),
        ("score,label\nx,bonafide\n0,spoof\n", [], "not all numbers"),
        ("score,label\n,bonafide\n0,spoof\n", [], "have no score"),
        ("score,label\n1,bonafide\n0,spoof\n", ["--metric", "err"], "eer"),
        ("score,label\n1,real\n0,spoof\n", [], "bonafide"),
        ("", [], "cannot be read"),
    ],
)
def test_bad_files_are_refused_without_a_traceback(tmp_path, capsys, text, arguments, said) -> None:
    (tmp_path / "scores.csv").write_text(text)
    for name in ("scores.csv", "gone.csv"):
        with pytest.raises(SystemExit) as leaving:
            console.run(app, "curate", ["score", str(tmp_path / name), *arguments])
        out, err = capsys.readouterr()
        assert (leaving.value.code, out) == (2, "")
        assert (said if name == "scores.csv" else "cannot be read") in err
