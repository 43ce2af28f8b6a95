"""`datalake plan` as people call it."""

from __future__ import annotations

import json

from tests.cli.conftest import NUM_ROWS, Cli


def test_a_table_is_planned_without_a_run(cli: Cli) -> None:
    run = ("plan", "corpus", "--cpu-us", "100", "--step-s", ".1", "--threads", "1")
    done = cli(*run)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith("first epoch")
    assert "mix" in done.stdout
    found = json.loads(cli(*run, "--json").stdout)
    assert found["num_examples"] == NUM_ROWS
    assert found["later"]["limit"] == "step"
    assert found["costs"]["cpu_s"] == 1e-4
    few = json.loads(cli(*run, "--json", "--selection", "few", "--order", "blocks").stdout)
    assert few["num_examples"] == 2


def test_rows_are_measured(cli: Cli) -> None:
    done = json.loads(
        cli("plan", "corpus", "--columns", "utt_id,audio", "--calibrate-s", ".05", "--json").stdout
    )
    assert done["costs"]["num_examples"] >= NUM_ROWS


def test_what_cannot_be_planned(cli: Cli) -> None:
    for wrong, words in (
        (("corpse",), "corpus"),
        (("corpus", "--calibrate-s", "0"), "--cpu-us"),
        (("corpus", "--cpu-us", "9", "--cache", "lots"), "200GB"),
        (("corpus", "--cpu-us", "9", "--working-set", "half", "--order", "blocks"), "0.25"),
        (("corpus", "--cpu-us", "9", "--working-set", "8"), "--order blocks"),
        (("corpus", "--cpu-us", "9", "--world-size", "3", "--nodes", "2"), "multiple"),
        (("corpus",), "makes no example"),
    ):
        done = cli("plan", *wrong)
        assert done.returncode == 2, (wrong, done.stderr)
        assert words in done.stderr
