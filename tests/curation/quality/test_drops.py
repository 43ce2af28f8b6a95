"""Drops by rules: what is dropped, why, and what is kept."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import datalake
from curation.quality.drops import OutlierRule, ThresholdRule, find_drops, parse_rule
from datalake import Lineage
from datalake.errors import InputError, SchemaError
from tests.curation.audit.test_shortcuts import keys, table_of
from tests.patience import PATIENCE_S


def rows(num_rows: int = 40) -> dict[str, object]:
    level = np.linspace(-30, -20, num_rows)
    level[7], level[11] = 60, -90
    noise = pa.array([None if row == 3 else float(row) for row in range(num_rows)])
    return {**keys(num_rows), "rms_dbfs": level, "snr_db": noise}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("clipping_share > .01", ThresholdRule("clipping_share", ">", 0.01)),
        ("snr_db<=-1e1", ThresholdRule("snr_db", "<=", -10)),
        (" snr_db is missing", ThresholdRule("snr_db", "missing")),
        ("x is an outlier", OutlierRule("x", "source", 5)),
        ("x is an outlier by domain at 3.5", OutlierRule("x", "domain", 3.5)),
        ("x IS AN OUTLIER by all", OutlierRule("x", None, 5)),
        (
            "x is an outlier by embodiment and task at 4",
            OutlierRule("x", ("embodiment", "task"), 4),
        ),
    ],
)
def test_rules_are_read(text: str, rule: object) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize("text", ["", "x", "x >", "x > y", "x = 3", "drop table", "x > 1 or y > 2"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="A rule cannot be read"):
        parse_rule(text)


def test_every_drop_has_its_reason_value_and_threshold() -> None:
    table = table_of(rows(), blocks=3)
    found = find_drops(
        table,
        [
            parse_rule("snr_db < 2"),
            parse_rule("snr_db is missing"),
            parse_rule("rms_dbfs is an outlier"),
        ],
    )
    lines = [
        (row["utt_id"], row["reason"], row["value"], row["threshold"])
        for row in found.rows.to_pylist()
    ]
    level = np.asarray(rows()["rms_dbfs"])
    middle = np.median(level)
    spread = 5 * 1.4826 * np.median(np.abs(level - middle))
    assert lines == [
        ("s/0", "snr_db_low", 0.0, 2.0),
        ("s/1", "snr_db_low", 1.0, 2.0),
        ("s/3", "snr_db_missing", None, None),
        ("s/7", "rms_dbfs_high_outlier", 60.0, pytest.approx(middle + spread)),
        ("s/11", "rms_dbfs_low_outlier", -90.0, pytest.approx(middle - spread)),
    ]
    assert (found.num_rows, found.num_dropped, found.kept.num_rows) == (40, 5, 35)
    gone = {"s/0", "s/1", "s/3", "s/7", "s/11"}
    assert not gone & set(found.kept["utt_id"].to_pylist())


def test_outliers_are_those_of_their_group() -> None:
    columns = keys(60)
    columns["source"] = ["loud" if row < 30 else "soft" for row in range(60)]
    value = np.where(np.arange(60) < 30, -10.0, -50.0) + np.linspace(0, 1, 60) % 0.3
    value[5] = -50  # usual for the other source
    table = table_of({**columns, "x": value})
    assert find_drops(table, [OutlierRule("x")]).rows["utt_id"].to_pylist() == ["s/5"]
    everything = find_drops(table, [OutlierRule("x", None)]).rows["utt_id"].to_pylist()
    assert "s/5" not in everything
    flat = table_of({**columns, "x": np.where(np.arange(60) == 0, 9.0, 1.0)})
    assert find_drops(flat, [OutlierRule("x")]).num_dropped == 0


def test_columns_that_cannot_be_judged_are_named() -> None:
    table = table_of(rows())
    with pytest.raises(SchemaError, match="Did you mean snr_db"):
        find_drops(table, [parse_rule("snr < 1")])
    with pytest.raises(SchemaError, match=r"Expected numbers. Found string"):
        find_drops(table, [parse_rule("label > 1")])


def test_drop_on_the_command_line(tmp_path) -> None:
    lake = datalake.open_lake(tmp_path / "lake")
    data = pa.table(
        {**rows(), "generator": [k[-2:] if "/" in k else None for k in keys(40)["domain"]]}
    )
    lake.create("corpus", data.schema, lineage=Lineage("create")).append(data)

    def curate(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from curation.cli import main; main()", "drop", "corpus",
             *arguments, "--lake", str(tmp_path / "lake")],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    done = curate(
        "--rule", "snr_db < 2", "--rule", "snr_db is missing", "--as", "good",
        "--drops", str(tmp_path / "drops.parquet"), "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["reasons"] == {"snr_db_low": 2, "snr_db_missing": 1}
    kept = lake.selection("good")
    assert len(kept) == 37
    assert kept.method == "drop"
    assert kept.parameters["rules"] == ["snr_db < 2", "snr_db is missing"]
    assert sum(kept.manifest["num_rows"].to_pylist()) == 40
    assert pq.read_table(tmp_path / "drops.parquet").num_rows == 3
    assert "Every row breaks a rule" in curate("--rule", "rms_dbfs > -1000").stderr
    assert curate("--rule", "snr_db < 2", "--drops", "x.txt").returncode == 2
