"""Whatever is wrong: one paragraph on stderr, the right exit code, no traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from datalake.errors import CredentialsError
from datalake.lake import Lineage, open_lake
from tests.cli.conftest import Cli, Result
from tests.lake.conftest import KEYS as KEY_COLUMNS

KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}


def complaint(done: Result, code: int) -> str:
    """The one paragraph of a command that failed as it should."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("lss", "no command 'lss'. Did you mean ls?"),
        ("info corpsu", "no table, episode set or selection 'corpsu'"),
        ("head corpus --wher x", "--where"),
        ("head corpus -n zero", "'--rows' / '-n': expected a valid integer, found 'zero'. See"),
        ("head corpus -n 0", "'--rows' / '-n'"),
        ("head", "Missing argument"),
        ("head corpus --columns utt_id,lable", "label"),
        ("head corpus --where labl='spoof'", "label"),
        ("head corpus --where (", "predicate"),
        ("head ../corpus", "no table, episode set or selection '../corpus'"),
        ("versions corpus.quarantin", "corpus.quarantine"),
        ("tag corpus t --version 99", "no version 99"),
        ("tag corpus ../t", "../t"),
        ("quarantine copus", "no table 'copus'"),
        ("detect nowhere", "nowhere"),
        ("info corpus --lake ftp://x/y", "ftp://"),
        ("info corpus --lake s3://", "bucket"),
        ("ingest . t --format lanse", "'--format': 'lanse' is not one of 'lance', 'delta'. See"),
        ("ingest . t --connector manifst", "no connector 'manifst'. Did you mean manifest?"),
        ("--lake x ls", "No such option: --lake. Options of a command follow its name. See"),
        ("curate selct", "Did you mean 'select'"),
        ("cleanup corpus --older-than-days -1", "--older-than-days"),
    ],
)
def test_bad_requests(cli: Cli, command: str, says: str) -> None:
    assert says in complaint(cli(*command.split()), 2)


@pytest.mark.parametrize("command", ["ls", "info corpus", "head corpus", "log corpus"])
def test_no_lake(cli: Cli, tmp_path: Path, command: str) -> None:
    said = complaint(cli(*command.split(), "--lake", tmp_path / "none"), 2)
    assert "There is no lake here" in said
    assert "DATALAKE_URI" in said
    assert not (tmp_path / "none").exists()


def test_a_lake_that_is_a_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is a file" in complaint(cli("ls", "--lake", tmp_path / "file"), 2)


def test_the_environment_names_the_lake(cli: Cli, tmp_path: Path) -> None:
    said = complaint(cli("ls", env={"DATALAKE_URI": str(tmp_path / "other")}), 2)
    assert str(tmp_path / "other") in said


def test_an_endpoint_that_refuses(cli: Cli) -> None:
    started = time.monotonic()
    done = cli("ls", "--lake", "s3://bucket/lake", "--endpoint", "http://127.0.0.1:9", env=KEYS)
    assert "an answer from http://127.0.0.1:9" in complaint(done, 1)
    assert time.monotonic() - started < 20


def test_a_corpus_behind_an_endpoint_that_refuses(cli: Cli) -> None:
    done = cli("detect", "s3://bucket/x", "--endpoint", "http://127.0.0.1:9", env=KEYS)
    assert "an answer from http://127.0.0.1:9" in complaint(done, 1)


@pytest.fixture
def silent_endpoint() -> Iterator[str]:
    """A port that nobody answers: its backlog is full."""
    with socket.socket() as server, socket.socket() as filler:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        filler.connect(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_an_endpoint_that_is_silent(cli: Cli, silent_endpoint: str) -> None:
    started = time.monotonic()
    done = cli("ls", "--lake", "s3://bucket/lake", "--endpoint", silent_endpoint, env=KEYS)
    assert silent_endpoint in complaint(done, 1)
    assert time.monotonic() - started < 40


def test_no_credentials(cli: Cli) -> None:
    no_metadata = {"AWS_EC2_METADATA_DISABLED": "true"}
    done = cli(
        "ls", "--lake", "s3://bucket/lake", "--endpoint", "http://127.0.0.1:9", env=no_metadata
    )
    assert "credentials" in complaint(done, 1)


@pytest.fixture
def frozen_lake(own_lake: Path) -> Iterator[Path]:
    """A lake that nobody may write to, the superuser included."""
    if os.geteuid() != 0:
        folders = [own_lake, *(path for path in own_lake.rglob("*") if path.is_dir())]
        for folder in folders:
            folder.chmod(0o555)
        yield own_lake
        for folder in folders:
            folder.chmod(0o755)
        return
    for options in (["--bind"], ["-o", "remount,ro,bind"]):
        mounted = subprocess.run(
            ["mount", *options, own_lake, own_lake], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("the superuser may write anywhere, and may not mount a folder here")
    yield own_lake
    subprocess.run(["umount", "--lazy", own_lake], check=True)


def test_a_read_only_lake_can_be_read(cli: Cli, frozen_lake: Path) -> None:
    for command in ("ls", "info corpus", "head few", "log corpus", "info few"):
        done = cli(*command.split(), "--lake", frozen_lake)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["tag corpus gold", "rm corpus --yes"])
def test_a_read_only_lake_refuses_writes(cli: Cli, frozen_lake: Path, command: str) -> None:
    said = complaint(cli(*command.split(), "--lake", frozen_lake), 1)
    assert str(frozen_lake) in said
    assert cli("info", "corpus", "--lake", frozen_lake).returncode == 0


def test_a_read_only_folder_does_not_become_a_lake(frozen_lake: Path) -> None:
    lake = open_lake(frozen_lake / "inner")
    with pytest.raises(CredentialsError, match="inner"):
        lake.create("t", KEY_COLUMNS, lineage=Lineage("ingest"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rowz: 3", "Did you mean rows?"),
        ("rows: [1, {a: b}]", "cannot be used"),
        ("- rows", "no mapping"),
        ("rows: [", "cannot be read"),
        ("rows: many", "'--rows' / '-n'"),
        ("config: other.yaml", "unknown key"),
    ],
)
def test_bad_configurations(cli: Cli, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    assert says in complaint(cli("head", "corpus", "--config", "bad.yaml"), 2)


def test_a_missing_configuration(cli: Cli) -> None:
    assert "none.yaml" in complaint(cli("head", "corpus", "--config", "none.yaml"), 2)


def test_debug_shows_the_traceback(cli: Cli) -> None:
    done = cli("info", "corpsu", "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: There is no table")


def test_a_reader_that_goes_away(cli: Cli, filled_lake: Path) -> None:
    program = Path(sys.executable).parent / "datalake"
    with subprocess.Popen(
        [program, "head", "corpus", "-n", "30", "--lake", filled_lake],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        process.wait()
    assert process.returncode == 141


def test_a_closed_stdout(filled_lake: Path) -> None:
    program = Path(sys.executable).parent / "datalake"
    command = f"'{program}' ls --lake '{filled_lake}' >&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_process_ends_before_it_takes_itself_apart() -> None:
    """A library's thread that wants the interpreter then would abort the process."""
    script = """
import atexit, sys
from datalake.cli import console

class Late:
    def __del__(self):
        print("taken apart")

def work(*_):
    atexit.register(print, "at exit")
    return 3

sys.late = Late()
console._code_of = work
console.run(None, "datalake")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "at exit\n")
