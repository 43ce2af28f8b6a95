"""`curate dedup`: what it prints, saves and refuses."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.csv as as_csv
import pyarrow.parquet as as_parquet
import pytest

import datalake
from curation.cli.app import app
from curation.duplicates import equal_rows, near_duplicates
from datalake import Lineage
from datalake.cli import console
from datalake.pipelines.ingest import ingest
from tests.curation.select.corpora import KEYS, key_table
from tests.speech import write_speech

CREATED = Lineage("create")


def curate(capsys, *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        console.run(app, "curate", args)
    out, err = capsys.readouterr()
    return leaving.value.code, out, err


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dedup")
    source = write_speech(folder / "speech")
    # A file under a second name, in the place of one of its domain.
    copied = sorted((source / "studio").glob("vocoder-b*.flac"))
    shutil.copy(copied[0], copied[1])
    lake = datalake.open_lake(folder / "lake")
    ingest(lake, source, "corpus", executor="local")
    return lake


@pytest.mark.parametrize("by", ["bytes", "samples", "audio"])
def test_a_copy_goes_and_what_is_kept_is_a_selection(lake, tmp_path, capsys, by) -> None:
    drops = tmp_path / ("drops.csv" if by == "bytes" else "drops.parquet")
    code, out, err = curate(
        capsys, "dedup", "corpus", "--lake", lake.location.uri, "--by", by,
        "--as", f"once_{by}", "--drops", str(drops), "--json", "--quiet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert (said["num_considered"], said["num_dropped"], said["num_rows"]) == (94, 1, 93)
    assert said["num_uncovered"] == said["num_label_conflicts"] == 0
    written = as_csv.read_csv(drops) if by == "bytes" else as_parquet.read_table(drops)
    row = written.to_pylist()[0]
    selection = lake.selection(f"once_{by}")
    ids = selection.rows["utt_id"].to_pylist()
    assert row["kept_by_id"] in ids
    assert row["utt_id"] not in ids
    assert selection.parameters["by"] == ("sha256" if by == "bytes" else by)
    bound = {line["domain"] for line in selection.manifest.to_pylist() if line["binds"]}
    assert bound == {"studio/vocoder-b"}


def test_people_get_a_summary_and_hear_of_labels_that_differ(lake, capsys, caplog) -> None:
    code, out, _ = curate(
        capsys, "dedup", "corpus", "--lake", lake.location.uri, "--by", "speaker_id", "--best-by",
        "duration_s",
    )  # fmt: skip
    assert code == 0
    assert "dropped     89" in out
    assert "not saved" in out
    labels = dict(
        zip(*lake["corpus"].scan(["utt_id", "label"]).read_all().to_pydict().values(), strict=True)
    )
    found = equal_rows(lake["corpus"], "speaker_id", best_by="duration_s").drops.to_pylist()
    count = sum(labels[row["utt_id"]] != labels[row["kept_by_id"]] for row in found)
    assert f"{count} dropped rows have another label" in caplog.text


def test_semdedup_is_a_baseline_that_selections_act_within(tmp_path, capsys) -> None:
    keys = key_table({"a": 20, "a/x": 40})
    vectors = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
    # Chains: each vector a little further from the first.
    vectors[20:50] = vectors[20] + np.linspace(0, 3, 30)[:, None] * vectors[1]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    lake = datalake.open_lake(tmp_path / "lake")
    table = lake.create("corpus", KEYS.append(pa.field("vector", column.type)), lineage=CREATED)
    table = table.append(keys.append_column("vector", column))
    options = ["corpus", "--lake", lake.location.uri, "--json", "--quiet"]
    code, out, _ = curate(
        capsys, "dedup", *options, "--by", "vector", "--rule", "semdedup", "--threshold", ".99",
        "--probes", "1", "--as", "semdedup",
    )  # fmt: skip
    found = near_duplicates(table, "vector", 0.99, rule="semdedup", num_probes=1)
    assert code == 0
    assert json.loads(out)["num_uncovered"] == found.num_uncovered > 0
    kept = lake.selection("semdedup")
    assert kept.rows["row_index"].to_pylist() == found.kept["row_index"].to_pylist()
    assert kept.parameters["num_probes"] == 1
    code, out, _ = curate(
        capsys, "select", *options, "--within", "semdedup", "--method", "random", "--budget", "9"
    )
    assert (code, json.loads(out)["num_rows"]) == (0, 9)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--by", "embeding"], "no column embeding"),
        (["--rule", "covr"], "no rule covr"),
        (["--drops", "x.txt"], "cannot be written so"),
        (["--by", "audio", "--threshold", "0.2"], "threshold"),
        (["--threshold", "0.9"], "no --threshold"),
        (["--by", "audio", "--rule", "semdedup"], "no --rule semdedup"),
        (["--by", "bytes", "--probes", "1"], "no --probes"),
        (["--best-by", "snr"], "no column snr"),
    ],
)
def test_what_cannot_be_done_is_one_paragraph(lake, capsys, options, why) -> None:
    code, out, err = curate(capsys, "dedup", "corpus", "--lake", lake.location.uri, *options)
    assert code == 2
    assert out == ""
    assert why in err
    assert "Traceback" not in err
