"""The page, its tables and its figures, of studies that were never run."""

from __future__ import annotations

import importlib
import io
import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as as_csv
import pyarrow.parquet as pq
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from curation.report import StudyRecord, analyse, write_report
from curation.report.figures import (
    cross_source_figure,
    differences_figure,
    mean_eer_figure,
    mixtures_figure,
    scaling_figure,
)
from curation.report.style import BETTER, MUTED, WORSE, png
from curation.report.tables import bindings_table, comparisons_table, means_table
from curation.report.wording import caveats, in_short, verdicts
from curation.study.results import CELL, MIXTURES, results_of
from curation.study.scaling import fit_laws
from curation.study.scaling_points import POINTS
from datalake.errors import InputError, MissingPackageError, NotFoundError, StoreError
from tests.curation.study.tables import row

FOLDS = [f"g{index}" for index in range(7)]
SHIFTS = {"random": 0.0, "doss": -0.02, "worse": 0.02, "noise": 0.0}
FACTS = {
    "design": {
        "table": "pool", "detector": "embedding_mlp", "embedding": "lfcc_stats",
        "baselines": ["random"], "training": {"num_steps": 300},
    },
    "table_version": 7,
    "lineage": {"code": "abc"},
    "skipped_folds": [{"protocol": "logo", "fold": "tiny", "reason": "3 spoofs"}],
}  # fmt: skip


def rows_of(protocol: str = "logo") -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        row(
            method, fold, seed,
            0.1 + 0.01 * index + shift + 0.001 * rng.standard_normal()
            + (0.005 * (-1) ** index if method == "noise" else 0),
            options={"cap": 100} if method == "doss" else {}, protocol=protocol,
        )
        for method, shift in SHIFTS.items()
        for index, fold in enumerate(FOLDS)
        for seed in range(2)
    ]  # fmt: skip


def mixture_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Two domains; `doss` keeps half of the larger."""
    found = []
    for each in rows:
        kept = 50 if each["method"] == "doss" else 100
        for domain, num_kept, total in (("a", kept, 100), ("a/g", 25, 25)):
            found.append(
                {
                    **{name: each[name] for name in CELL.names},
                    "domain": domain, "label": "spoof" if "/" in domain else "bonafide",
                    "source": "a", "generator": domain.partition("/")[2] or None,
                    "num_rows": total, "num_kept": num_kept, "retention": num_kept / total,
                    "mass": num_kept / (kept + 25), "binds": num_kept < total,
                }
            )  # fmt: skip
    return pa.Table.from_pylist(found, schema=MIXTURES)


@pytest.fixture(scope="module")
def record() -> StudyRecord:
    rows = rows_of()
    return StudyRecord(
        results_of(rows), mixture_of(rows), FACTS, ("A cap of <7> binds nothing.",), ("one | cell",)
    )


@pytest.fixture(scope="module")
def written(record: StudyRecord, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    assert write_report(record, folder)[0] == folder / "report.html"
    return folder


class Page(HTMLParser):
    """Checks that tags close in order; gathers cells and what is fetched from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.outside: list[str] = []
        self.num_images = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "img":
            self.num_images += 1
            assert values["alt"]
        for name in ("src", "href"):
            link = values.get(name) or "#"
            if not link.startswith(("data:", "#")):
                self.outside.append(link)
        assert tag not in ("script", "link")
        if tag not in ("img", "meta", "!doctype"):
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.cells[-1] += data


def test_the_page_stands_alone(written: Path) -> None:
    page = Page()
    text = (written / "report.html").read_text()
    page.feed(text)
    assert not page.open
    assert not page.outside
    assert page.num_images == 5
    assert "A cap of &lt;7&gt; binds nothing." in text
    assert {"pool, version 7", "embedding_mlp on lfcc_stats", "2: 0, 1", "cap 100"} <= {*page.cells}
    for said in ("fewer than five", "tiny", "share their bona fide test rows", "one | cell"):
        assert said in text


def test_markdown_has_the_same_cells(written: Path) -> None:
    page = Page()
    page.feed((written / "report.html").read_text())
    text = (written / "report.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    cells = [cell.strip() for line in lines for cell in line.strip("|").split(" | ")]
    assert set(page.cells) <= set(cells)
    assert "one \\| cell" in text
    for line in text.splitlines():
        if line.startswith("!["):
            assert (written / line.rpartition("(")[2].rstrip(")")).is_file()


def test_tables_are_written_unrounded(record: StudyRecord, written: Path) -> None:
    found = analyse(record).protocols[0]
    table = as_csv.read_csv(written / "means_logo.csv")
    assert table["eer"].to_pylist() == pytest.approx(found.means.table["eer"].to_pylist())
    assert (written / "comparisons_logo.csv").is_file()


def test_the_same_study_gives_the_same_bytes(record: StudyRecord, tmp_path: Path) -> None:
    def bare(results: pa.Table) -> StudyRecord:
        return StudyRecord(results, facts={"design": {"baselines": []}})

    turned = record.results.take(np.random.default_rng(1).permutation(record.results.num_rows))
    for name, results in (("a", record.results), ("b", turned)):
        write_report(bare(results), tmp_path / name)
    for path in (tmp_path / "a").rglob("*.*"):
        other = tmp_path / "b" / path.relative_to(tmp_path / "a")
        assert other.read_bytes() == path.read_bytes(), path.name


def test_what_is_shown_and_what_is_not(record: StudyRecord) -> None:
    found = analyse(record).protocols[0]
    doss, worse, noise = verdicts(found, 0.95)
    assert doss.startswith("doss against random, 1,000 rows: ")
    assert doss.endswith("lower, also after the correction (p = 0.0469).")
    assert noise == "1 of 3 comparisons show no difference: see the table."
    assert "higher, also after the correction" in worse
    assert in_short(analyse(record))[-1].endswith("2 are significant after the correction.")
    # Of six folds and three comparisons none can be.
    fewer = record.results.filter(pa.array([f != "g0" for f in record.results["fold"].to_pylist()]))
    found = analyse(StudyRecord(fewer, facts=FACTS)).protocols[0]
    assert "lower by its interval, but cannot be significant" in verdicts(found, 0.95)[0]


def test_cells_of_tables_by_hand(record: StudyRecord) -> None:
    analysis = analyse(record)
    found = analysis.protocols[0]
    means = means_table(found, 0.95)
    assert [line[0] for line in means.lines] == ["doss", "noise", "random", "worse"] or [
        line[0] for line in means.lines
    ] == ["doss", "random", "noise", "worse"]
    assert means.lines[0][7:] == ("7 × 2", "1,000", "4.5")
    line = comparisons_table(found, 0.95, "fold").lines[0]
    assert line[:3] == ("doss", "1,000 rows", "random")
    assert line[-4:] == ("7 of 7", "0.0156", "0.0469", "0.0156")
    assert bindings_table(analysis.mixtures).lines[0] == (
        "doss", "1,000 rows", "1 of 2: a", "4.5", "1,000",
    )  # fmt: skip


def test_only_what_an_interval_shows_is_coloured(record: StudyRecord) -> None:
    figure = differences_figure(analyse(record).protocols[0], 0.95, "fold")
    axes = figure.axes[0]
    colors = {
        name.get_text(): to_hex(line.get_color()).upper()
        for line in axes.lines
        if line.get_marker() == "o"
        for name in [axes.get_yticklabels()[int(line.get_ydata()[0])]]
    }
    assert colors == {"doss": BETTER, "noise": MUTED, "worse": WORSE}


def test_the_best_stands_on_top_and_baselines_are_grey(record: StudyRecord) -> None:
    found = analyse(record).protocols[0]
    axes = mean_eer_figure(found, ["random"], 0.95).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert (names[0], names[-1]) == ("worse", "doss")
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    grey = [names[int(dot.get_ydata()[0])] for dot in dots if to_hex(dot.get_color()) == MUTED]
    assert grey == ["random"]


def test_mixtures_show_what_is_kept_and_what_binds(record: StudyRecord) -> None:
    axes = mixtures_figure(analyse(record).mixtures, "retention").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a  (100)", "a/g  (25)"]
    assert [text.get_text() for text in axes.texts[:4]] == ["50 •", "100", "100", "100"]


def test_the_matrix_writes_its_numbers_and_marks_gaps() -> None:
    rows = [
        row("m", trained, 0, eer, protocol="cross", scope="source", test_domain=test)
        for trained, test, eer in (("x", "x", 0.01), ("x", "y", 0.25), ("y", "x", 0.3))
    ]
    analysis = analyse(StudyRecord(results_of(rows)))
    figure = cross_source_figure(analysis.matrices)
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.0", "25.0", "30.0", "–"]
    assert len(figure.axes[0].patches) == 1
    assert any("hard does not say why" in caveat for caveat in caveats(analysis))


def test_a_law_is_drawn_beyond_its_design_as_dashes() -> None:
    points = pa.Table.from_pylist(
        [{"num_rows": n, "eer": n**-0.3} for n in (100, 200, 400, 800)], schema=POINTS
    )
    fit = fit_laws(points, variables=["num_rows"], num_resamples=0, num_starts=4).best
    axes = scaling_figure(points, fit).axes[0]
    lines = {line.get_linestyle(): line for line in axes.lines}
    assert lines["-"].get_xdata()[-1] == pytest.approx(800)
    assert lines["--"].get_xdata()[-1] == pytest.approx(1600)
    assert axes.get_title(loc="left") == "Law C:  $E = a\\,N^{-p}$"


def test_laws_of_several_budgets_stand_in_the_report() -> None:
    rows = [
        row("m", fold, 0, 0.1 * (1 + shift) * (budget / 100) ** -0.4, budget_rows=budget,
            num_rows_used=budget)
        for budget in (100, 200, 400, 800)
        for shift, fold in enumerate("xy")
    ]  # fmt: skip
    found = analyse(StudyRecord(results_of(rows)), num_refits=20).scalings
    assert len(found) == 1
    assert found[0].scaling is not None
    assert found[0].scaling.best.parameters["p"] == pytest.approx(0.4)


def test_names_are_data(tmp_path: Path) -> None:
    """Dollars are no formulas, tags no tags, bars no cells; an EER of 0 is one like others."""
    rows = [
        row(name, fold, 0, 0.0, budget_rows=budget, options={"note": "<i>|$"})
        for name in ("a$x_{", "<b>|*", "naïve")
        for fold in ("$f^", "<script>")
        for budget in (None, 10)
    ]
    record = StudyRecord(results_of(rows), mixture_of(rows), {"design": {"table": "<t>"}})
    write_report(record, tmp_path, baselines=["naïve"])
    page = Page()
    page.feed((tmp_path / "report.html").read_text())
    assert {"a$x_{", "<b>|*", "naïve", "0.00 %"} <= {*page.cells}
    lines = (tmp_path / "report.md").read_text().splitlines()
    assert any(line.startswith("| &lt;b>\\|\\* | 10 rows |") for line in lines)


def test_figures_are_pictures(record: StudyRecord) -> None:
    figure = mixtures_figure(analyse(record).mixtures)
    picture = Image.open(io.BytesIO(png(figure, dots_per_inch=50)))
    assert picture.width > 100
    assert len(picture.convert("RGB").getcolors(1 << 20) or ()) > 10


def test_a_record_is_read_from_a_folder(record: StudyRecord, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="Run the study first"):
        StudyRecord.read(tmp_path)
    pq.write_table(record.results, tmp_path / "results.parquet")
    assert StudyRecord.read(tmp_path).mixtures.num_rows == 0
    pq.write_table(record.mixtures, tmp_path / "mixtures.parquet")
    (tmp_path / "study.json").write_text(json.dumps(FACTS))
    again = StudyRecord.read(tmp_path, remarks=record.remarks, failures=record.failures)
    assert again == record
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        StudyRecord.read(tmp_path)
    with pytest.raises(InputError, match="no results"):
        StudyRecord(record.results.slice(0, 0))


def test_a_folder_that_cannot_be_written(record: StudyRecord, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bare = StudyRecord(record.results, facts={"design": {"baselines": []}})
    with pytest.raises(StoreError):
        write_report(bare, tmp_path / "file")


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "curation.report.style")
    with pytest.raises(MissingPackageError, match=r"pip install 'datalake\[report\]'"):
        importlib.import_module("curation.report.style")
