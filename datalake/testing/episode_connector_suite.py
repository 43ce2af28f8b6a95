"""What every connector of robot data must do. Inherit, name the connector, give it a dataset.

    class TestMine(EpisodeConnectorSuite):
        connector = CONNECTOR

        @pytest.fixture
        def dataset(self) -> Mapping[str, bytes]:
            return {"data/demo.hdf5": b"…", "meta/info.json": b"…"}

The dataset is laid down on the local disk and in memory, and the tests run on both. It should hold
two good episodes at least. What the values are is for tests of the connector's own; here is what
holds for every format.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import posixpath
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from datalake.connector import Connector, Evidence
from datalake.errors import ConfigError, InputError, LakeError, NotFoundError
from datalake.quarantine import Reason
from datalake.recording import (
    BOOKKEEPING,
    BadEpisode,
    EpisodeCorpus,
    EpisodeData,
    Feature,
    Finding,
    Severity,
)
from datalake.recording.feature import NUMERIC_DTYPES
from datalake.testing.connector_suite import lay_down
from datalake.uri import Location, locate

__all__ = ["EpisodeConnectorSuite", "read_all"]

LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345\n"
)
MAX_REF_BYTES = 4096
MAX_DAMAGED_FILES = 8


def read_all(corpus: EpisodeCorpus) -> list[EpisodeData | BadEpisode]:
    """Everything that can be read of a corpus, in its order; refused episodes are left out."""
    return list(corpus.read([ref for ref in corpus.episodes() if ref.refusal is None]))


class EpisodeConnectorSuite:
    """The contract of `datalake.recording.EpisodeCorpus` and of the connector that opens it."""

    connector: ClassVar[Connector]
    options: ClassVar[Mapping[str, str]] = {}
    """Options to open the dataset with."""
    path: ClassVar[str] = ""
    """What is opened, relative to the dataset's folder; empty for the folder itself."""
    damaged: ClassVar[Sequence[str]] = ()
    """The files that are damaged one by one; empty for all, of which the first eight are."""

    @pytest.fixture
    def dataset(self) -> Mapping[str, bytes]:
        """The files of a small dataset, by path."""
        raise NotImplementedError

    @pytest.fixture(params=["local", "memory"])
    def root(
        self, request: pytest.FixtureRequest, tmp_path: Path, dataset: Mapping[str, bytes]
    ) -> Iterator[Location]:
        """What is opened."""
        if request.param == "local":
            folder = locate(tmp_path / "dataset")
        else:
            folder = locate(f"memory://suite-{uuid.uuid4().hex}/dataset")
        lay_down(dataset, folder)
        yield folder.join(self.path) if self.path else folder
        if not folder.is_local:
            filesystem, address = folder.filesystem()
            filesystem.rm(posixpath.dirname(address), recursive=True)

    @pytest.fixture
    def opened(self, root: Location) -> EpisodeCorpus:
        """The opened dataset."""
        return self._open(root)

    def _open(self, root: Location) -> EpisodeCorpus:
        corpus = self.connector.open(root, self.options)
        assert isinstance(corpus, EpisodeCorpus)
        return corpus

    # The connector ------------------------------------------------------------------------------

    def test_is_a_connector(self) -> None:
        assert isinstance(self.connector, Connector)
        assert self.connector.name.isidentifier()
        assert all(option.help for option in self.connector.options)

    def test_detects_its_dataset(self, root: Location) -> None:
        evidence = self.connector.detect(root)
        assert isinstance(evidence, Evidence)
        assert evidence.connector == self.connector.name
        assert 0 < evidence.confidence <= 1
        assert evidence.found
        assert all(evidence.found)

    def test_detects_nothing_where_there_is_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        lay_down({"a.wav": b"RIFF", "b.txt": b"x", "c.json": b"{}"}, locate(tmp_path / "other"))
        for name in ("empty", "absent", "other"):
            assert self.connector.detect(locate(tmp_path / name)) is None

    def test_refuses_to_open_an_empty_folder(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises((InputError, NotFoundError)):
            self.connector.open(locate(tmp_path / "empty"), self.options)

    def test_refuses_an_unknown_option(self, root: Location) -> None:
        with pytest.raises(ConfigError, match="no-such-option"):
            self.connector.open(root, {**self.options, "no-such-option": "1"})

    # What the metadata say ----------------------------------------------------------------------

    def test_names_itself(self, opened: EpisodeCorpus) -> None:
        assert opened.source
        assert "/" not in opened.source
        assert isinstance(opened.root, Location)
        assert opened.embodiment != ""
        assert math.isfinite(opened.fps)
        assert opened.fps > 0

    def test_features_are_well_formed(self, opened: EpisodeCorpus) -> None:
        assert opened.features
        _check_features(opened.features)

    def test_episodes_are_well_formed(self, opened: EpisodeCorpus) -> None:
        refs = list(opened.episodes())
        assert refs
        assert len({ref.episode_id for ref in refs}) == len(refs)
        numbers = [ref.episode_index for ref in refs]
        assert numbers == sorted(set(numbers))
        assert numbers[0] >= 0
        for ref in refs:
            assert ref.episode_id.startswith(f"{opened.source}/")
            assert ref.episode_id != f"{opened.source}/"
            assert ref.stamp
            assert ref.origin
            assert not ref.origin.startswith(("/", "../"))
            assert ref.length is None or ref.length >= 0
            assert ref.num_bytes >= 0
            assert ref.refusal is None or (ref.refusal[0] in Reason and ref.refusal[1])
            assert len(pickle.dumps(ref)) <= MAX_REF_BYTES

    def test_metadata_are_the_same_at_each_call(
        self, opened: EpisodeCorpus, root: Location
    ) -> None:
        again = self._open(root)
        for corpus in (opened, again):
            assert list(corpus.episodes()) == list(opened.episodes())
            assert list(corpus.videos()) == list(opened.videos())
            assert list(corpus.findings()) == list(opened.findings())
        assert again.features == opened.features
        assert (again.source, again.fps, again.embodiment) == (
            opened.source,
            opened.fps,
            opened.embodiment,
        )

    def test_videos_are_well_formed(self, opened: EpisodeCorpus) -> None:
        videos = list(opened.videos())
        ids = {video.video_id for video in videos}
        assert len(ids) == len(videos)
        cameras = {feature.name for feature in opened.features if feature.dtype == "video"}
        for video in videos:
            assert video.video_id.startswith(f"{opened.source}/")
            assert video.feature in cameras
            assert not video.path.startswith(("/", "../"))
        for ref in opened.episodes():
            for span in ref.videos:
                assert span.video_id in ids
                assert span.feature in cameras
                assert span.to_s is None or span.to_s >= span.from_s >= 0

    def test_findings_are_well_formed(self, opened: EpisodeCorpus) -> None:
        ids = {ref.episode_id for ref in opened.episodes()}
        for finding in opened.findings():
            assert isinstance(finding, Finding)
            assert finding.reason in Reason
            assert finding.severity in Severity
            assert finding.detail
            assert finding.episode_id is None or finding.episode_id in ids

    def test_a_stamp_changes_with_the_files(
        self, tmp_path: Path, dataset: Mapping[str, bytes]
    ) -> None:
        folder = locate(tmp_path / "stamped")
        lay_down(dataset, folder)
        root = folder.join(self.path) if self.path else folder
        before = {ref.episode_id: ref.stamp for ref in self._open(root).episodes()}
        for path in dataset:
            os.utime(tmp_path / "stamped" / path, (1, 1))
        after = {ref.episode_id: ref.stamp for ref in self._open(root).episodes()}
        assert after.keys() == before.keys()
        assert all(after[name] != before[name] for name in before)

    # What is read -------------------------------------------------------------------------------

    def test_reads_what_is_declared(self, opened: EpisodeCorpus) -> None:
        num_read = 0
        refs = [ref for ref in opened.episodes() if ref.refusal is None]
        for ref, data in zip(refs, opened.read(refs), strict=True):
            assert data.ref == ref
            if isinstance(data, BadEpisode):
                assert data.detail
                continue
            num_read += 1
            _check_data(data)
        assert num_read, "the dataset of a suite has good episodes"

    def test_reads_the_same_in_any_order(self, opened: EpisodeCorpus) -> None:
        refs = [ref for ref in opened.episodes() if ref.refusal is None]
        there = pickle.loads(pickle.dumps(opened))
        assert list(there.episodes()) == list(opened.episodes())
        forward = list(opened.read(refs))
        backward = list(there.read(pickle.loads(pickle.dumps(refs[::-1]))))
        apart = [data for ref in refs for data in opened.read([ref])]
        for one, other, third in zip(forward, reversed(backward), apart, strict=True):
            assert _same(one, other)
            assert _same(one, third)

    def test_reads_nothing_for_nothing(self, opened: EpisodeCorpus) -> None:
        assert list(opened.read([])) == []

    def test_reading_may_be_given_up(self, opened: EpisodeCorpus) -> None:
        refs = [ref for ref in opened.episodes() if ref.refusal is None]
        reader = opened.read(refs)
        next(reader)
        del reader
        assert len(list(opened.read(refs))) == len(refs)

    # Damage -------------------------------------------------------------------------------------

    @pytest.mark.parametrize("damage", ["cut", "empty", "pointer", "noise", "gone"])
    def test_damage_is_reported_and_never_a_traceback(
        self, damage: str, tmp_path: Path, dataset: Mapping[str, bytes]
    ) -> None:
        for number, path in enumerate((self.damaged or sorted(dataset))[:MAX_DAMAGED_FILES]):
            files = _damaged(dataset, path, damage)
            folder = locate(tmp_path / str(number))
            (tmp_path / str(number)).mkdir()
            lay_down(files, folder)
            root = folder.join(self.path) if self.path else folder
            try:
                corpus = self._open(root)
                list(corpus.findings())
                list(corpus.videos())
                refs = [ref for ref in corpus.episodes() if ref.refusal is None]
                read = list(corpus.read(refs))
            except LakeError:
                continue
            assert [data.ref for data in read] == refs
            for data in read:
                if isinstance(data, EpisodeData):
                    data.frames.validate(full=True)
                else:
                    assert data.detail

    def test_files_that_vanish_are_reported(
        self, tmp_path: Path, dataset: Mapping[str, bytes]
    ) -> None:
        folder = locate(tmp_path / "vanishing")
        lay_down(dataset, folder)
        corpus = self._open(folder.join(self.path) if self.path else folder)
        refs = [ref for ref in corpus.episodes() if ref.refusal is None]
        for path in dataset:
            (tmp_path / "vanishing" / path).unlink()
        try:
            read = list(corpus.read(refs))
        except LakeError:
            return
        assert [data.ref for data in read] == refs
        assert all(isinstance(data, BadEpisode) and data.detail for data in read)


def _damaged(dataset: Mapping[str, bytes], path: str, damage: str) -> dict[str, bytes]:
    files = dict(dataset)
    data = files.pop(path)
    if damage != "gone":
        files[path] = {
            "cut": data[: len(data) * 2 // 3],
            "empty": b"",
            "pointer": LFS_POINTER,
            "noise": bytes(byte ^ 0x5A for byte in data),
        }[damage]
    return files


def _check_features(features: Sequence[Feature]) -> None:
    names = [feature.name for feature in features]
    assert len(set(names)) == len(names)
    assert not BOOKKEEPING & set(names)
    for feature in features:
        assert feature.name
        assert "/" not in feature.name
        assert feature.dtype in {*NUMERIC_DTYPES, "string", "image", "video"}
        assert all(size > 0 for size in feature.shape)
        assert isinstance(feature.shape, tuple)
        assert len(feature.names) in {0, len(feature.shape), feature.num_elements}
        assert Feature.from_row(feature.as_row()) == feature
        if feature.dtype in {"image", "video"}:
            assert len(feature.shape) == 3


def _check_data(data: EpisodeData) -> None:
    frames = data.frames
    frames.validate(full=True)
    _check_features(data.features)
    assert data.ref.length is None or frames.num_rows == data.ref.length
    assert frames.schema.field("timestamp").type in {pa.float32(), pa.float64()}
    assert frames["timestamp"].null_count == 0
    columns = {feature.name: feature for feature in data.features if feature.dtype != "video"}
    assert set(frames.column_names) == (
        columns.keys() | (BOOKKEEPING & set(frames.column_names))
    ), "a column a feature, and none beside these and the bookkeeping"
    for name, feature in columns.items():
        assert frames.schema.field(name).type == feature.arrow_type, name
    assert all(isinstance(index, int) for index in data.tasks)
    if "task_index" in frames.column_names:
        assert set(frames["task_index"].to_pylist()) <= data.tasks.keys()
    assert data.split != ""
    json.dumps(dict(data.metadata), allow_nan=True)
    json.dumps(dict(data.stats))
    pickle.dumps(data)


def _same(one: EpisodeData | BadEpisode, other: EpisodeData | BadEpisode) -> bool:
    if isinstance(one, BadEpisode) or isinstance(other, BadEpisode):
        return one == other
    return (
        one.ref == other.ref
        and _bits(one.frames) == _bits(other.frames)
        and one.features == other.features
        and (one.tasks, one.success, one.split) == (other.tasks, other.success, other.split)
        and json.dumps([one.metadata, one.stats]) == json.dumps([other.metadata, other.stats])
    )


def _bits(frames: pa.Table) -> bytes:
    """The table as bytes: NaN equals itself there."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, frames.schema) as writer:
        writer.write_table(frames.combine_chunks())
    return bytes(sink.getvalue())
