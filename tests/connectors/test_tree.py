"""Listing: order, links, hidden names, and what may not be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connectors.speech.rows import BATCH_ROWS, Row, extra_fields, to_batches
from connectors.tree import Tree
from datalake.errors import CredentialsError, NotFoundError
from datalake.uri import Location, locate


def write(root: Path, *paths: str) -> None:
    for path in paths:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"RIFF")


def listed(root: Path | Location, *folders: str) -> list[str]:
    batches = Tree(locate(root)).files(folders or ("",))
    return [path for batch in batches for path in batch.column("path").to_pylist()]


def test_audio_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, "b.wav", "a/2.flac", "a/10.FLAC", "a.txt", "z/y/x.m4a", "c.wav.part")
    assert listed(tmp_path) == ["a/10.FLAC", "a/2.flac", "b.wav", "z/y/x.m4a"]


def test_hidden_names_are_no_part_of_a_corpus(tmp_path: Path) -> None:
    write(tmp_path, ".cache/a.wav", "._b.wav", "__MACOSX/c.wav", "d.wav")
    assert listed(tmp_path) == ["d.wav"]


def test_links_are_followed_and_never_in_circles(tmp_path: Path) -> None:
    write(tmp_path, "corpus/a/1.wav", "elsewhere/2.wav")
    (tmp_path / "corpus" / "far").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "corpus" / "a" / "up").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus" / "gone.wav").symlink_to(tmp_path / "nowhere")
    assert listed(tmp_path / "corpus") == ["a/1.wav", "far/2.wav", "gone.wav"]


def test_a_dangling_link_is_listed_for_the_reader_to_find(tmp_path: Path) -> None:
    (tmp_path / "gone.wav").symlink_to(tmp_path / "nowhere")
    (batch,) = Tree(locate(tmp_path)).files()
    assert batch.to_pylist() == [
        {"path": "gone.wav", "size_bytes": None, "stamp": "a link to what is not there"}
    ]


def test_a_pipe_is_listed_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wav")
    (batch,) = Tree(Location(str(tmp_path))).files()
    assert batch.to_pylist() == [
        {"path": "pipe.wav", "size_bytes": None, "stamp": "neither a file nor a folder"}
    ]


def test_a_name_that_is_not_utf8_is_listed_with_escapes(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    (tmp_path / os.fsdecode(b"caf\xe9") / "crème.wav").write_bytes(b"x")
    (tmp_path / "crème.wav").write_bytes(b"x")
    tree = Tree(Location(str(tmp_path)))
    names = ["caf\\xe9/crème.wav", "crème.wav"]
    assert sorted(tree.audio_paths()) == names
    (batch,) = tree.files()
    sizes = {row["path"]: row["size_bytes"] for row in batch.to_pylist()}
    assert sizes == dict(zip(names, [None, 1], strict=True))


def test_folders_that_are_not_there_hold_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a/1.wav", "b/2.wav")
    assert listed(tmp_path, "b", "absent") == ["b/2.wav"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    write(tmp_path, "a/1.wav")
    (tmp_path / "a").chmod(0)
    try:
        with pytest.raises(CredentialsError, match="cannot be read"):
            listed(tmp_path)
    finally:
        (tmp_path / "a").chmod(0o755)


def test_batches_are_bounded(tmp_path: Path) -> None:
    names = [f"{index:05}.wav" for index in range(BATCH_ROWS + 3)]
    write(tmp_path, *names)
    batches = list(Tree(locate(tmp_path)).files())
    assert [batch.num_rows for batch in batches] == [BATCH_ROWS, 3]
    rows = (Row(name, name, "s", extra=("x",)) for name in names)
    packed = list(to_batches(rows, extra_fields(["note"])))
    assert [batch.num_rows for batch in packed] == [BATCH_ROWS, 3]


def test_names_are_found_in_any_case(tmp_path: Path) -> None:
    write(tmp_path, "LA/Flac/a.wav", "la.txt")
    tree = Tree(locate(tmp_path))
    assert tree.find("la/flac") == "LA/Flac"
    assert tree.find("LA/Flac/a.wav") == "LA/Flac/a.wav"
    assert tree.find("la/wav") is None


def test_the_tree_above(tmp_path: Path) -> None:
    above = Tree(locate(tmp_path / "a")).above()
    assert above is not None
    assert above.root.uri == str(tmp_path)
    assert Tree(locate("s3://bucket")).above() is None
    assert Tree(locate("/")).above() is None


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="absent"):
        Tree(locate(tmp_path)).open("absent")


def test_names_of_extra_columns() -> None:
    names = [field.name for field in extra_fields(["codec", "a b", "a.b", "PATH", "é", "..."])]
    assert names == ["protocol_codec", "a_b", "a_b_2", "protocol_PATH", "é", "column"]
