"""What an ingest does to a table: once, again, and after the corpus has changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import pyarrow as pa
import pytest

import curation
from datalake.errors import (
    ExistsError,
    InputError,
    NotFoundError,
    SchemaError,
    StoppedError,
    StoreError,
)
from datalake.lake import Lake, Lineage, open_lake
from datalake.pipelines import RunReport, ingest
from datalake.pipelines.executors import LocalExecutor
from datalake.pipelines.plan import Planner
from datalake.pipelines.workspace import shared_folder
from datalake.schema import UTTERANCES
from tests.pipelines.corpora import ManifestCorpus, quarantined, rows_of, sha256, wav


@pytest.fixture
def corpus(tmp_path: Path) -> ManifestCorpus:
    corpus = ManifestCorpus(tmp_path / "speech")
    corpus.fill(40)
    corpus.write()
    return corpus


@pytest.fixture(params=["memory", "lance", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "memory":
        return open_lake(f"memory://{tmp_path.name}")
    lake = open_lake(tmp_path / "lake")
    if request.param == "delta":
        # Only the first ingest says the format: afterwards the table has it.
        lake.create("corpus", UTTERANCES, format="delta", lineage=Lineage("test"))
    return lake


@pytest.fixture
def lance_lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


def run(lake: Lake, corpus: ManifestCorpus, **options: object) -> RunReport:
    options = {
        "connector": "manifest",
        "executor": "local",
        "part_rows": 8,
        "max_bad_fraction": 1.0,
        **options,
    }
    return ingest(lake, corpus.root, "corpus", **options)  # type: ignore[arg-type]


def test_every_row_arrives_with_its_bytes_and_its_protocol(
    lake: Lake, corpus: ManifestCorpus
) -> None:
    report = run(lake, corpus)

    rows = rows_of(lake["corpus"])
    assert len(rows) == report.num_added == report.num_items == 40
    assert report.exit_code == 0
    third = rows[3]
    data = wav(3)
    assert third["audio"] == data
    assert {name: third[name] for name in third if name not in ("audio", "part_id", "stamp")} == {
        "utt_id": "speech/clips/0003.wav",
        "source": "speech",
        "generator": "g0",
        "label": "spoof",
        "domain": "speech/g0",
        "speaker_id": "s3",
        "language": None,
        "split": None,
        "duration_s": 400 / 16_000,
        "sample_rate_hz": 16_000,
        "num_channels": 1,
        "codec": "pcm_s16le",
        "sha256": sha256(data),
        "path": "clips/0003.wav",
    }
    assert rows[0]["domain"] == "speech"
    assert report.num_bytes == sum(len(wav(i)) for i in range(40))


def test_a_second_run_does_nothing(lake: Lake, corpus: ManifestCorpus) -> None:
    run(lake, corpus)
    version = lake["corpus"].version

    report = run(lake, corpus)

    assert lake["corpus"].version == version
    assert report.num_finished == 40
    assert (report.num_parts_to_do, report.num_out, report.num_bytes) == (0, 0, 0)


def test_a_grown_corpus_adds_only_what_is_new(lake: Lake, corpus: ManifestCorpus) -> None:
    run(lake, corpus)
    parts = {row["utt_id"]: row["part_id"] for row in rows_of(lake["corpus"])}
    corpus.fill(200, start=40)
    corpus.write()

    report = run(lake, corpus)

    rows = rows_of(lake["corpus"])
    assert [row["utt_id"] for row in rows] == [f"speech/clips/{i:04d}.wav" for i in range(240)]
    assert report.num_added == 200
    assert report.num_unchanged + report.num_finished == 40
    # Old files were not read again, and part ids stay what they were.
    assert report.num_bytes == sum(len(wav(i)) for i in range(40, 240))
    assert {row["utt_id"]: row["part_id"] for row in rows[:40]} == parts


def test_a_changed_file_is_replaced_and_nothing_else_is_read(
    lake: Lake, corpus: ManifestCorpus
) -> None:
    run(lake, corpus)
    before = rows_of(lake["corpus"])
    corpus.put("clips/0007.wav", wav(1007, 500))

    report = run(lake, corpus)

    after = rows_of(lake["corpus"])
    assert (report.num_replaced, report.num_added) == (1, 0)
    assert report.num_bytes == len(wav(1007, 500))
    assert after[7]["audio"] == wav(1007, 500)
    assert after[7]["duration_s"] == 500 / 16_000
    assert [row for i, row in enumerate(after) if i != 7] == [
        row for i, row in enumerate(before) if i != 7
    ]


def test_a_changed_protocol_row_is_replaced(lake: Lake, corpus: ManifestCorpus) -> None:
    run(lake, corpus)
    corpus.rows[4] |= {"label": "spoof", "generator": "new"}
    corpus.write()

    report = run(lake, corpus)

    assert (report.num_replaced, report.num_added) == (1, 0)
    assert rows_of(lake["corpus"])[4]["domain"] == "speech/new"
    assert lake["corpus"].count_rows() == 40


def test_a_copied_corpus_has_new_stamps_and_writes_nothing(
    lake: Lake, corpus: ManifestCorpus
) -> None:
    run(lake, corpus)
    version = lake["corpus"].version
    for path in corpus.root.glob("clips/*"):
        os.utime(path, ns=(1, 1))

    report = run(lake, corpus)

    assert lake["corpus"].version == version
    assert (report.num_unchanged, report.num_out) == (40, 0)
    assert run(lake, corpus).num_finished == 40


def test_vanished_items_are_kept_and_counted(lake: Lake, corpus: ManifestCorpus) -> None:
    run(lake, corpus)
    for row in corpus.rows[:3]:
        (corpus.root / row["path"]).unlink()
    del corpus.rows[:3]
    corpus.write()

    report = run(lake, corpus)

    assert report.num_vanished == 3
    assert lake["corpus"].count_rows() == 40
    assert run(lake, corpus).num_parts_to_do == 0


def test_rows_that_were_deleted_from_the_table_come_back(
    lake: Lake, corpus: ManifestCorpus
) -> None:
    run(lake, corpus)
    expected = rows_of(lake["corpus"])
    lake["corpus"].delete("speaker_id = 's1'")

    report = run(lake, corpus)

    assert report.num_added == 8
    assert rows_of(lake["corpus"]) == expected


def test_transcoding_changes_what_is_stored_and_not_the_hash(
    lake: Lake, corpus: ManifestCorpus
) -> None:
    run(lake, corpus)

    report = run(lake, corpus, transcode="flac16k")

    rows = rows_of(lake["corpus"])
    assert (report.num_replaced, report.num_added, len(rows)) == (40, 0, 40)
    assert {row["codec"] for row in rows} == {"flac"}
    assert [row["sha256"] for row in rows] == [sha256(wav(i)) for i in range(40)]
    assert run(lake, corpus, transcode="flac16k").num_parts_to_do == 0


def test_the_first_good_row_with_an_id_keeps_it(lake: Lake, corpus: ManifestCorpus) -> None:
    # The row with the missing file comes first and must not take the id from the good one.
    corpus.rows.insert(0, {"path": "clips/gone.wav", "id": "clips/0005.wav", "label": "bonafide"})
    corpus.add("other/5.wav", wav(77), id="clips/0005.wav")
    corpus.write()

    report = run(lake, corpus)

    assert rows_of(lake["corpus"])[5]["audio"] == wav(5)
    assert report.refused == {"duplicate_id": 1, "no_file": 1}
    found = {path: (reason, detail) for path, reason, detail in quarantined(lake)}
    assert found["other/5.wav"][0] == "duplicate_id"
    assert "clips/0005.wav" in found["other/5.wav"][1]
    assert found["clips/gone.wav"][0] == "no_file"


def test_the_same_name_in_another_corpus_is_refused(lake: Lake, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        corpus = ManifestCorpus(tmp_path / folder)
        corpus.add("a.wav", wav(1), source="shared")
        corpus.add(f"{folder}.wav", wav(2), source="shared")
        corpus.write()
    run(lake, ManifestCorpus(tmp_path / "one"))

    report = run(lake, ManifestCorpus(tmp_path / "two"))

    assert report.refused == {"duplicate_id": 1}
    assert [row["utt_id"] for row in rows_of(lake["corpus"])] == [
        "shared/a.wav",
        "shared/one.wav",
        "shared/two.wav",
    ]


def test_protocol_columns_of_several_corpora_live_side_by_side(lake: Lake, tmp_path: Path) -> None:
    for name, column in (("one", "room"), ("two", "take"), ("three", "path_")):
        corpus = ManifestCorpus(tmp_path / name)
        corpus.add(f"{name}.wav", wav(1), **{column: f"{column} of {name}"})
        corpus.write()
    run(lake, ManifestCorpus(tmp_path / "one"))

    report = run(lake, ManifestCorpus(tmp_path / "two"))

    assert "take" in report.added_columns
    assert "room" in report.unfilled_columns
    assert "take" in str(report)
    assert "room" in str(report)
    one, two = rows_of(lake["corpus"])
    assert (one["room"], one["take"]) == ("room of one", None)
    assert (two["room"], two["take"]) == (None, "take of two")
    # Adding a column must not make the first corpus look changed.
    assert run(lake, ManifestCorpus(tmp_path / "one")).num_out == 0


def test_a_protocol_column_named_like_ours_gets_a_prefix(lake: Lake, tmp_path: Path) -> None:
    corpus = ManifestCorpus(tmp_path / "speech")
    corpus.add("a.wav", wav(1), duration_s="seven")
    corpus.write()

    run(lake, corpus)

    (row,) = rows_of(lake["corpus"])
    assert row["protocol_duration_s"] == "seven"
    assert row["duration_s"] == 400 / 16_000


def test_mended_faults_leave_the_quarantine(lake: Lake, corpus: ManifestCorpus) -> None:
    corpus.put("clips/0001.wav", b"")
    corpus.put("clips/0002.wav", b"no audio at all, only some text")
    assert run(lake, corpus).exit_code == 3
    assert [reason for _, reason, _ in quarantined(lake)] == ["empty", "not_audio"]
    # Nothing changed: still refused, though this run refuses nothing itself.
    again = run(lake, corpus)
    assert (again.num_refused, again.num_in_quarantine, again.exit_code) == (0, 2, 3)

    corpus.put("clips/0001.wav", wav(1))
    mended = run(lake, corpus)

    assert [reason for _, reason, _ in quarantined(lake)] == ["not_audio"]
    assert (mended.num_added, mended.num_in_quarantine) == (1, 1)


def test_skip_counts_and_quarantine_afterwards_writes(lake: Lake, corpus: ManifestCorpus) -> None:
    corpus.put("clips/0001.wav", b"")
    report = run(lake, corpus, on_error="skip")
    assert report.refused == {"empty": 1}
    assert quarantined(lake) == []

    report = run(lake, corpus, on_error="quarantine")

    assert report.num_added == 0
    assert [reason for _, reason, _ in quarantined(lake)] == ["empty"]


def test_raise_names_the_file(lake: Lake, corpus: ManifestCorpus) -> None:
    corpus.put("clips/0011.wav", b"no audio at all, only some text")
    with pytest.raises(InputError, match=r"not_audio.*clips/0011\.wav"):
        run(lake, corpus, on_error="raise")
    corpus.put("clips/0011.wav", b"")
    with pytest.raises(InputError, match=r"empty.*clips/0011\.wav"):
        run(lake, corpus, on_error="raise")


def test_too_many_known_faults_stop_before_anything_is_written(
    lance_lake: Lake, corpus: ManifestCorpus
) -> None:
    for i in range(5):
        corpus.add(f"clips/gone{i}.wav", None)
    corpus.write()

    with pytest.raises(StoppedError, match=r"5 of 45 rows.*--max-bad-fraction 0\.112") as caught:
        run(lance_lake, corpus, max_bad_fraction=0.1)

    assert caught.value.exit_code == 1
    assert "(5 no_file), such as clips/gone0.wav" in str(caught.value)
    assert "datalake quarantine" not in str(caught.value)  # nothing stands there
    assert lance_lake.tables() == []
    assert run(lance_lake, corpus, max_bad_fraction=0.112).num_added == 40


def test_too_many_found_faults_stop_and_the_rest_goes_on_later(
    lake: Lake, corpus: ManifestCorpus
) -> None:
    for i in range(0, 40, 4):
        corpus.put(f"clips/{i:04d}.wav", b"no audio at all, only some text")

    with pytest.raises(StoppedError, match="max-bad-fraction"):
        run(lake, corpus, max_bad_fraction=0.1)

    committed = lake["corpus"].count_rows()
    assert 0 < committed < 30
    assert run(lake, corpus, max_bad_fraction=0.3).num_added == 30 - committed
    assert len(rows_of(lake["corpus"])) == 30


def test_bounds_refuse_and_wider_bounds_take(lake: Lake, corpus: ManifestCorpus) -> None:
    corpus.put("clips/0003.wav", wav(3, 100))
    corpus.put("clips/0004.wav", wav(4, 9000))

    narrow = run(lake, corpus, min_duration_s=0.02, max_duration_s=0.5)
    assert narrow.refused == {"too_short": 1, "too_long": 1}

    wide = run(lake, corpus)
    assert (wide.num_added, wide.num_in_quarantine) == (2, 0)


def test_a_dry_run_writes_nothing(tmp_path: Path, corpus: ManifestCorpus) -> None:
    corpus.add("clips/gone.wav", None)
    corpus.write()
    report = run(open_lake(tmp_path / "lake"), corpus, dry_run=True, executor="ray")

    assert not (tmp_path / "lake").exists()
    assert (report.num_items, report.num_to_read, report.num_added) == (41, 41, 0)
    assert report.refused == {"no_file": 1}
    assert "Would ingest" in str(report)


def test_a_dry_run_over_a_finished_table_writes_nothing(
    lance_lake: Lake, corpus: ManifestCorpus, tmp_path: Path
) -> None:
    run(lance_lake, corpus)
    corpus.fill(3, start=40)
    corpus.write()
    before = sorted(path for path in (tmp_path / "lake").rglob("*"))

    report = run(lance_lake, corpus, dry_run=True)

    assert report.num_to_read == 3
    assert sorted(path for path in (tmp_path / "lake").rglob("*")) == before


def test_nothing_is_left_behind_but_the_lake(
    lance_lake: Lake, corpus: ManifestCorpus, tmp_path: Path
) -> None:
    run(lance_lake, corpus)
    corpus.put("clips/0007.wav", wav(1007))
    run(lance_lake, corpus)
    assert not list((tmp_path / "lake" / "plans").iterdir())


def test_each_commit_says_which_run_made_it(lance_lake: Lake, corpus: ManifestCorpus) -> None:
    report = run(lance_lake, corpus)

    last = lance_lake.log("corpus")[-1]

    assert (last.operation, last.run_id) == ("ingest", report.run_id)
    assert last.config["path"] == str(corpus.root)
    assert last.version == report.version_after
    assert report.version_before is None


def test_a_table_of_another_format_or_shape_is_not_touched(
    lance_lake: Lake, corpus: ManifestCorpus
) -> None:
    schema = pa.schema([pa.field("x", pa.int64())])
    lance_lake.create("corpus", schema, lineage=Lineage("test"))
    with pytest.raises(SchemaError, match="utt_id"):
        run(lance_lake, corpus)
    with pytest.raises(InputError, match="another format"):
        run(lance_lake, corpus, format="delta")


def test_wrong_requests_say_what_is_wrong(lake: Lake, corpus: ManifestCorpus) -> None:
    with pytest.raises(InputError, match="max_bad_fraction"):
        run(lake, corpus, max_bad_fraction=2)
    with pytest.raises(InputError, match="on_error"):
        run(lake, corpus, on_error="ignore")
    with pytest.raises(InputError, match="executor"):
        run(lake, corpus, executor="slurm")
    with pytest.raises(NotFoundError, match="manifest"):
        run(lake, corpus, connector="manifestt")
    with pytest.raises(InputError, match="option"):
        run(lake, corpus, connector_options={"nope": "1"})
    with pytest.raises(InputError, match="Found -4"):
        run(lake, corpus, part_rows=-4)
    with pytest.raises(InputError, match="commit_every_s"):
        run(lake, corpus, commit_every_s=-1)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_name_that_no_table_may_have_is_refused_at_once(
    lance_lake: Lake, corpus: ManifestCorpus, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    run(lance_lake, corpus)
    select = {"table_name": "corpus", "method": "random", "budget": 3, "name": "few"}
    lance_lake.save_selection(curation.select(lance_lake["corpus"], **select), Lineage("select"))
    monkeypatch.setattr(Planner, "read_corpus", None)  # Nothing is planned.
    for name, error in (
        ("../x", InputError),
        ("", InputError),
        ("corpus.quarantine", InputError),
        ("few", ExistsError),
    ):
        with pytest.raises(error):
            ingest(lance_lake, corpus.root, name, executor="local", dry_run=dry_run)


def test_ray_cannot_fill_a_lake_in_memory(corpus: ManifestCorpus) -> None:
    with pytest.raises(InputError, match="in memory"):
        run(open_lake("memory://ray"), corpus, executor="ray")


class _Unstartable(LocalExecutor):
    def __enter__(self) -> Self:
        raise StoreError("Ray cannot be started")


def test_an_executor_that_does_not_start_leaves_no_table(
    lance_lake: Lake, corpus: ManifestCorpus
) -> None:
    with pytest.raises(StoreError, match="cannot be started"):
        run(lance_lake, corpus, executor=_Unstartable())
    assert lance_lake.tables() == []


def test_a_run_that_is_killed_before_it_makes_a_table_is_gone_on_with(
    tmp_path: Path, corpus: ManifestCorpus
) -> None:
    fresh = open_lake(tmp_path / "fresh")
    # A killed process removes nothing.
    shared_folder(fresh, "20260101T000000.000000Z-0").__enter__()
    assert run(open_lake(tmp_path / "fresh"), corpus).num_added
