"""`ls`, `info`, `head`, `log`, `versions`, `quarantine`: what they print."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from datalake.lake import open_lake
from tests.cli.conftest import NUM_ROWS, Cli, utterances


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_ls(cli: Cli) -> None:
    done = cli("ls")
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout) == [
        ["name", "kind", "format", "version"],
        ["corpus", "table", "lance", "2"],
        ["corpus.quarantine", "table", "lance", "2"],
        ["few", "selection", "lance", "2"],
    ]
    assert json.loads(cli("ls", "--json").stdout)[2] == {
        "name": "few",
        "kind": "selection",
        "format": "lance",
        "version": 2,
    }


def test_info_of_a_table(cli: Cli) -> None:
    done = cli("info", "corpus", "--json")
    facts = json.loads(done.stdout)
    assert (facts["kind"], facts["format"], facts["version"]) == ("table", "lance", 2)
    assert facts["num_rows"] == NUM_ROWS
    assert facts["num_bytes"] > NUM_ROWS * 48_200
    assert facts["columns"][0] == {"column": "utt_id", "type": "string", "nullable": False}
    assert facts["columns"][-1] == {"column": "audio", "type": "audio", "nullable": True}
    assert facts["labels"] == [
        {"label": "spoof", "num_rows": 20},
        {"label": "bonafide", "num_rows": 10},
    ]
    assert {row["domain"]: row["num_rows"] for row in facts["domains"]} == {
        "small": 10,
        "small/tts": 10,
        "small/vc": 10,
    }


def test_info_for_a_person(cli: Cli) -> None:
    done = cli("info", "corpus", "--no-counts")
    pairs = dict(line[:2] for line in lines(done.stdout)[:11] if line)
    assert pairs["num_rows"] == str(NUM_ROWS)
    assert "MB" in done.stdout
    assert "labels" not in done.stdout


def test_info_shows_the_most_frequent_domains(cli: Cli, own_lake: Path) -> None:
    rows = utterances()
    names = pa.array([f"small/g{i}" if i else "large" for i in range(25)] + ["large"] * 5)
    position = rows.schema.get_field_index("domain")
    open_lake(own_lake)["corpus"].overwrite(rows.set_column(position, "domain", names))
    printed = cli("info", "corpus", "--lake", own_lake).stdout
    assert printed.splitlines()[-21].split() == ["large", "6"]
    assert printed.splitlines()[-1] == "… and 5 rarer ones (--json lists all)"
    facts = json.loads(cli("info", "corpus", "--json", "--lake", own_lake).stdout)
    assert len(facts["domains"]) == 25


def test_info_of_a_selection(cli: Cli) -> None:
    facts = json.loads(cli("info", "few", "--json").stdout)
    assert (facts["kind"], facts["method"]) == ("selection", "random")
    assert facts["parameters"] == {"seed": 7}
    assert (facts["table"], facts["table_version"], facts["num_rows"]) == ("corpus", 2, 2)
    assert facts["manifest"][1] == {"domain": "small/tts", "num_rows": 10, "taken": 1}
    assert len(facts["digest"]) == 64


def test_head(cli: Cli) -> None:
    done = cli("head", "corpus", "-n", "2", "--columns", "utt_id,audio,generator", "--where",
               "label = 'spoof'")  # fmt: skip
    assert done.stdout.splitlines() == [
        "utt_id     audio            generator",
        "small/001  <48.2 kB audio>  tts",
        "small/002  <48.2 kB audio>  vc",
    ]
    (row,) = json.loads(cli("head", "corpus", "-n1", "--columns", "audio,label", "--json").stdout)
    assert row == {"audio": {"kind": "audio", "num_bytes": 48_200}, "label": "bonafide"}


def test_head_of_a_selection_keeps_its_order(cli: Cli) -> None:
    rows = json.loads(cli("head", "few", "--json").stdout)
    assert [row["row_index"] for row in rows] == [3, 1]


def test_head_of_no_rows_names_the_columns(cli: Cli) -> None:
    done = cli("head", "corpus", "--columns", "utt_id,label", "--where", "label = 'x'")
    assert (done.returncode, done.stdout) == (0, "utt_id  label\n")


@pytest.mark.parametrize("name", ["corpus", "few"])
def test_log(cli: Cli, name: str) -> None:
    made, latest = json.loads(cli("log", name, "--json").stdout)
    assert (made["version"], latest["version"]) == (1, 2)
    if name == "few":
        assert (latest["operation"], latest["inputs"]) == ("select", {"corpus": 2})
    else:
        assert (latest["operation"], latest["config"]) == ("ingest", {"path": "corpora/small"})
        assert latest["tags"] == ["selection.few.2"]
    printed = cli("log", name).stdout
    assert latest["run_id"] in printed
    assert latest["config_sha256"][:12] in printed
    assert latest["code_version"] in printed


def test_versions(cli: Cli) -> None:
    assert [row["version"] for row in json.loads(cli("versions", "corpus", "--json").stdout)] == [
        1,
        2,
    ]
    assert lines(cli("versions", "corpus").stdout)[2][-1] == "selection.few.2"


def test_quarantine(cli: Cli) -> None:
    done = cli("quarantine", "corpus")
    assert lines(done.stdout)[:3] == [
        ["reason", "num_rows"],
        ["truncated", "2"],
        ["no_protocol_row", "1"],
    ]
    assert ["truncated", "a.wav", "small/a", "at", "1.2", "s"] in lines(done.stdout)
    found = json.loads(cli("quarantine", "corpus", "--reason", "no_protocol_row", "--json").stdout)
    assert found["reasons"] == {"no_protocol_row": 1}
    assert [row["path"] for row in found["rows"]] == ["c.wav"]


def test_quarantine_of_a_table_without_refusals(cli: Cli) -> None:
    assert cli("quarantine", "corpus.quarantine").returncode == 0
    bad = cli("quarantine", "corpus", "--reason", "trunkated")
    assert (bad.returncode, "Did you mean truncated" in bad.stderr) == (2, True)


def test_detect(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "manifest.csv").write_text("path,label\na.wav,bonafide\n")
    (best, *_) = json.loads(cli("detect", folder, "--json").stdout)
    assert (best["connector"], best["confidence"] > 0) == ("manifest", True)
    printed = cli("detect", folder).stdout
    assert printed.startswith("manifest  0.")
    assert best["found"][0] in printed


def test_detect_of_nothing_known(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = cli("detect", "empty")
    assert (done.returncode, "No connector recognises" in done.stderr) == (2, True)
    assert json.loads(cli("detect", "empty", "--json").stdout) == []
