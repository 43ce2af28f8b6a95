"""Each kind of broken file: whether it is refused, why, what is said, and what mending does."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from datalake.cli import console
from datalake.cli.app import app
from datalake.lake import open_lake
from datalake.pipelines import RunReport, ingest
from scripts import quarantine_zoo as zoo
from tests.pipelines.corpora import rows_of


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """All of the zoo, with a manifest."""
    root = tmp_path / "zoo"
    zoo.make_files(root, zoo.animals())
    zoo.make_manifest(root, zoo.animals(), short_row=True)
    return root


def bring(lake_folder: Path, root: Path, connector: str) -> RunReport:
    return ingest(
        open_lake(lake_folder),
        root,
        "corpus",
        connector=connector,
        executor="local",
        max_bad_fraction=1.0,
        min_duration_s=zoo.SHORTEST_S,
    )


def check(report: RunReport, lake_folder: Path, due: dict[str, str], good: set[str]) -> None:
    lake = open_lake(lake_folder)
    found = zoo.verdicts(lake, "corpus")
    assert {path: reason for path, (reason, _) in found.items()} == due
    assert all(detail for _, detail in found.values())
    assert {row["path"] for row in rows_of(lake["corpus"])} == good
    assert report.num_added == len(good)
    assert report.num_refused == report.num_in_quarantine == len(due)
    assert report.exit_code == 3


def test_beside_a_manifest_each_is_refused_for_its_own_reason(tmp_path: Path, corpus: Path) -> None:
    due = zoo.due_beside_manifest(zoo.animals())
    assert len(due) > 30
    report = bring(tmp_path / "lake", corpus, "manifest")
    good = {animal.name for animal in zoo.animals() if animal.due is None}
    check(report, tmp_path / "lake", due, good)


def test_without_a_manifest_the_bytes_and_names_decide(tmp_path: Path, corpus: Path) -> None:
    (corpus / "manifest.csv").unlink()
    due = zoo.due_alone(zoo.animals())
    report = bring(tmp_path / "lake", corpus, "audio_folder")
    good = {
        animal.name
        for animal in zoo.animals()
        if animal.due_alone is None and isinstance(animal.what, bytes)
    }
    check(report, tmp_path / "lake", due, good)


def mend(root: Path) -> int:
    """Put good bytes where the bytes were bad, and take out the rest. The number of good rows."""
    good = {
        PurePosixPath(animal.name).suffix: animal.what
        for animal in zoo.animals()
        if animal.due is None
    }
    kept = []
    for animal in zoo.animals():
        path = root / animal.name
        if animal.name.startswith("bytes/"):
            path.write_bytes(good[path.suffix])
        elif path.is_dir():
            path.rmdir()
        elif animal.due is not None:
            path.unlink(missing_ok=True)
        if animal.due is None or animal.name.startswith("bytes/"):
            kept.append(animal)
    zoo.make_manifest(root, kept, short_row=False)
    return len(kept)


def test_what_is_mended_leaves_the_quarantine(tmp_path: Path, corpus: Path) -> None:
    before = bring(tmp_path / "lake", corpus, "manifest").num_added
    num_good = mend(corpus)
    report = bring(tmp_path / "lake", corpus, "manifest")
    assert (report.num_added, report.num_in_quarantine) == (num_good - before, 0)
    assert report.exit_code == 0
    assert zoo.verdicts(open_lake(tmp_path / "lake"), "corpus") == {}
    assert open_lake(tmp_path / "lake")["corpus"].count_rows() == num_good


def test_what_the_command_says_and_how_it_exits(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*options: str) -> tuple[int, str, str]:
        args = ["ingest", str(corpus), "corpus", "--lake", str(tmp_path / "lake")]
        args += ["--executor", "local", "--min-duration", "0.01"]
        with pytest.raises(SystemExit) as leaving:
            console.run(app, "datalake", [*args, *options])
        code = leaving.value.code
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    code, out, err = command()
    assert (code, out) == (1, "")
    assert "--max-bad-fraction" in err
    assert "Traceback" not in err

    code, out, err = command("--max-bad-fraction", "1", "--json")
    report = json.loads(out)
    assert code == report["exit_code"] == 3
    assert report["refused"]["wrong_extension"] == 3
    assert report["num_added"] == 24
    assert "manifest" in err  # what it was recognised by

    code, out, err = command("--max-bad-fraction", "1", "--quiet")
    assert code == 3
    assert "done before" in out
    assert err == ""
