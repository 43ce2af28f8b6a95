"""Lakes: what becomes one, what is in one, and what made it."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from datalake import tables
from datalake.errors import ConflictError, ExistsError, InputError, NotFoundError
from datalake.lake import Lake, Lineage, open_lake
from datalake.lake.listing import Entry
from tests.lake.conftest import KEYS, keys

Fill = Callable[..., int]
RUN = Lineage("ingest", {"path": "x"})


# What becomes a lake ------------------------------------------------------------------------------


def test_opening_writes_nothing(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "new" / "lake")
    assert lake.tables() == lake.selections() == []
    assert "corpus" not in lake
    assert list(tmp_path.iterdir()) == []


def test_the_first_write_makes_the_lake(tmp_path: Path) -> None:
    open_lake(tmp_path / "lake").create("corpus", KEYS, lineage=RUN)
    assert open_lake(tmp_path / "lake", create=False).tables() == ["corpus"]
    marker = json.loads((tmp_path / "lake" / "lake.json").read_text())
    assert marker == {"format": "datalake", "format_version": 1}


def test_a_missing_lake_is_not_found_when_it_should_be_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="--lake"):
        open_lake(tmp_path / "lake", create=False)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"not empty.*thesis\.tex"):
        open_lake(tmp_path)


def test_hidden_files_make_no_folder_taken(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").touch()
    assert open_lake(tmp_path).tables() == []


@pytest.mark.parametrize("create", [True, False])
def test_a_file_is_no_lake(tmp_path: Path, create: bool) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        open_lake(tmp_path / "file", create=create)


def test_a_file_among_the_parents(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        open_lake(tmp_path / "file" / "lake")


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake.json").write_text('{"format": "datalake", "format_version": 2}')
    with pytest.raises(InputError, match=r"format_version 1.*Upgrade"):
        open_lake(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "theirs"}', "\xff"])
def test_a_foreign_marker_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "lake.json").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"lake\.json"):
        open_lake(tmp_path)


def test_an_interrupted_marker_is_a_lake(tmp_path: Path) -> None:
    (tmp_path / "lake.json").touch()
    assert open_lake(tmp_path, create=False).tables() == []


def test_the_marker_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "lake.json").write_text('{"format": "datalake", "format_version": 1, "note": "x"}')
    open_lake(tmp_path).create("corpus", KEYS, lineage=RUN)
    assert "note" in json.loads((tmp_path / "lake.json").read_text())


def test_many_may_make_one_lake_at_once(tmp_path: Path) -> None:
    lakes = [open_lake(tmp_path / "lake") for _ in range(8)]
    faults: list[Exception] = []

    def make(number: int) -> None:
        try:
            lakes[number].create(f"t{number}", KEYS, lineage=RUN)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=make, args=(n,)) for n in range(len(lakes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert open_lake(tmp_path / "lake").tables() == [f"t{n}" for n in range(8)]


# Tables -------------------------------------------------------------------------------------------


def test_tables_by_name(lake: Lake, fill: Fill) -> None:
    fill("b", 3)
    fill("a.quarantine", 1)
    assert lake.tables() == ["a.quarantine", "b"]
    assert "b" in lake
    assert lake["b"].count_rows() == 3
    assert lake["b"].scan(["utt_id"]).read_all() == keys(3).select(["utt_id"])


def test_an_unknown_name_offers_the_nearest(lake: Lake, fill: Fill) -> None:
    fill("corpus")
    with pytest.raises(NotFoundError, match=r"no table 'corpsu'.*Did you mean corpus"):
        lake["corpsu"]


@pytest.mark.parametrize("name", ["../outside", "a/b", "", "x" * 200])
def test_a_name_that_cannot_be_is_not_there(lake: Lake, name: str) -> None:
    assert name not in lake
    with pytest.raises(NotFoundError):
        lake[name]


def test_names_are_unique_in_a_lake(lake: Lake, fill: Fill) -> None:
    fill("corpus")
    with pytest.raises(ExistsError, match="'corpus' is taken"):
        lake.create("corpus", KEYS, lineage=RUN)
    with pytest.raises(ExistsError, match="'corpus' is taken"):
        lake.create("corpus", KEYS, format="delta", lineage=RUN)


def test_a_bad_name_makes_nothing(lake: Lake) -> None:
    with pytest.raises(InputError):
        lake.create("a/b", KEYS, lineage=RUN)
    assert lake.tables() == []


def test_an_unknown_format_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lance or delta"):
        open_lake(tmp_path / "lake").create("t", KEYS, format="iceberg", lineage=RUN)
    assert not (tmp_path / "lake").exists()


def test_formats_live_side_by_side(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    for name, kept_as in (("l", "lance"), ("d", "delta")):
        lake.create(name, KEYS, format=kept_as, lineage=RUN).append(keys(2))
        assert (tmp_path / "lake" / "tables" / f"{name}.{kept_as}").is_dir()
    assert lake.tables() == ["d", "l"]
    assert [lake[name].format for name in lake.tables()] == ["delta", "lance"]
    assert lake["d"].scan().read_all() == lake["l"].scan().read_all()


def test_a_table_without_a_version_is_not_there(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    lake.create("whole", KEYS, lineage=RUN)
    (tmp_path / "tables" / "half.lance" / "data").mkdir(parents=True)
    (tmp_path / "tables" / "half.lance" / "data" / "x.lance").touch()
    (tmp_path / "tables" / "half2.delta").mkdir()
    (tmp_path / "tables" / "stray.txt").touch()
    assert lake.tables() == ["whole"]
    assert "half" not in lake
    with pytest.raises(NotFoundError):
        lake["half"]


def test_listing_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = open_lake(tmp_path / "lake")
    lake.create("corpus", KEYS, lineage=RUN)
    monkeypatch.setattr(tables, "open_table", lambda *_: pytest.fail("a table was opened"))
    assert lake.tables() == ["corpus"]


def test_contents_tell_formats_and_versions(lake: Lake, fill: Fill) -> None:
    assert lake.contents() == {"tables": [], "selections": []}
    for _ in range(12):
        fill("corpus", 1)
    lake.internal("ledgers", "corpus", KEYS)
    if lake.location.is_local:
        lake.create("d", KEYS, format="delta", lineage=RUN).append(keys(1))
    assert lake.contents() == {
        "tables": [Entry(name, lake[name].format, lake[name].version) for name in lake.tables()],
        "selections": [],
    }


def test_dropping_a_table_takes_its_ledger_along(lake: Lake, fill: Fill) -> None:
    fill("corpus")
    lake.internal("ledgers", "corpus", KEYS).append(keys(1))
    lake.drop("corpus")
    assert lake.tables() == []
    # A ledger that stayed would make the next ingest skip every part.
    assert lake.internal("ledgers", "corpus", KEYS).count_rows() == 0
    with pytest.raises(NotFoundError):
        lake.drop("corpus")


def test_internal_tables_are_made_once_and_not_listed(lake: Lake) -> None:
    lake.internal("ledgers", "corpus", KEYS).append(keys(2))
    assert lake.internal("ledgers", "corpus", KEYS).count_rows() == 2
    assert lake.tables() == []


def test_a_stale_writer_is_told(lake: Lake, fill: Fill) -> None:
    fill("corpus")
    stale = lake["corpus"]
    fill("corpus", 1)
    with pytest.raises(ConflictError):
        stale.overwrite(keys(1))
    assert lake["corpus"].count_rows() == 11


def test_a_lake_is_picklable(lake: Lake, fill: Fill) -> None:
    fill("corpus")
    assert pickle.loads(pickle.dumps(lake)).tables() == ["corpus"]


# Lineage ------------------------------------------------------------------------------------------


def test_every_version_knows_its_run(lake: Lake) -> None:
    first = Lineage("ingest", {"path": "a"})
    second = Lineage("ingest", {"path": "b"}, {"raw": 7})
    lake.create("corpus", KEYS, lineage=first).append(keys(2), properties=second.properties())
    made, appended = lake.log("corpus")
    assert (made.run_id, made.config, made.inputs) == (first.run_id, {"path": "a"}, {})
    assert (appended.run_id, appended.config, appended.inputs) == (
        second.run_id,
        {"path": "b"},
        {"raw": 7},
    )
    assert made.config_sha256 != appended.config_sha256
    assert made.code_version == appended.code_version != ""
    assert made.created_at <= appended.created_at


def test_the_log_of_nothing(lake: Lake, fill: Fill) -> None:
    fill("corpus")
    with pytest.raises(NotFoundError, match=r"no table or selection 'corpsu'.*corpus"):
        lake.log("corpsu")


def test_a_lake_that_was_moved_still_works(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "a")
    lake.create("corpus", KEYS, lineage=RUN).append(keys(4))
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert open_lake(tmp_path / "b")["corpus"].count_rows() == 4
