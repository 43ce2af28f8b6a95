"""Measures as columns of a table."""

from __future__ import annotations

import importlib.util

import pyarrow as pa
import pytest

import datalake
from curation.quality.audio import AUDIO
from curation.quality.audio_fingerprint import FINGERPRINT
from curation.quality.dnsmos import DNSMOS
from curation.quality.measures import load_measure
from datalake import Lineage
from datalake.errors import MissingPackageError, NotFoundError
from datalake.pipelines.annotation import annotate
from datalake.schema import media_field
from tests.curation.quality.test_audio import file_of, speech


def test_measures_become_columns_of_a_table(tmp_path) -> None:
    lake = datalake.open_lake(tmp_path / "lake")
    schema = pa.schema([pa.field("utt_id", pa.string()), media_field("audio", "audio")])
    files = [file_of(speech(0.6, seed)) for seed in range(5)] + [b"broken"]
    rows = pa.table({"utt_id": list("abcdef"), "audio": files}, schema=schema)
    lake.create("corpus", schema, lineage=Lineage("create")).append(rows)
    report = annotate(lake, "corpus", AUDIO, executor="local", rows_per_unit=2)
    assert (report.num_annotated, report.num_failed) == (5, 1)
    annotate(lake, "corpus", FINGERPRINT, executor="local")
    table = lake["corpus"].scan([*AUDIO.adds.names, "fingerprint"]).read_all()
    alone = AUDIO.open()(rows.select(["audio"])).drop_columns(["error"])
    assert table.drop_columns(["fingerprint"]).to_pydict() == alone.to_pydict()
    assert table["fingerprint"].null_count == 1
    assert lake["corpus"].count_rows("peak_dbfs < -1 AND snr_db IS NOT NULL") == 5


def test_a_measure_that_is_not_there_is_said() -> None:
    with pytest.raises(NotFoundError, match="no measure 'adio'"):
        load_measure("adio")


@pytest.mark.skipif(
    importlib.util.find_spec("speechmos") is not None, reason="speechmos is installed"
)
def test_dnsmos_says_what_it_lacks() -> None:
    with pytest.raises(MissingPackageError, match="pip install speechmos onnxruntime librosa"):
        DNSMOS.open()


@pytest.mark.skipif(importlib.util.find_spec("speechmos") is None, reason="needs speechmos")
def test_dnsmos_scores_each_row_by_itself() -> None:
    files = [file_of(speech(2.0)), b"broken", file_of(speech(1.0, 1))]
    rows = pa.table({"audio": pa.array(files, pa.large_binary())})
    score = DNSMOS.open()
    made = score(rows)
    assert made.drop_columns(["error"]).schema == DNSMOS.adds
    assert made["dnsmos_overall"].null_count == 1
    assert all(1 <= value <= 5 for value in made["dnsmos_p808"].drop_null().to_pylist())
    assert score(rows.slice(2, 1)).to_pydict() == made.slice(2, 1).to_pydict()
