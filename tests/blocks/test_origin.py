"""Waiting out a store that refuses, and telling that from one that has nothing."""

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from datalake.blocks import origin as module
from datalake.blocks.budget import DEFAULT_RATE
from datalake.blocks.cache import BlockCache
from datalake.blocks.origin import Origin, num_runs, will_pass
from datalake.blocks.reader import TableReader
from datalake.errors import CredentialsError, NotFoundError, StoreError
from datalake.tables.protocol import Table
from datalake.telemetry import Meter
from datalake.uri import Location, StorageOptions
from tests.blocks import made

# Whole sentences, as they came from the libraries.
LANCE = (
    "LanceError(IO): Generic S3 error: Error performing GET http://127.0.0.1:37787/lake/x.lance/data"
    "/0.lance in 451.9ms, after 3 retries, max_retries: 3, retry_timeout: 8s  - Server returned "
    "non-2xx status code: {}, /rustc/48a229/library/core/src/ops/function.rs:250:5"
)
DELTA = (
    "Generic S3 error\n   \x1b[31m↳\x1b[0m Error performing GET http://127.0.0.1:1/lake/x.parquet "
    "in 433ms, after 3 retries, max_retries\n   \x1b[31m↳\x1b[0m 3, retry_timeout\n - Server "
    "returned non-2xx status code\n   \x1b[31m↳\x1b[0m {}"
)
ARROW = (
    "When reading information for key 'x/a' in bucket 'lake': AWS Error {} during HeadObject "
    "operation: No response body."
)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        (LANCE.format("503 Service Unavailable: <Error><Code>SlowDown</Code></Error>"), True),
        (LANCE.format("429 Too Many Requests: "), True),
        (LANCE.format("500 Internal Server Error: "), True),
        (LANCE.format("400 Bad Request: <Code>InvalidArgument</Code>"), False),
        (LANCE.format("416 Range Not Satisfiable: "), False),
        (DELTA.format("503 Service Unavailable"), True),
        (DELTA.format("429 Too Many Requests"), True),
        ("AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate.", True),
        ("AWS Error SERVICE_UNAVAILABLE during GetObject operation: ", True),
        (ARROW.format("UNKNOWN (HTTP status 503)"), True),
        (ARROW.format("UNKNOWN (HTTP status 429)"), True),
        (ARROW.format("NETWORK_CONNECTION"), True),
        (ARROW.format("UNKNOWN (HTTP status 400)"), False),
        (ARROW.format("ACCESS_DENIED"), False),
        (
            "AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 18",
            True,
        ),
        ("Generic S3 error: HTTP error: request or response body error", True),
        ("error reading a body from connection: end of file before message length reached", True),
        ("in 60.003273306s - HTTP error: error sending request: operation timed out", True),
        ("error sending request: tcp connect error: Connection refused (os error 111)", True),
        ("Connection reset by peer (os error 104)", True),
        ("Invalid user input: file of 503 bytes is too short", False),
        ("Parquet magic bytes not found in footer", False),
    ],
)
def test_what_passes(text: str, passes: bool) -> None:
    assert will_pass(OSError(text)) is passes
    wrapped = StoreError("Taking rows failed", found="something")
    wrapped.__cause__ = OSError(text)
    assert will_pass(wrapped) is passes


def test_what_is_not_there_does_not_pass() -> None:
    error = NotFoundError("There is nothing", found="503 Service Unavailable")
    assert not will_pass(error)
    assert not will_pass(CredentialsError("no", found="timed out"))


class _Moody:
    """A table on a store that refuses so often."""

    def __init__(self, table: Table, refusals: int) -> None:
        self._table = table
        self.refusals = refusals
        self.uri = "s3://bucket/t.lance"

    def __getattr__(self, name: str) -> object:
        return getattr(self._table, name)

    def take(self, rows: np.ndarray, columns: list[str]) -> pa.Table:
        self.refusals -= 1
        if self.refusals >= 0:
            raise StoreError("no") from OSError(DELTA.format("503 Service Unavailable"))
        return self._table.take(rows, columns)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Table:
    where = str(tmp_path_factory.mktemp("t") / "t")
    return made.table(where, made.rows(50, nulls=False), table_format="lance")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What would have been waited after a refusal; below 0, for the budget."""
    found: list[float] = []

    def pause(wait: float, meter: Meter, what: str, stop: threading.Event | None) -> None:
        found.append(-wait if "budget" in what else wait)

    monkeypatch.setattr(module, "_pause", pause)
    return found


def test_refusals_are_waited_out_and_halve_the_rate(
    plain: Table, tmp_path: Path, waits: list[float]
) -> None:
    meter = Meter()
    store = Origin(_Moody(plain, 5), directory=tmp_path, reads_per_s=400)  # type: ignore[arg-type]
    rows = np.array([3, 1, 4])
    found = store.read(rows, ["whole"], meter, num_requests=3)
    assert found == plain.take(rows, ["whole"])
    # Each is about twice the one before, with a jitter that keeps ranks from marching in step.
    bases = np.array([0.25, 0.5, 1, 2, 4])
    found_waits = np.array([wait for wait in waits if wait > 0])
    assert (found_waits >= bases / 2).all()
    assert (found_waits <= bases).all()
    assert store.rate < 30
    counts = meter.counts()
    assert counts["origin_refusals"] == 5
    assert counts["origin_reads"] == 6


def test_patience_ends(plain: Table, monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> None:
    store = Origin(_Moody(plain, 1000), patience_s=0.4)  # type: ignore[arg-type]
    with pytest.raises(
        StoreError, match=r"rows 0-9 of whole of s3://bucket/t.lance, version.* refusals within 0"
    ):
        store.read(np.arange(10), ["whole"], Meter(), num_requests=1)


def test_a_reader_that_closes_stops_waiting(plain: Table) -> None:
    stop = threading.Event()
    stop.set()
    store = Origin(_Moody(plain, 1000))  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="refus"):
        store.read(np.arange(10), ["whole"], Meter(), num_requests=1, stop=stop)


def test_the_budget_is_waited_for(plain: Table, waits: list[float]) -> None:
    meter = Meter()
    store = Origin(_Moody(plain, 0), reads_per_s=10)  # type: ignore[arg-type]
    for _ in range(3):
        store.read(np.arange(10), ["whole"], meter, num_requests=5)
    assert waits == [pytest.approx(-0.5, abs=0.1)]
    assert meter.counts()["budget_waits"] == 1


def test_a_local_table_has_no_budget(plain: Table, waits: list[float]) -> None:
    store = Origin(plain, reads_per_s=1)
    for _ in range(5):
        store.read(np.arange(10), ["whole"], Meter(), num_requests=5)
    assert waits == []
    assert store.rate == float("inf")


def test_runs() -> None:
    assert [num_runs(np.array(r, np.int64)) for r in ([], [5], [1, 2, 3], [3, 1, 9, 8])] == [
        0,
        1,
        1,
        3,
    ]


@pytest.mark.parametrize("table_format", ["lance", "delta"])
@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_lost_files_lose_their_rows_alone(
    tmp_path: Path, table_format: str, damage: str, waits: list[float]
) -> None:
    data = made.rows(90, nulls=False)
    table = made.table(str(tmp_path / "t"), data, table_format=table_format, pieces=3)
    suffix = ".lance" if table_format == "lance" else ".parquet"
    files = sorted(
        (path for path in (tmp_path / "t").rglob(f"*{suffix}") if path.is_file()),
        key=lambda path: path.stat().st_mtime_ns,
    )
    assert len(files) == 3
    if damage == "gone":
        files[1].unlink()
    else:
        files[1].write_bytes(files[1].read_bytes()[:200])
    reader = TableReader(table.at(table.version), cache=BlockCache(tmp_path / "cache"))
    fine, lost = np.array([0, 29, 60, 89]), np.array([5, 31, 45, 70])
    for column in ("whole", "label", "audio"):
        with pytest.raises(StoreError, match=rf"{column}.*t, version {table.version}"):
            reader._read_any(column, lost)
        assert set(reader.lost([column], lost)) == {31, 45}
    assert reader.texts("label", fine) == data.take(fine)["label"].to_pylist()
    assert reader.numbers("whole", fine).tolist() == data.take(fine)["whole"].to_pylist()
    views = [view.tobytes() for view in reader.views("audio", fine) if view is not None]
    assert views == data.take(fine)["audio"].to_pylist()
    error = reader.lost(["label"], lost)[31]
    assert "row 31" in str(error)


def test_the_rate_is_what_the_options_of_the_store_say(
    monkeypatch: pytest.MonkeyPatch, plain: Table
) -> None:
    def rate_of(options: StorageOptions, **given: float) -> float:
        monkeypatch.setattr(plain, "_location", Location("s3://bucket/x.lance", options))
        return Origin(plain, **given).rate  # type: ignore[arg-type]

    monkeypatch.delenv("DATALAKE_READS_PER_S", raising=False)
    assert rate_of(StorageOptions()) == DEFAULT_RATE
    assert rate_of(StorageOptions(reads_per_s=30)) == 30
    assert rate_of(StorageOptions(reads_per_s=30), reads_per_s=20) == 20
