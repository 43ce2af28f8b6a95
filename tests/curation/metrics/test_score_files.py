"""`curate score` on the files of the ASVspoof 5 evaluation package: scores here, keys there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as as_csv
import pytest

from curation import metrics
from curation.cli.app import app
from datalake.cli import console

RNG = np.random.default_rng(5)
KINDS = np.array(["target"] * 40 + ["nontarget"] * 50 + ["spoof"] * 60)
NUM = len(KINDS)
CM = np.where(KINDS == "spoof", RNG.normal(-1, 1, NUM), RNG.normal(1, 1, NUM)).round(1)
ASV = np.where(KINDS == "nontarget", RNG.normal(-2, 1, NUM), RNG.normal(1, 1, NUM)).round(1)
SASV = (CM + ASV).round(1)
TRIALS = {
    # Speakers share utterances: the two together tell trials apart.
    "spk": [f"E_{number // 50}" for number in range(NUM)],
    "filename": [f"E_{number % 50:06d}" for number in range(NUM)],
}
SCORES = pa.table({**TRIALS, "cm-score": CM, "asv-score": ASV, "sasv-score": SASV})
LABELS = np.where(KINDS == "spoof", "spoof", "bonafide")
KEYS = pa.table({**TRIALS, "cm-label": LABELS, "asv-label": KINDS}).take(RNG.permutation(NUM))


def write(path: Path, table: pa.Table, delimiter: str = "\t") -> Path:
    options = as_csv.WriteOptions(delimiter=delimiter, quoting_style="none")
    as_csv.write_csv(table, path, options)
    return path


@pytest.fixture
def score(capsys):
    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            console.run(app, "curate", ["score", *map(str, arguments)])
        return leaving.value.code, *capsys.readouterr()

    return run


def by_kind(scores: np.ndarray) -> list[np.ndarray]:
    return [scores[kind == KINDS] for kind in ("target", "nontarget", "spoof")]


def test_track_two_as_the_package_gives_its_files(tmp_path, score) -> None:
    scores = write(tmp_path / "scores.txt", SCORES)
    keys = write(tmp_path / "keys.tsv", KEYS)
    code, out, err = score(
        scores, "--key", keys, "--metric", "min_t_dcf,a_dcf,t_eer", "--resamples", 0, "--json"
    )
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["a_dcf"] == metrics.a_dcf(*by_kind(SASV))
    assert found["t_eer"] == metrics.t_eer(*by_kind(np.column_stack([ASV, CM])))
    bonafide, spoof = CM[KINDS != "spoof"], CM[KINDS == "spoof"]
    assert found["rows"][0]["min_t_dcf"] == metrics.min_t_dcf(bonafide, spoof)
    code, out, _ = score(scores, "--key", keys, "--metric", "a_dcf,eer", "--resamples", 0)
    assert f"{metrics.a_dcf(*by_kind(SASV)):.4f}".rstrip("0") in out
    assert "pooled" in out


def test_track_one_with_the_full_key(tmp_path, score) -> None:
    first = SCORES.slice(0, 50)
    scores = write(tmp_path / "cm.tsv", first.select(["filename", "cm-score"]))
    # Other names, and spaces between.
    full = pa.table({"trial_anon": first["filename"], "cm-label": ["bonafide", "spoof"] * 25})
    keys = write(tmp_path / "keys.txt", full, " ")
    code, out, err = score(scores, "--key", keys, "--metric", "eer", "--resamples", 0, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["rows"][0]["eer"] == metrics.eer(CM[:50:2], CM[1:50:2])


def test_a_verifier_in_a_file_of_its_own(tmp_path, score) -> None:
    scores = write(tmp_path / "cm.tsv", SCORES.drop_columns(["asv-score", "sasv-score"]))
    keys = write(tmp_path / "keys.tsv", KEYS)
    asv = write(tmp_path / "asv.tsv", SCORES.select(["spk", "filename", "asv-score"]))
    code, out, err = score(scores, "--key", keys, "--asv", asv, "--metric", "t_eer", "--json")
    assert (code, err) == (0, "")
    wanted = metrics.t_eer(*by_kind(np.column_stack([ASV, CM])))
    assert json.loads(out) == {"file": str(scores), "num_trials": NUM, "t_eer": wanted}
    code, out, err = score(scores, "--key", keys, "--asv", asv, "--metric", "a_dcf")
    assert (code, out) == (2, "")
    assert "no column 'sasv-score'" in err


@pytest.mark.parametrize(
    ("change", "arguments", "said"),
    [
        (lambda keys: keys.slice(1), [], "1 scores have no line in the other file"),
        (lambda keys: pa.concat_tables([keys, keys.slice(0, 1)]), [], "more than once"),
        (lambda keys: keys.select(["cm-label"]), [], "which trials are the same"),
        (lambda keys: keys.select(["spk", "filename", "cm-label"]), ["a_dcf"], "no column 'asv-l"),
        (
            lambda keys: keys.set_column(3, "asv-label", pa.array(["tagret"] * NUM)),
            ["a_dcf"],
            "target, nontarget, spoof. Found tagret",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, score, change, arguments, said) -> None:
    scores = write(tmp_path / "scores.tsv", SCORES)
    keys = write(tmp_path / "keys.tsv", change(KEYS))
    code, out, err = score(scores, "--key", keys, "--metric", *(arguments or ["eer"]))
    assert (code, out) == (2, "")
    assert said in err
