"""Two writers at once: rows are neither lost nor doubled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from datalake.errors import ConflictError
from datalake.lake import Lake, open_lake
from datalake.pipelines import RunReport, ingest
from datalake.pipelines.plan import Plan, Planner
from datalake.pipelines.publish import OvertakenError, Publisher
from datalake.pipelines.run import Run
from tests.pipelines.corpora import ManifestCorpus, rows_of, wav


@pytest.fixture(params=["memory", "lance", "delta"])
def lake_and_format(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Lake, str | None]:
    if request.param == "memory":
        return open_lake(f"memory://{tmp_path.name}"), None
    return open_lake(tmp_path / "lake"), request.param


def run(lake: Lake, corpus: ManifestCorpus, table_format: str | None = None) -> RunReport:
    return ingest(
        lake,
        corpus.root,
        "corpus",
        connector="manifest",
        executor="local",
        format=table_format,
        part_rows=8,
        commit_every_s=0,
    )


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object], *, times: int = 1) -> None:
    """Let another writer act just before each of the first `times` commits of rows."""
    append = Publisher._append
    left = [times]

    def overtaken(self: Publisher, group: object) -> None:
        if left[0] > 0:
            left[0] -= 1
            do()
        append(self, group)  # type: ignore[arg-type]

    monkeypatch.setattr(Publisher, "_append", overtaken)


def corpora(folder: Path) -> tuple[ManifestCorpus, ManifestCorpus]:
    mine, other = ManifestCorpus(folder / "mine"), ManifestCorpus(folder / "other")
    mine.fill(30)
    other.fill(5)
    mine.write()
    other.write()
    return mine, other


def test_a_commit_between_ours_is_built_upon(
    tmp_path: Path, lake_and_format: tuple[Lake, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, table_format = lake_and_format
    mine, other = corpora(tmp_path)
    meanwhile(monkeypatch, lambda: run(lake, other))

    report = run(lake, mine, table_format)

    assert report.num_added == 30
    ids = [row["utt_id"] for row in rows_of(lake["corpus"])]
    assert len(ids) == len(set(ids)) == 35


def test_a_second_ingest_of_the_same_corpus_doubles_nothing(
    tmp_path: Path, lake_and_format: tuple[Lake, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, table_format = lake_and_format
    mine, _ = corpora(tmp_path)
    meanwhile(monkeypatch, lambda: run(lake, mine))

    report = run(lake, mine, table_format)

    rows = rows_of(lake["corpus"])
    assert [row["audio"] for row in rows] == [wav(i) for i in range(30)]
    # The other run wrote all of them; this one found them there.
    assert (report.num_added, report.num_finished) == (0, 30)
    assert report.version_after == lake["corpus"].version
    assert run(lake, mine).num_parts_to_do == 0


def test_a_table_that_another_writer_makes_first_is_used(
    tmp_path: Path, lake_and_format: tuple[Lake, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, table_format = lake_and_format
    mine, other = corpora(tmp_path)
    judge = Run._judge

    def overtaken(self: Run, plan: Plan, planner: Planner) -> None:
        monkeypatch.setattr(Run, "_judge", judge)
        run(lake, other, table_format)
        judge(self, plan, planner)

    monkeypatch.setattr(Run, "_judge", overtaken)
    assert run(lake, mine, table_format).num_added == 30
    assert lake["corpus"].count_rows() == 35


def test_writers_that_are_always_faster_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(f"memory://{tmp_path.name}")
    mine, _ = corpora(tmp_path)

    def never(self: Publisher, group: object) -> None:
        raise OvertakenError("Another writer is ingesting the same corpus", where=self.table.uri)

    monkeypatch.setattr(Publisher, "_append", never)
    with pytest.raises(ConflictError, match="same corpus"):
        run(lake, mine)
    assert lake["corpus"].count_rows() == 0
