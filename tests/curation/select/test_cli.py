"""`curate select` as a user runs it: in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import curation
import datalake
from curation.selection import OrderOptions
from datalake import Lineage
from tests.curation.select.corpora import KEYS, key_table
from tests.curation.select.test_orders import corpus
from tests.patience import PATIENCE_S

CURATE = [sys.executable, "-c", "from curation.cli import main; main()"]


@pytest.fixture(scope="module")
def lake_uri(tmp_path_factory) -> str:
    uri = str(tmp_path_factory.mktemp("select") / "lake")
    table = datalake.open_lake(uri).create("corpus", KEYS, lineage=Lineage("create"))
    table.append(key_table({"a": 90, "r": 6, **{f"a/g{number}": 30 for number in range(25)}}))
    return uri


def curate(lake_uri: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CURATE, "select", *arguments, "--lake", lake_uri],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_selects_and_saves_with_lineage(lake_uri: str) -> None:
    done = curate(lake_uri, "corpus", "--cap", "4", "--seed", "2", "--as", "four", "--json")
    assert done.returncode == 0
    assert done.stderr.startswith("WARNING: The ratio reached is 0.96 where 1 was asked")
    facts = json.loads(done.stdout)
    assert facts["totals"]["spoof"]["num_kept"] == 100
    assert facts["totals"]["bonafide"]["num_kept"] == 96
    assert facts["ratio_reached"] == 0.96
    assert len(facts["remarks"]) == 1
    lake = datalake.open_lake(lake_uri)
    selection = lake.selection("four")
    assert len(selection) == facts["num_rows"] == 196
    assert selection.manifest.to_pylist() == facts["manifest"]
    entry = lake.log("four")[-1]
    assert entry.version == facts["version"]
    assert (entry.operation, entry.inputs) == ("select", {"corpus": lake["corpus"].version})
    assert entry.config["cap"] == 4
    assert entry.config["seed"] == 2

    like = curate(lake_uri, "corpus", "--method", "random", "--like", "four", "--as", "as_many")
    assert like.returncode == 0
    assert len(lake.selection("as_many")) == 196
    assert lake.log("as_many")[-1].inputs.keys() == {"corpus", "four"}


def test_shows_the_largest_domains_and_what_became_of_the_mixture(lake_uri: str) -> None:
    done = curate(lake_uri, "corpus", "--cap", "30", "--ratio", "0.1")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].split() == [
        "domain", "label", "rows", "kept", "hours", "hours", "kept", "retention", "share", "binds"
    ]  # fmt: skip
    # The hours kept depend on which rows those are.
    first = lines[1].split()
    assert first[:5] + first[6:] == ["a", "bonafide", "90", "75", "0.062", "0.833", "0.091", "yes"]
    assert lines[21] == "… and 7 smaller domains (--all shows them)"
    # 25 spoof domains of 30 rows (73 s) each, before and after.
    spoof = next(line.split() for line in lines if line.startswith("spoof"))
    assert spoof == ["spoof", "25", "750", "750", "0.909", "0.507", "0.507", "25", "25"]
    assert "selection      not saved (--as)" in lines
    assert done.stderr.startswith("WARNING: The cap of 30 binds no spoof domain")
    assert datalake.open_lake(lake_uri).tables() == ["corpus"]

    complete = curate(lake_uri, "corpus", "--cap", "30", "--all").stdout
    assert "smaller domains" not in complete
    assert complete.count("a/g") == 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["corpsu", "--cap", "3"], "There is no table 'corpsu'.*Did you mean corpus"),
        (["corpus", "--cap", "3", "--method", "dos"], "Did you mean doss"),
        (["corpus", "--cap", "3", "--real-mode", "totl"], "Did you mean total"),
        (["corpus", "--cap", "0"], "cap is a number of rows. Expected 1 or more. Found 0"),
        (["corpus", "--method", "random", "--budget", "3", "--like", "x"], "--budget and --like"),
        (["corpus", "--method", "random", "--like", "none"], "There is no selection 'none'"),
        (["corpus", "--cap", "3", "--as", "corpus"], "The name 'corpus' is taken"),
    ],
)
def test_a_request_that_cannot_be_met_is_one_paragraph(lake_uri, arguments, message) -> None:
    done = curate(lake_uri, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    *_, paragraph = done.stderr.splitlines()
    assert re.match(f"error: .*{message}", paragraph)
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def embedded(lake_uri: str) -> str:
    lake = datalake.open_lake(lake_uri)
    rows = corpus({"a": 30, "a/x": 60})
    lake.create("embedded", rows.schema, lineage=Lineage("create")).append(rows)
    return lake_uri


def test_an_order_is_given_saved_and_shown(embedded: str) -> None:
    arguments = ["embedded", "--cap", "9", "--order", "facility_location", "--embedding", "voice"]
    done = curate(embedded, *arguments, "--num-neighbors", "8", "--as", "covering")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith("order value")
    selection = datalake.open_lake(embedded).selection("covering")
    expected = curation.select(
        datalake.open_lake(embedded)["embedded"],
        table_name="embedded",
        cap=9,
        order="facility_location",
        order_options=OrderOptions(embedding="voice", num_neighbors=8),
    )
    assert selection.digest == expected.digest
    assert selection.parameters["order"] == "facility_location"
    values = {row["domain"]: row["order_value"] for row in selection.manifest.to_pylist()}
    assert float(lines[1].split()[-1]) == round(values["a/x"], 3)
    assert datalake.open_lake(embedded).log("covering")[-1].config["embedding"] == "voice"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--order", "k_centre"], "There is no order 'k_centre'. Did you mean k_center"),
        (["--order", "quality", "--quality", "snr"], "not there.*curate measure.*snr_db"),
    ],
)
def test_an_order_that_cannot_be_is_one_paragraph(embedded, arguments, message) -> None:
    done = curate(embedded, "embedded", "--cap", "9", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(f"error: .*{message}", done.stderr.splitlines()[-1])
