"""A small study from its file to its results: resumed, failing in part, and through the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from curation.probe import FeatureStore, train
from curation.study.cells import CellStore
from curation.study.design import StudyDesign, read_design
from curation.study.results import MIXTURES, RESULTS
from curation.study.run import StudyRun, run_study
from datalake.errors import StoreError
from datalake.lake import Lake
from tests.curation.study.corpora import DESIGN, lake_at
from tests.patience import PATIENCE_S

FEW = DESIGN.replace("seeds: 2", "seeds: [1]")
NUM_CELLS = 6 * 6  # methods at their budgets, and folds


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_at(tmp_path_factory.mktemp("study") / "lake")


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> StudyDesign:
    path = tmp_path_factory.mktemp("design") / "design.yaml"
    path.write_text(FEW)
    return read_design(path)


@pytest.fixture(scope="module")
def small(design: StudyDesign) -> StudyDesign:
    """Two methods and one protocol: six cells."""
    return replace(design, methods=design.methods[:2], protocols=design.protocols[:1])


@pytest.fixture(scope="module")
def whole(lake: Lake, design: StudyDesign, tmp_path_factory: pytest.TempPathFactory) -> StudyRun:
    return run_study(lake, design, tmp_path_factory.mktemp("whole"))


def without_times(run: StudyRun) -> list[dict[str, object]]:
    found: list[dict[str, object]] = run.results.drop_columns(["seconds"]).to_pylist()
    return found


def test_every_cell_has_its_results(whole: StudyRun) -> None:
    assert len(whole.plan.cells) == NUM_CELLS
    assert whole.failures == ()
    assert whole.num_kept == 0
    pooled = whole.results.filter(pc.field("scope") == "pooled")
    assert pooled.num_rows == NUM_CELLS
    for name, kept in (("results", RESULTS), ("mixtures", MIXTURES)):
        assert pq.read_table(whole.folder / f"{name}.parquet").schema.equals(kept)
    for row in pooled.to_pylist():
        assert row["budget_rows"] in (None, 40)
        assert row["num_rows_used"] <= (row["budget_rows"] or 1000)
    # A generator that is held out is not among those trained on.
    naive = pooled.filter((pc.field("method") == "naive") & (pc.field("protocol") == "logo"))
    assert set(naive["num_generators"].to_pylist()) == {2}
    assert set(naive["num_sources"].to_pylist()) == {3}
    loso = pooled.filter((pc.field("method") == "naive") & (pc.field("protocol") == "loso"))
    assert set(loso["num_sources"].to_pylist()) == {2}
    # A spoof domain is held against all bona fide rows of the test, a source against its own.
    domains = whole.results.filter(pc.field("scope") == "domain")
    assert set(domains["test_domain"].to_pylist()) == {
        *("north/alpha", "north/gamma", "south/alpha", "south/beta", "west/beta", "west/gamma")
    }
    facts = json.loads((whole.folder / "study.json").read_text())
    assert facts["num_cells"] == NUM_CELLS
    assert facts["lineage"]["datalake.operation"] == "study"


def test_cells_are_kept_and_a_grown_design_trains_what_is_new(
    lake: Lake, small: StudyDesign, tmp_path: Path
) -> None:
    first = run_study(lake, small, tmp_path)
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert len(written) == 6
    again = run_study(lake, small, tmp_path)
    assert again.num_kept == 6
    assert again.results.equals(first.results)
    grown = run_study(lake, replace(small, seeds=(0, 1)), tmp_path)
    assert grown.num_kept == 6
    assert {path: path.stat().st_mtime_ns for path in written} == written
    # What decides a result makes other cells.
    longer = replace(small, training=replace(small.training, num_steps=5))
    assert run_study(lake, longer, tmp_path).num_kept == 0


def test_results_hang_neither_on_order_nor_on_what_ran_before(
    lake: Lake, small: StudyDesign, whole: StudyRun, tmp_path: Path
) -> None:
    reverse = replace(small, methods=small.methods[::-1])
    alone = without_times(run_study(lake, reverse, tmp_path))
    among = [
        row
        for row in without_times(whole)
        if row["method"] in ("naive", "random") and row["protocol"] == "logo"
    ]

    def place(row: dict[str, object]) -> str:
        return str([row[name] for name in ("method", "fold", "scope", "test_domain")])

    assert sorted(alone, key=place) == sorted(among, key=place)


def test_a_cell_that_fails_is_recorded_and_tried_again(
    lake: Lake, small: StudyDesign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_random(store: FeatureStore, keys: object, *rest: object) -> object:
        if getattr(keys, "num_rows", 0) == 40:
            raise ZeroDivisionError("of a plug-in")
        return train(store, keys, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("curation.study.job.train", break_random)
    told: list[str] = []
    run = run_study(lake, small, tmp_path, on_failure=lambda cell, _: told.append(str(cell)))
    assert len(run.failures) == len(told) == 3
    assert run.failures[0][0].method.name == "random"
    assert run.failures[0][1] == "Unexpected ZeroDivisionError: of a plug-in"
    assert set(run.results["method"].to_pylist()) == {"naive"}
    (failed, *_) = (tmp_path / "failed").iterdir()
    assert json.loads(failed.read_text())["failure"].endswith("of a plug-in")
    monkeypatch.undo()
    mended = run_study(lake, small, tmp_path)
    assert (mended.num_kept, mended.failures) == (3, ())
    assert not list((tmp_path / "failed").iterdir())


def test_a_damaged_cell_is_named(lake: Lake, small: StudyDesign, tmp_path: Path) -> None:
    run = run_study(lake, small, tmp_path)
    store = CellStore(tmp_path, small, run.plan.table_version, run.plan.table_run)
    path = tmp_path / "cells" / f"{store.key(run.plan.cells[0])}.json"
    path.write_text("{")
    with pytest.raises(StoreError, match=path.name):
        run_study(lake, small, tmp_path)


def curate(lake: Lake, *args: str | Path) -> subprocess.Popen[str]:
    program = Path(sys.executable).parent / "curate"
    return subprocess.Popen(
        [program, "study", *args, "--lake", str(lake.location), "--executor", "local"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_a_study_that_was_killed_goes_on(lake: Lake, whole: StudyRun, tmp_path: Path) -> None:
    path, out = tmp_path / "design.yaml", tmp_path / "out"
    path.write_text(FEW)
    cells = out / "cells"
    running = curate(lake, path, "--out", out, "--quiet")
    patience = time.monotonic() + PATIENCE_S
    while running.poll() is None and len(list(cells.glob("[!.]*"))) < 3:
        assert time.monotonic() < patience
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    before = {file: file.read_bytes() for file in cells.glob("[!.]*")}
    assert 3 <= len(before) < NUM_CELLS
    going_on = curate(lake, path, "--out", out)
    printed, err = going_on.communicate(timeout=PATIENCE_S)
    assert going_on.returncode == 0, err
    assert f"{NUM_CELLS - len(before)}/{NUM_CELLS - len(before)} cells" in err
    assert {file: file.read_bytes() for file in before} == before
    assert "Leave one generator out" in printed
    assert f"{NUM_CELLS} cells, {len(before)} of them known before" in printed
    assert str(out / "report" / "report.html") in printed
    assert (out / "report" / "report.html").is_file()
    found = pq.read_table(out / "results.parquet").drop_columns(["seconds"]).to_pylist()
    assert found == without_times(whole)


def test_the_command_says_what_it_refuses_and_what_failed(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "design.yaml"
    few = FEW.replace("[logo, loso]", "[loso]")
    # The ratio 0 leaves all bona fide rows out.
    path.write_text(few.replace("  - doss\n", "  - {method: doss, ratio: 0}\n"))
    running = curate(lake, path, "--json", "--quiet")
    printed, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1
    assert "3 of 18 cells failed (doss, 40 rows, loso north, seed 1)" in err
    assert "Traceback" not in err
    facts = json.loads(printed)
    assert len(facts["failures"]) == 3
    assert {row["arm"] for row in facts["protocols"]["loso"]["means"]} == {
        *("naive", "random", "doss_weight", "semdedup")
    }
    assert Path(facts["folder"]) == tmp_path / "design.study"
    path.write_text(FEW.replace("table: pool", "table: pol"))
    running = curate(lake, path)
    printed, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 2
    assert printed == ""
    assert "Did you mean pool" in err
