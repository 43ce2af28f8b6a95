"""`curate probe` as a user runs it, on a lake of small real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import datalake
from curation.cli.app import app
from curation.probe import EMBEDDING_MLP
from curation.selection import select, weigh
from datalake.cli import console
from datalake.lake import Lineage
from datalake.schema import UTTERANCES
from tests.curation.probe.corpora import separable

QUICK = ("--steps", "6", "--batch-size", "8", "--check-every", "3", "--seconds", "0.5")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    opened = datalake.open_lake(root)
    for name, table in (("corpus", separable()), ("heldout", separable(10, 6, first=3000))):
        made = opened.create(name, UTTERANCES, lineage=Lineage("test"))
        made.append(table.scan().read_all())
    return root


def curate(lake: Path, capfd: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        console.run(app, "curate", ["probe", *args, "--lake", str(lake)])
    out, err = capfd.readouterr()
    assert isinstance(leaving.value.code, int)
    return leaving.value.code, out, err


def test_a_table_of_its_own(lake: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, printed, err = curate(
        lake, capfd, "corpus", "--test", "heldout", *QUICK, "--out", str(out)
    )
    assert code == 0, err
    assert "studio/a" in printed
    assert "(pooled)" in printed
    assert "(macro)" in printed
    assert "note: 2 values of generator are in training and test" in printed
    assert "step 3/6" in err
    assert sorted(path.name for path in out.iterdir()) == [
        *("detector-0.pt", "report.json", "scores-0.parquet")
    ]


def test_json_and_lineage(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, printed, err = curate(
        lake, capfd, "corpus", "--hold-out", "b", *QUICK, "--json", "--quiet"
    )
    assert code == 0
    assert err == ""
    report = json.loads(printed)
    lineage = report["lineage"]
    assert lineage["datalake.operation"] == "probe"
    assert json.loads(lineage["datalake.inputs"]) == {"corpus": 2}
    assert [line["domain"] for line in report["by_domain"]] == ["studio/b", None, None]
    assert not [each for each in report["overlaps"] if each["column"] == "generator"]
    assert "held out by utt_id; 0 rows neither" in report["remark"]


def test_both_sides_of_a_hold_out_may_be_narrowed(
    lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    narrow = ("--where", "source = 'studio'", "--test-where", "source = 'phone' OR generator = 'b'")
    code, printed, err = curate(
        lake, capfd, "corpus", "--hold-out", "b", *narrow, *QUICK, "--json", "--quiet"
    )
    assert code == 0, err
    report = json.loads(printed)
    (run,) = report["seeds"]
    pooled = run["by_domain"][-2]
    assert pooled["num_spoof"] == 6
    # 12 bona fide rows are held out: the phone's are tested, the studio's lack among its 40 rows.
    trained_on = run["num_training_rows"] + run["num_validation_rows"]
    assert 0 < pooled["num_bonafide"] < 12
    assert pooled["num_bonafide"] + (40 - trained_on) == 12


def test_a_selection_is_all_that_is_trained_on(
    lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = datalake.open_lake(lake)
    selection = select(opened["corpus"], table_name="corpus", cap=6, name="six")
    opened.save_selection(selection, Lineage("select"))
    code, printed, _ = curate(
        lake, capfd, "corpus", "--selection", "six", "--test", "heldout", *QUICK, "--json"
    )
    assert code == 0
    report = json.loads(printed)
    (run,) = report["seeds"]
    assert run["num_training_rows"] + run["num_validation_rows"] == len(selection)
    assert set(json.loads(report["lineage"]["datalake.inputs"])) == {"corpus", "heldout", "six"}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("corpus",), "either --test TABLE or --hold-out"),
        (("corpus", "--test", "heldout", "--hold-out", "b"), "Found both"),
        (("corpus", "--test", "corpus"), "trained on"),
        (("corpus", "--test", "held"), "heldout"),
        (("corpus", "--hold-out", "bb"), "No row has the generator 'bb'"),
        (("corpus", "--test", "heldout", "--selection", "sixx"), "sixx"),
        (("corpus", "--test", "heldout", "--detector", "lfc_lcnn"), "lfcc_lcnn"),
        (("corpus", "--test", "heldout", "--by", "speaker"), "domain or generator"),
        (("corpus", "--test", "heldout", "--weigh-loss"), "--weights NAME"),
        (("corpus", "--test", "heldout", "--sampling", "weights"), "--weights NAME"),
        (("corpus", "--test", "heldout", "--sampling", "natrual"), "natural"),
        (("corpus", "--test", "heldout", "--codecs", "mp4"), "mp3"),
        (("corpus", "--test", "heldout", "--rawboost", "9"), "1 to 8"),
        (("corpus", "--test", "heldout", "--embedding", "speaker"), "hears audio"),
        (("corpus", "--test", "heldout", "--out", "/proc/out"), "/proc/out"),
        (("corpus", "--test", "heldout", "--where", "label = 'spoof'"), "no bona fide rows"),
    ],
)
def test_a_request_that_cannot_be_met(
    lake: Path, capfd: pytest.CaptureFixture[str], args: tuple[str, ...], expected: str
) -> None:
    code, printed, err = curate(lake, capfd, *args, *QUICK, "--quiet")
    assert code == 2
    assert printed == ""
    assert expected in err
    assert "Traceback" not in err


def test_weights_of_a_saved_selection_draw_rows(
    lake: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = datalake.open_lake(lake)
    weights = weigh(
        opened["corpus"], table_name="corpus", cap=6, where="domain <> 'studio/b'", name="weights"
    )
    opened.save_selection(weights, Lineage("weigh"))
    asked = ("corpus", "--weights", "weights", "--test", "heldout", *QUICK, "--json", "--quiet")
    for more, sampling in ((), "weights"), (("--weigh-loss",), "balanced"):
        code, printed, err = curate(lake, capfd, *asked, *more)
        assert code == 0, err
        report = json.loads(printed)
        assert report["settings"]["sampling"] == sampling
        assert report["settings"]["weighted_loss"] is bool(more)
        assert set(json.loads(report["lineage"]["datalake.inputs"])) == {
            *("corpus", "heldout", "weights")
        }
        (run,) = report["seeds"]
        assert run["num_training_rows"] + run["num_validation_rows"] == 40 + 20


def test_options_are_told_of(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = (
        *("--rawboost", "5", "--codecs", "ulaw,mp3", "--augmented-share", "0.5"),
        *("--prototypes", "2", "--latent-augmentation", "--sam", "0.05", "--sharpness", "0.05"),
        *("--sampling", "domains"),
    )
    code, printed, err = curate(
        lake, capfd, "corpus", "--test", "heldout", *QUICK, *options, "--quiet"
    )
    assert code == 0, err
    assert "examples by what was done to them:" in printed
    assert "rawboost 5: " in printed
    assert "on validation" in printed
    code, printed, err = curate(
        lake, capfd, "corpus", "--test", "heldout", *QUICK, *options, "--quiet", "--json"
    )
    settings = json.loads(printed)["settings"]
    assert settings["codecs"] == ["ulaw", "mp3"]
    assert settings["sam_rho"] == settings["sharpness_rho"] == 0.05
    assert (settings["rawboost"], settings["num_spoof_prototypes"]) == (5, 2)
    assert settings["latent_augmentation"] is True


def test_an_embedding_column_is_read(
    lake: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curation.probe.load_design", lambda name: EMBEDDING_MLP)
    code, _, err = curate(
        lake, capfd, "corpus", "--test", "heldout", "--embedding", "speaker", *QUICK, "--quiet"
    )
    assert code == 2
    assert "no embedding 'speaker'" in err


def test_overlap_can_be_dropped(lake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    where = "generator = 'a' OR (label = 'bonafide' AND source = 'phone')"
    code, _, err = curate(
        lake, capfd, "corpus", "--test", "corpus", "--test-where", where, "--drop-overlap", *QUICK
    )
    assert code == 0, err
