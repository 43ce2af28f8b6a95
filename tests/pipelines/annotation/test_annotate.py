"""Columns are added in place, whole or not at all, the same however the table is cut."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.episodes import open_episodes
from datalake.errors import (
    ConflictError,
    ExistsError,
    InputError,
    LakeError,
    PredicateError,
    SchemaError,
)
from datalake.lake import Lake, Lineage, open_lake
from datalake.pipelines.annotation import AnnotationReport, Annotator, annotate
from datalake.pipelines.executors import LocalExecutor
from datalake.pipelines.ray_executor import RayExecutor
from datalake.tables import Table
from tests.pipelines.annotation.annotators import SCHEMA, Bytes, make_table, rows
from tests.robots import write_robots

ROOT = Path(__file__).parents[3]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


def annotated(lake: Lake, annotator: Annotator | None = None, **options: Any) -> AnnotationReport:
    options = {"executor": "local", "rows_per_unit": 7, **options}
    return annotate(lake, "t", annotator or Bytes(), **options)


def expected(num_rows: int) -> dict[str, list[Any]]:
    audio = rows(0, num_rows)["audio"].to_pylist()
    return {
        "length": [float(len(each)) for each in audio],
        "vector": [[0.0, float(each[0]), 2.0 * each[0]] for each in audio],
    }


def found(table: Table) -> dict[str, list[Any]]:
    return table.scan(["length", "vector"]).read_all().to_pydict()


def data_files(table: Table) -> dict[str, int]:
    files = Path(table.uri).glob("data/*")
    return {path.name: path.stat().st_size for path in files}


@pytest.mark.parametrize("kept_as", ["lance", "delta", "memory"])
def test_columns_are_added(tmp_path: Path, kept_as: str) -> None:
    lake = open_lake(f"memory://{tmp_path.name}" if kept_as == "memory" else tmp_path / "lake")
    before = make_table(lake, 40, format="delta" if kept_as == "delta" else "lance")
    report = annotated(lake)
    table = lake["t"]
    assert table.format == kept_as
    assert found(table) == expected(40)
    assert table.scan(SCHEMA.names).read_all().equals(before.scan().read_all())
    assert (report.num_rows, report.num_annotated, report.num_failed) == (40, 40, 0)
    assert report.audio_s == sum(i % 4 for i in range(40))
    assert (report.version_before, report.version) == (before.version, table.version)
    entry = lake.log("t")[-1]
    assert (entry.operation, entry.run_id) == ("annotate", report.run_id)
    assert entry.inputs == {"t": before.version}
    assert entry.config["annotator"] == {"name": "bytes", "scale": 1.0}
    assert not list((tmp_path / "lake" / "annotations").glob("*"))


def test_lance_leaves_the_audio_alone(lake: Lake) -> None:
    made = lake.create("t", SCHEMA, lineage=Lineage("test"))
    made = made.append(rows(0, 30, size=20_000))
    before = data_files(made)
    annotated(lake)
    after = data_files(lake["t"])
    assert before.items() <= after.items()
    assert sum(after.values()) - sum(before.values()) < 10_000 < sum(before.values()) / 50
    assert lake["t"].schema.field("length").metadata[b"unit"] == b"bytes"


def test_an_empty_table_gets_the_columns(lake: Lake) -> None:
    make_table(lake, 0)
    assert annotated(lake).num_rows == 0
    assert lake["t"].schema.names[-2:] == ["length", "vector"]


def test_a_column_has_the_name_it_is_given(lake: Lake) -> None:
    make_table(lake, 9)
    annotated(lake, columns={"length": "size"})
    assert lake["t"].schema.names == [*SCHEMA.names, "size", "vector"]
    with pytest.raises(InputError, match=r"adds no column 'lenght'.*length"):
        annotated(lake, columns={"lenght": "x"})
    with pytest.raises(InputError, match="each once"):
        annotated(lake, columns={"length": "vector"})


def test_rows_that_fail_have_nulls_and_reasons(lake: Lake) -> None:
    make_table(lake, 30)
    report = annotated(lake, Bytes(bad=11))
    wanted = expected(30)
    wanted["length"][11] = wanted["vector"][11] = None
    assert found(lake["t"]) == wanted
    assert (report.num_annotated, dict(report.failed)) == (29, {"damaged": 1})
    assert [(e.row, e.row_id, e.error) for e in report.examples] == [
        (11, "u11", "damaged: byte 11")
    ]
    assert "1 have nulls: damaged" in str(report)
    assert report.as_dict()["examples"][0]["row_id"] == "u11"  # type: ignore[index]


def test_where_leaves_rows_alone(lake: Lake) -> None:
    make_table(lake, 20)
    report = annotated(lake, where="duration_s > 1")
    wanted = expected(20)["length"]
    assert found(lake["t"])["length"] == [w if i % 4 > 1 else None for i, w in enumerate(wanted)]
    assert (report.num_annotated, report.num_left) == (10, 10)


@pytest.mark.parametrize("kept_as", ["lance", "delta"])
def test_columns_are_replaced_only_when_asked(lake: Lake, kept_as: str) -> None:
    make_table(lake, 20, format=kept_as)
    annotated(lake)
    version = lake["t"].version
    with pytest.raises(ExistsError, match="a column length already"):
        annotated(lake)
    assert lake["t"].version == version
    annotated(lake, Bytes(scale=2), replace=True)
    wanted = expected(20)
    assert found(lake["t"]) == {**wanted, "length": [2 * each for each in wanted["length"]]}
    assert sorted(lake["t"].schema.names) == sorted([*SCHEMA.names, "length", "vector"])
    # What does not match keeps what it has.
    annotated(lake, Bytes(scale=3), where="utt_id = 'u4'", replace=True)
    lengths = [(3 if i == 4 else 2) * each for i, each in enumerate(wanted["length"])]
    assert found(lake["t"]) == {**wanted, "length": lengths}


def test_what_a_dead_replacement_left_goes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make_table(lake, 20)
    annotated(lake)
    with monkeypatch.context() as patch:
        patch.setattr(type(lake["t"]), "project", lambda *a, **k: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            annotated(lake, Bytes(scale=2), replace=True)
    assert found(lake["t"]) == expected(20)
    annotated(lake, Bytes(scale=2), replace=True)
    assert found(lake["t"])["length"] == [2 * each for each in expected(20)["length"]]
    assert sorted(lake["t"].schema.names) == sorted([*SCHEMA.names, "length", "vector"])


class Meddling(LocalExecutor):
    """Something happens to the table once, while ranges are worked on."""

    def __init__(self, meddle: Any) -> None:
        self._meddle = meddle

    def run(self, job: Any, num_units: int) -> Any:
        yield from super().run(job, num_units)
        meddle, self._meddle = self._meddle, None
        if meddle:
            meddle()


def test_rows_appended_meanwhile_are_annotated_too(lake: Lake) -> None:
    table = make_table(lake, 20)
    report = annotated(lake, executor=Meddling(lambda: table.append(rows(20, 33))))
    assert found(lake["t"]) == expected(33)
    assert (report.num_rows, report.num_followed) == (33, 13)


def test_another_column_meanwhile_is_no_matter(lake: Lake) -> None:
    table = make_table(lake, 20)
    add = {"other": list(range(20))}
    annotated(lake, executor=Meddling(lambda: table.add_columns(pa.table(add))))
    assert found(lake["t"]) == expected(20)
    assert lake["t"].scan(["other"]).read_all().to_pydict() == add


def test_rows_changed_meanwhile_are_a_conflict(lake: Lake) -> None:
    table = make_table(lake, 20)
    with pytest.raises(ConflictError, match=r"Rows were changed.*Run it again"):
        annotated(lake, executor=Meddling(lambda: table.delete("utt_id = 'u3'")))
    assert lake["t"].schema.names == SCHEMA.names
    with pytest.raises(ConflictError, match="changed the columns"):
        annotated(lake, executor=Meddling(lambda: annotated(lake)))


def test_what_does_not_fit_is_refused(lake: Lake) -> None:
    make_table(lake, 10)
    with pytest.raises(PredicateError):
        annotated(lake, where="duration_s >")
    with pytest.raises(SchemaError, match="snr"):
        annotated(lake, where="snr > 3")
    with pytest.raises(LakeError, match=r"annotator failed.*rows 0 to 0.*ValueError: no such"):
        annotated(lake, Bytes(raises=True))
    assert lake["t"].schema.names == SCHEMA.names


KILLED = """
import sys
from datalake.lake import open_lake
from datalake.pipelines.annotation import annotate
from tests.pipelines.annotation.annotators import Bytes

annotate(open_lake(sys.argv[1]), "t", Bytes(kill_at=30), executor="local", rows_per_unit=7)
"""


def test_a_killed_run_is_taken_up_where_it_stood(lake: Lake, tmp_path: Path) -> None:
    make_table(lake, 50)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, lake.location.uri], cwd=ROOT, capture_output=True
    )
    assert done.returncode == -9, done.stderr
    assert lake["t"].schema.names == SCHEMA.names
    # Another annotator does not take up what this one left.
    assert annotated(lake, Bytes(scale=3), columns={"length": "a", "vector": "b"},
                     where="utt_id = 'u1'").num_resumed == 0  # fmt: skip


def test_resumed_rows_are_not_computed_again(lake: Lake, tmp_path: Path) -> None:
    make_table(lake, 50)
    subprocess.run([sys.executable, "-c", KILLED, lake.location.uri], cwd=ROOT, capture_output=True)
    calls = tmp_path / "calls"
    report = annotated(lake, Bytes(calls=str(calls)))
    assert report.num_resumed == 28  # Four ranges of 7; row 30 is in the fifth.
    assert calls.stat().st_size == 22
    assert found(lake["t"]) == expected(50)
    assert report.num_annotated == 50
    assert not list(Path(lake.location.uri, "annotations").glob("*"))


def test_ray_and_this_process_give_the_same(lake: Lake) -> None:
    make_table(lake, 40)
    with RayExecutor(num_workers=2) as cluster:
        report = annotated(lake, Bytes(bad=5), executor=cluster)
    here = annotated(lake, Bytes(bad=5), columns={"length": "l", "vector": "v"})
    both = lake["t"].scan(["length", "vector", "l", "v"]).read_all()
    assert both["length"].equals(both["l"])
    assert both["vector"].equals(both["v"])
    assert report.examples == here.examples
    assert report.failed == here.failed


@settings(max_examples=15, deadline=None)
@given(num_rows=st.integers(1, 25), size=st.integers(1, 30), where=st.booleans())
def test_the_cut_changes_nothing(num_rows: int, size: int, where: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = open_lake(folder)
        make_table(lake, num_rows)
        annotated(lake, Bytes(bad=3), rows_per_unit=size, where="duration_s < 3" if where else None)
        wanted = expected(num_rows)
        for i in range(num_rows):
            if i == 3 or (where and i % 4 == 3):
                wanted["length"][i] = wanted["vector"][i] = None
        assert found(lake["t"]) == wanted


class Lengths(Bytes):
    reads = ("episode_id",)

    def _annotate(self, data: pa.Table) -> pa.Table:
        lengths = [float(len(each)) for each in data["episode_id"].to_pylist()]
        vectors = pa.array([[each] * 3 for each in lengths], self.adds.field("vector").type)
        return pa.table({"length": pa.array(lengths, pa.float32()), "vector": vectors})


def test_an_annotated_episode_set_stays_one(lake: Lake) -> None:
    g1 = write_robots(lake, image=False, video=False)
    annotate(lake, "g1.episodes", Lengths(), columns={"length": "id_length"}, executor="local")
    again = open_episodes(lake, "g1")
    assert again.version > g1.version
    assert again.frames.version == g1.frames.version
    assert again.episodes.scan(["id_length"]).read_all()["id_length"].to_pylist() == [13.0] * 5
    with pytest.raises(InputError, match=r"Annotate the episodes: g1\.episodes"):
        annotate(lake, "g1.frames", Lengths(), executor="local")
