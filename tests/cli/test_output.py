"""How values print: for people, for pipes and for programs."""

from __future__ import annotations

import datetime as dt
import json
import sys

import numpy as np
import pyarrow as pa
import pytest

from datalake.cli import console
from datalake.cli.progress import Progress
from datalake.schema import media_field


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (48_200, "48.2 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (7_300_000_000, "7.3 GB"),
        (10**18, "1000.0 PB"),
    ],
)
def test_sizes(num_bytes: int, text: str) -> None:
    assert console.size(num_bytes) == text


def test_a_pipe_gets_aligned_columns_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    console.print_table([{"name": long, "n": 1}, {"name": "b", "n": 20, "more": True}])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "name" + " " * 296 + "   n  more"
    assert lines[1] == long + "   1  -"
    assert lines[2] == "b" + " " * 299 + "  20  yes"


def test_cells(capsys: pytest.CaptureFixture[str]) -> None:
    noon = dt.datetime(2025, 3, 1, 12, tzinfo=dt.UTC)
    console.print_pairs(
        {
            "time": noon,
            "text": "two\nlines",
            "list": ["a", "b"],
            "map": {"k": 1, "l": None},
            "f": 1 / 3,
            "flag": False,
            "none": None,
            "empty": (),
            "raw": b"1234",
        }
    )
    assert capsys.readouterr().out.splitlines() == [
        "time   2025-03-01 12:00:00Z",
        "text   two lines",
        "list   a, b",
        "map    k=1 l=-",
        "f      0.333333",
        "flag   no",
        "none   -",
        "empty  -",
        "raw    <4 B bytes>",
    ]


@pytest.mark.parametrize(
    ("columns", "printed"),
    [
        (60, ["vits-demo/tacotron2+hifigan-ft  123456    10"]),
        (40, ["vits-demo/tacotron2+hifiga  123456    10", "n-ft"]),
        (30, ["domain  vits-demo/tacotron2+hifigan-ft", "rows    123456", "kept    10", ""]),
    ],
)
def test_a_terminal_gets_a_table_folded_to_its_width(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    printed: list[str],
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    console.print_table([{"domain": "vits-demo/tacotron2+hifigan-ft", "rows": 123456, "kept": 10}])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[-len(printed) :] == printed


def test_no_rows_print_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table([], columns=["a", "b"])
    assert capsys.readouterr().out == "a  b\n"


def test_media_print_what_they_weigh(capsys: pytest.CaptureFixture[str]) -> None:
    schema = pa.schema([media_field("audio", "audio"), ("raw", pa.large_binary())])
    table = pa.table({"audio": [b"x" * 48_200, None], "raw": [b"12", b""]}, schema=schema)
    console.print_table(table)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "<48.2 kB audio>  <2 B bytes>",
        "-                <0 B bytes>",
    ]


def test_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"a": [1, None], "s": ["ü", "b"]})
    console.print_json(
        {
            "table": table,
            "nan": float("nan"),
            "inf": float("-inf"),
            "when": dt.datetime(2025, 3, 1, tzinfo=dt.UTC),
            "bytes": b"123",
            "tuple": (1, True),
            "numpy": [np.int64(3), np.float32(0.5), np.bool_(True), np.arange(2)],
        }
    )
    text = capsys.readouterr().out
    assert "ü" in text
    assert json.loads(text) == {
        "table": [{"a": 1, "s": "ü"}, {"a": None, "s": "b"}],
        "nan": None,
        "inf": None,
        "when": "2025-03-01T00:00:00+00:00",
        "bytes": {"kind": "bytes", "num_bytes": 3},
        "tuple": [1, True],
        "numpy": [3, 0.5, True, [0, 1]],
    }


def test_progress_in_a_log_is_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("ingest", total=2000) as progress:
        for done in range(0, 2001, 100):
            progress.update(done, note="3 refused")
    out, err = capsys.readouterr()
    assert out == ""
    # Faster than the interval: only the end is told.
    assert err.startswith("ingest: 2,000/2,000 rows, ")
    assert err.endswith(", 3 refused\n")
    assert err.count("\n") == 1


def test_progress_of_nothing_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("ingest"):
        pass
    assert capsys.readouterr().err == ""


def test_progress_survives_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with Progress("select", unit="domains") as progress:
            progress.update(7)
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert capsys.readouterr().err.startswith("select: 7 domains")


def test_long_lists_are_shortened_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_pairs({"ids": list(range(1024)), "few": list(range(12))})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ids  0, 1, 2, 3, 4, …, 1022, 1023 (1,024)"
    assert lines[1].endswith("10, 11")
    console.print_json({"ids": list(range(1024))})
    assert len(json.loads(capsys.readouterr().out)["ids"]) == 1024


def test_progress_counts_what_a_run_says(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("ingest") as progress:
        progress.update(1, total=2, unit="videos")
    assert "ingest: 1/2 videos, " in capsys.readouterr().err


def test_progress_counts_the_time_of_the_work_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that decodes now and then, and trains in between."""
    clock = 0.0
    monkeypatch.setattr("time.monotonic", lambda: clock)
    with Progress("decode") as progress:
        clock = 100.0
        progress.update(0, total=40)
        clock = 101.0
        progress.update(40, total=40)
        clock = 400.0
        progress.update(0, total=64)
        clock = 408.0
        progress.update(64, total=64)
        clock = 900.0
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "decode: 64/64 rows, 8.0 rows/s, 8 s"
