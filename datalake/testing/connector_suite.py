"""What every connector must do. Inherit `ConnectorSuite`, name the connector, give it a corpus.

    class TestMine(ConnectorSuite):
        connector = CONNECTOR

        @pytest.fixture
        def corpus(self) -> Mapping[str, bytes]:
            return {"protocol.txt": b"…", "audio/1.wav": …}

The corpus is laid down on the local disk and in memory, and all tests run on both.
"""

from __future__ import annotations

import pickle
import posixpath
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from datalake.connector import AUDIO_SUFFIXES, FILES, ROWS, Connector, Corpus, Evidence
from datalake.errors import ConfigError, InputError, NotFoundError
from datalake.quarantine import Reason
from datalake.schema import BONAFIDE, SPOOF, UTTERANCES
from datalake.uri import Location, locate

__all__ = ["ConnectorSuite", "lay_down"]

MAX_BATCH_ROWS = 65_536


def lay_down(files: Mapping[str, bytes], root: Location) -> None:
    """Write files, by their paths relative to `root`."""
    filesystem, folder = root.filesystem()
    for path, data in files.items():
        target = posixpath.join(folder, path)
        filesystem.makedirs(posixpath.dirname(target), exist_ok=True)
        with filesystem.open(target, "wb") as handle:
            handle.write(data)


class ConnectorSuite:
    """The contract of `datalake.connector`."""

    connector: ClassVar[Connector]
    options: ClassVar[Mapping[str, str]] = {}
    """Options to open the corpus with."""

    @pytest.fixture
    def corpus(self) -> Mapping[str, bytes]:
        """The files of a small corpus, by path."""
        raise NotImplementedError

    @pytest.fixture(params=["local", "memory"])
    def root(
        self, request: pytest.FixtureRequest, tmp_path: Path, corpus: Mapping[str, bytes]
    ) -> Iterator[Location]:
        """Where the corpus lies."""
        if request.param == "local":
            location = locate(tmp_path / "corpus")
        else:
            location = locate(f"memory://suite-{uuid.uuid4().hex}/corpus")
        lay_down(corpus, location)
        yield location
        if not location.is_local:
            filesystem, folder = location.filesystem()
            filesystem.rm(posixpath.dirname(folder), recursive=True)

    @pytest.fixture
    def opened(self, root: Location) -> Corpus:
        """The opened corpus."""
        return self._open(root)

    def _open(self, root: Location) -> Corpus:
        corpus = self.connector.open(root, self.options)
        assert isinstance(corpus, Corpus)
        return corpus

    def test_is_a_connector(self) -> None:
        assert isinstance(self.connector, Connector)
        assert self.connector.name.isidentifier()
        for option in self.connector.options:
            assert option.help

    def test_detects_its_corpus(self, root: Location) -> None:
        evidence = self.connector.detect(root)
        assert isinstance(evidence, Evidence)
        assert evidence.connector == self.connector.name
        assert 0 < evidence.confidence <= 1
        assert evidence.found
        assert all(evidence.found)

    def test_detects_nothing_in_an_empty_folder(self, tmp_path: Path) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        assert self.connector.detect(locate(empty)) is None
        assert self.connector.detect(locate(tmp_path / "absent")) is None

    def test_refuses_to_open_an_empty_folder(self, tmp_path: Path) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        with pytest.raises((InputError, NotFoundError)):
            self.connector.open(locate(empty), {})

    def test_refuses_an_unknown_option(self, root: Location) -> None:
        with pytest.raises(ConfigError, match="no-such-option"):
            self.connector.open(root, {"no-such-option": "1"})

    def test_is_a_corpus_and_names_itself(self, opened: Corpus) -> None:
        assert isinstance(opened, Corpus)
        assert opened.source
        assert isinstance(opened.claims_every_file, bool)
        assert isinstance(opened.root, Location)

    def test_rows_have_the_promised_columns(self, opened: Corpus) -> None:
        schema = pa.schema([*ROWS, *opened.extra])
        assert all(field.type == pa.string() for field in opened.extra)
        taken = set(ROWS.names) | set(FILES.names) | set(UTTERANCES.names)
        assert not taken & {field.name for field in opened.extra}
        assert len(set(schema.names)) == len(schema.names)
        for batch in opened.rows():
            assert batch.schema.equals(schema)
            assert 0 < batch.num_rows <= MAX_BATCH_ROWS
            batch.validate(full=True)

    def test_rows_are_the_same_at_each_call(self, opened: Corpus, root: Location) -> None:
        rows = _rows(opened)
        assert rows
        assert _rows(opened) == rows
        assert _rows(self._open(root)) == rows

    def test_paths_are_relative_with_forward_slashes(self, opened: Corpus) -> None:
        paths = [row["path"] for row in _rows(opened)] + [row["path"] for row in _files(opened)]
        for path in paths:
            assert path == posixpath.normpath(path)
            assert not path.startswith(("/", "../"))
            assert "\\" not in path

    def test_labels_and_generators_are_canonical(self, opened: Corpus) -> None:
        for row in _rows(opened):
            assert row["label"] in (BONAFIDE, SPOOF, None)
            if row["label"] == BONAFIDE:
                assert row["generator"] is None
            if row["label"] == SPOOF:
                assert row["generator"]

    def test_what_is_known_is_never_an_empty_string(self, opened: Corpus) -> None:
        for row in _rows(opened):
            assert "" not in row.values()

    def test_refused_rows_say_why(self, opened: Corpus) -> None:
        codes = {reason.value for reason in Reason}
        for row in _rows(opened):
            if row["refused"] is None:
                assert row["refused_detail"] is None
            else:
                assert row["refused"] in codes
                assert row["refused_detail"]

    def test_files_are_the_audio_that_is_there(
        self, opened: Corpus, corpus: Mapping[str, bytes], root: Location
    ) -> None:
        assert all(batch.schema.equals(FILES) for batch in opened.files())
        found = {row["path"]: row["size_bytes"] for row in _files(opened)}
        assert len(found) == len(_files(opened))
        sizes = {
            posixpath.join(root.uri, path): len(data)
            for path, data in corpus.items()
            if posixpath.splitext(path)[1].lower() in AUDIO_SUFFIXES
        }
        for path, size in found.items():
            assert sizes[posixpath.join(opened.root.uri, path)] == size

    def test_the_files_of_good_rows_are_found(self, opened: Corpus) -> None:
        """Most rows of the corpus have a file; a connector that builds wrong paths has none."""
        found = {row["path"] for row in _files(opened)}
        promised = {row["path"] for row in _rows(opened) if row["refused"] is None}
        assert len(promised & found) > len(promised) / 2

    def test_files_come_in_a_stable_order(self, opened: Corpus) -> None:
        assert _files(opened) == _files(opened)

    def test_a_stamp_changes_with_the_bytes(self, opened: Corpus) -> None:
        first = _files(opened)[0]
        assert first["stamp"]
        lay_down({first["path"]: b"changed"}, opened.root)
        again = next(row for row in _files(opened) if row["path"] == first["path"])
        assert again["size_bytes"] == len(b"changed")
        assert again["stamp"] != first["stamp"]

    def test_travels_to_a_worker(self, opened: Corpus) -> None:
        assert _rows(pickle.loads(pickle.dumps(opened))) == _rows(opened)


def _rows(corpus: Corpus) -> list[dict[str, Any]]:
    return [row for batch in corpus.rows() for row in batch.to_pylist()]


def _files(corpus: Corpus) -> list[dict[str, Any]]:
    return [row for batch in corpus.files() for row in batch.to_pylist()]
