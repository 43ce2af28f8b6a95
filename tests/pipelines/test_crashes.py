"""Killed at any step and run again, an ingest leaves what an undisturbed one does."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.lake import Lake, open_lake
from datalake.pipelines import ingest, stage
from datalake.pipelines.ledger import LEDGER, Ledger
from datalake.pipelines.publish import Publisher
from datalake.pipelines.refusals import Quarantine
from tests.pipelines.corpora import ManifestCorpus, quarantined, rows_of, wav

_fresh = itertools.count()


class Crash(BaseException):
    """The process is gone: nothing may catch this and tidy up the tables."""


STEPS: list[tuple[object, str]] = [
    (stage, "stage_unit"),
    (Publisher, "_quarantine_refused"),
    (Publisher, "_append"),
    (Publisher, "_replace"),
    (Quarantine, "resolve"),
    (Ledger, "enter"),
]


@contextmanager
def crash(step: int, nth: int, *, after: bool) -> Iterator[None]:
    """Crash at the `nth` call of a step, before it does anything or when it is done."""
    owner, name = STEPS[step]
    original: Callable[..., object] = getattr(owner, name)
    calls = itertools.count()

    def crashing(*args: object, **options: object) -> object:
        mine = next(calls)
        if mine == nth and not after:
            raise Crash
        result = original(*args, **options)
        if mine == nth:
            raise Crash
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, crashing)
        yield


def run(lake: Lake, corpus: ManifestCorpus, *, commit_every_s: float = 0) -> None:
    """Ingest; by default each unit is a commit of its own: there are many moments to crash at."""
    ingest(
        lake,
        corpus.root,
        "corpus",
        connector="manifest",
        executor="local",
        part_rows=8,
        max_bad_fraction=1.0,
        commit_every_s=commit_every_s,
    )


def state(lake: Lake) -> tuple[object, ...]:
    """All that a run leaves, but for run ids and times."""
    ledger = lake.internal("ledgers", "corpus", LEDGER).scan(["part_id", "fingerprint", "num_rows"])
    return (
        rows_of(lake["corpus"]),
        quarantined(lake),
        sorted(tuple(row.values()) for row in ledger.read_all().to_pylist()),
    )


def first_corpus(root: Path) -> ManifestCorpus:
    corpus = ManifestCorpus(root)
    corpus.fill(30)
    corpus.put("clips/0003.wav", b"")
    corpus.put("clips/0009.wav", b"no audio at all, only some text")
    corpus.add("clips/gone.wav", None)
    corpus.add("clips/twin.wav", wav(5), id="clips/0005.wav")
    corpus.put("unclaimed.wav", wav(1))
    corpus.write()
    return corpus


def change(corpus: ManifestCorpus) -> None:
    """A bit of everything: new, changed, mended, broken, gone."""
    corpus.fill(8, start=30)
    corpus.put("clips/0012.wav", wav(112))
    corpus.rows[20] |= {"label": "spoof", "generator": "other"}
    corpus.put("clips/0003.wav", wav(3))
    corpus.put("clips/0015.wav", b"")
    del corpus.rows[25]
    corpus.write()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crashes")


@pytest.fixture(scope="module")
def corpora(folder: Path) -> tuple[ManifestCorpus, ManifestCorpus]:
    """The corpus as it is first, and as it is later: the same name, two folders."""
    first = first_corpus(folder / "first" / "speech")
    later = first_corpus(folder / "later" / "speech")
    # The same stamps as in the first, so that only what changed looks changed.
    for path in first.root.rglob("*.wav"):
        stat = path.stat()
        os.utime(later.root / path.relative_to(first.root), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    change(later)
    return first, later


@pytest.fixture(scope="module")
def undisturbed(corpora: tuple[ManifestCorpus, ManifestCorpus]) -> list[tuple[object, ...]]:
    lake = open_lake(f"memory://undisturbed{next(_fresh)}")
    states = []
    for corpus in corpora:
        run(lake, corpus)
        states.append(state(lake))
    return states


CRASHES = st.lists(
    st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 6), st.booleans()),
    min_size=1,
    max_size=2,
)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(first=CRASHES, later=CRASHES)
def test_crashes_leave_no_trace(
    corpora: tuple[ManifestCorpus, ManifestCorpus],
    undisturbed: list[tuple[object, ...]],
    first: list[tuple[int, int, bool]],
    later: list[tuple[int, int, bool]],
) -> None:
    lake = open_lake(f"memory://crashes{next(_fresh)}")
    for corpus, crashes, expected in zip(corpora, (first, later), undisturbed, strict=True):
        for step, nth, after in crashes:
            with crash(step, nth, after=after):
                try:
                    run(lake, corpus)
                except Crash:
                    ids = lake["corpus"].scan(["utt_id"]).read_all().column(0).to_pylist()
                    assert len(ids) == len(set(ids))
        run(lake, corpus)
        assert state(lake) == expected


@pytest.fixture(scope="module", params=["lance", "delta"])
def stored(
    request: pytest.FixtureRequest, folder: Path, corpora: tuple[ManifestCorpus, ManifestCorpus]
) -> Path:
    """A lake on disk that holds the first corpus; to be copied."""
    place = folder / request.param
    ingest(
        open_lake(place),
        corpora[0].root,
        "corpus",
        format=request.param,
        executor="local",
        part_rows=8,
        max_bad_fraction=1.0,
    )
    return place


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(len(STEPS)), ids=[name for _, name in STEPS])
def test_a_crash_at_each_step_on_stored_tables(
    tmp_path: Path,
    corpora: tuple[ManifestCorpus, ManifestCorpus],
    undisturbed: list[tuple[object, ...]],
    stored: Path,
    step: int,
    after: bool,
) -> None:
    shutil.copytree(stored, tmp_path / "lake")
    lake = open_lake(tmp_path / "lake")
    with crash(step, 0, after=after), pytest.raises(Crash):
        run(lake, corpora[1], commit_every_s=60)
    run(lake, corpora[1], commit_every_s=60)
    assert state(lake) == undisturbed[1]
