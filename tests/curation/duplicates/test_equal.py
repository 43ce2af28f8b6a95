"""Equal rows and equal samples, against a dictionary."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from curation.duplicates import equal_rows, equal_samples
from curation.order import place
from datalake import tables
from datalake.errors import SchemaError
from datalake.schema import media_field


@pytest.mark.parametrize("flip", [1, -1])
def test_the_first_in_hash_order_is_kept_whatever_the_row_order(tmp_path, flip) -> None:
    ids = [f"s/{number}" for number in range(60)][::flip]
    same = {name: None if name.endswith("7") else name[-1] for name in ids}
    rows = pa.table({"utt_id": ids, "sha256": pa.array(same.values(), pa.string())})
    table = tables.create_table(str(tmp_path / "t.lance"), rows.schema, format="lance").append(rows)
    first: dict[str, str] = {}
    for name in sorted(ids, key=lambda name: place(0, name)):
        if same[name] is not None:
            first.setdefault(same[name], name)
    wanted = {n: first[k] for n, k in same.items() if k is not None and first[k] != n}
    found = equal_rows(table)
    drops = found.drops.to_pylist()
    assert {row["utt_id"]: row["kept_by_id"] for row in drops} == wanted
    assert all(ids[row["row_index"]] == row["utt_id"] for row in drops)
    assert all(ids[row["kept_by"]] == row["kept_by_id"] for row in drops)
    assert {row["reason"] for row in drops} == {"equal_sha256"}
    assert set(found.kept["utt_id"].to_pylist()) == set(ids) - set(wanted)
    assert found.left_out == {"null": 6}
    with pytest.raises(SchemaError, match="sha256"):
        equal_rows(table, "sha25")


def test_the_best_is_kept_and_only_rows_considered_count(tmp_path) -> None:
    rows = pa.table(
        {
            "utt_id": list("abcdef"),
            "sha256": ["x", "x", "x", "y", "y", None],
            "snr_db": [1.0, float("nan"), 3.0, None, None, 9.0],
        }
    )
    table = tables.create_table(str(tmp_path / "t.lance"), rows.schema, format="lance").append(rows)
    found = equal_rows(table, best_by="snr_db").drops.to_pylist()
    kept_by = {row["utt_id"]: row["kept_by_id"] for row in found}
    assert kept_by.pop("a") == kept_by.pop("b") == "c"
    assert kept_by in ({"d": "e"}, {"e": "d"})
    few = equal_rows(table, best_by="snr_db", where="utt_id < 'c'")
    assert few.num_rows == 2
    assert few.drops["utt_id"].to_pylist() == ["b"]


def file_of(samples: np.ndarray, kind: str = "WAV", rate_hz: int = 8000) -> bytes:
    sink = io.BytesIO()
    whole = np.rint(samples * 32767).clip(-32768, 32767).astype(np.int16)  # the same in each kind
    soundfile.write(sink, whole, rate_hz, format=kind, subtype="PCM_16")
    return sink.getvalue()


def table_of(folder, files: dict[str, bytes | None]):
    schema = pa.schema([pa.field("utt_id", pa.string()), media_field("audio", "audio")])
    rows = pa.table({"utt_id": list(files), "audio": list(files.values())}, schema=schema)
    return tables.create_table(str(folder), schema, format="lance").append(rows)


def test_containers_are_nothing_and_samples_rate_and_channels_all(tmp_path) -> None:
    wave = np.random.default_rng(0).normal(0, 0.1, 4000)
    louder = wave.copy()
    louder[7] += 0.001
    table = table_of(
        tmp_path / "t",
        {
            "wav": file_of(wave),
            "flac": file_of(wave, "FLAC"),
            "faster": file_of(wave, rate_hz=16000),
            "stereo": file_of(np.stack([wave, wave], 1)),
            "stereo flac": file_of(np.stack([wave, wave], 1), "FLAC"),
            "one sample": file_of(louder),
            "halves": file_of(wave.reshape(2, -1).T),
            "broken": b"RIFF",
            "none": None,
        },
    )
    found = equal_samples(table)
    pairs = {frozenset((r["utt_id"], r["kept_by_id"])) for r in found.drops.to_pylist()}
    assert pairs == {frozenset(("wav", "flac")), frozenset(("stereo", "stereo flac"))}
    assert sum(found.left_out.values()) == 2
    assert found.left_out["there is no audio"] == 1
    assert set(found.drops["reason"].to_pylist()) == {"equal_samples"}
