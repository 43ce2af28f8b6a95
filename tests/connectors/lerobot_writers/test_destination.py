from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from connectors.destination import Destination
from datalake.errors import DiskFullError, ExistsError, StoreError
from datalake.uri import Location, locate

MARKER = "meta/info.json"


def write(place: Location, text: str, *, overwrite: bool = False, fail: bool = False) -> None:
    with Destination(place, marker=MARKER, overwrite=overwrite) as written:
        written.write(MARKER, text.encode())
        written.write("data/a.bin", text.encode())
        if fail:
            raise KeyboardInterrupt
        with written.open(f"data/{text}") as file:
            file.write(b"12345")
    assert written.num_bytes == 2 * len(text) + 5


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "local":
        return locate(tmp_path / "new" / "dataset")
    fsspec.filesystem("memory").store.clear()
    return locate("memory://exports/dataset")


def files(place: Location) -> dict[str, bytes]:
    filesystem, path = place.filesystem()
    if not filesystem.exists(path):
        return {}
    root = filesystem._strip_protocol(path)
    return {
        name.removeprefix(root).lstrip("/"): filesystem.cat_file(name)
        for name in filesystem.find(path)
    }


def test_writes(place: Location) -> None:
    write(place, "one")
    assert files(place) == {MARKER: b"one", "data/a.bin": b"one", "data/one": b"12345"}
    with pytest.raises(ExistsError, match="--overwrite"):
        write(place, "two")
    write(place, "two", overwrite=True)
    assert files(place) == {MARKER: b"two", "data/a.bin": b"two", "data/two": b"12345"}


def test_what_killed_exports_left_beside_it_goes(tmp_path: Path) -> None:
    place = locate(tmp_path / "dataset")
    (tmp_path / ".dataset.export-dead/data").mkdir(parents=True)
    (tmp_path / ".dataset.export-dead.old/data").mkdir(parents=True)
    (tmp_path / ".other.export-dead").mkdir()
    with Destination(place, marker=MARKER, overwrite=False) as running:
        running.write("data/a.bin", b"1")
        write(place, "two")
        beside = {path.name for path in tmp_path.iterdir()}
        # Until the dataset stands in its place, an old one may be all there is.
        assert beside - {"dataset"} == {
            Path(running._root.uri).name, ".dataset.export-dead.old", ".other.export-dead"
        }  # fmt: skip
        shutil.rmtree(place.uri)
    write(place, "three", overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"dataset", ".other.export-dead"}


def test_a_failure_leaves_no_dataset(place: Location) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(place, "one", fail=True)
    assert MARKER not in files(place)
    if place.is_local:
        assert list(Path(place.uri).parent.iterdir()) == []


def test_a_failure_keeps_the_old_dataset(tmp_path: Path) -> None:
    place = locate(tmp_path / "dataset")
    write(place, "one")
    with pytest.raises(KeyboardInterrupt):
        write(place, "two", overwrite=True, fail=True)
    assert files(place)[MARKER] == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


def test_what_is_no_dataset_is_not_replaced(place: Location) -> None:
    filesystem, path = place.filesystem()
    filesystem.makedirs(path)
    filesystem.pipe_file(f"{path}/thesis.txt", b"ten years")
    for overwrite in (False, True):
        with pytest.raises(ExistsError, match="another folder"):
            write(place, "one", overwrite=overwrite)
    assert files(place) == {"thesis.txt": b"ten years"}


def test_files_and_links(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(locate(tmp_path / "empty"), "one")
    (tmp_path / "file").touch()
    with pytest.raises(ExistsError):
        write(locate(tmp_path / "file"), "one", overwrite=True)
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    write(locate(tmp_path / "link"), "two", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "empty" / MARKER).read_bytes() == b"two"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        write(locate(tmp_path / "file" / "dataset"), "one")


def test_killed_before_the_end(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from connectors.destination import Destination\n"
        "from datalake.uri import locate\n"
        f"with Destination(locate(sys.argv[1]), marker={MARKER!r}, overwrite=False) as d:\n"
        "    d.write('data/a.bin', b'x'); print(flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "dataset"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "dataset").exists()
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".dataset.export-")
    assert not (left / MARKER).exists()
    write(locate(tmp_path / "dataset"), "one")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        place = locate(tmp_path / "out")
        with Destination(place, marker=MARKER, overwrite=False) as written:
            written.write("data/a.bin", b"1")
            [staged] = tmp_path.glob(".out.*/data")
            (staged / "b.bin").symlink_to("/dev/full")
            with written.open("data/b.bin") as file:
                file.write(b"0" * 100_000)

    with pytest.raises(DiskFullError, match="Writing the export found no room"):
        fill()
    assert list(tmp_path.iterdir()) == []
