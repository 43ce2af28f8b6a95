"""HDF5 and Zarr read the same from a real object store as from the disk."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from datalake.detection import connector, detect
from datalake.recording import EpisodeCorpus, EpisodeData
from datalake.testing.connector_suite import lay_down
from datalake.testing.episode_connector_suite import read_all
from datalake.uri import StorageOptions, locate
from tests.connectors.robots import buffers, demos
from tests.servers import BUCKET

pytestmark = pytest.mark.s3


def datasets(tmp_path: Path) -> dict[str, Mapping[str, bytes]]:
    return {
        "robomimic": {"lift.hdf5": demos.robomimic()},
        "aloha": {"episode_0.hdf5": demos.aloha(demos.aloha_arrays(0), compressed=True)},
        "umi": {
            **buffers.files(tmp_path / "zip", "cup.zarr.zip", buffers.umi()),
        },
        "umi_folder": buffers.files(tmp_path / "folder", "cup.zarr", buffers.umi()),
    }


def test_the_same_as_on_the_disk(tmp_path: Path, s3_server: StorageOptions) -> None:
    for name, files in datasets(tmp_path).items():
        here = locate(tmp_path / name)
        there = locate(f"s3://{BUCKET}/{uuid.uuid4().hex}/{name}", s3_server)
        opened: list[EpisodeCorpus] = []
        for root in (here, there):
            lay_down(files, root)
            (evidence,) = detect(root)
            corpus = connector(evidence.connector).open(root, {"fps": "10"})
            assert isinstance(corpus, EpisodeCorpus)
            opened.append(corpus)
        assert opened[0].features == opened[1].features
        for local, remote in zip(*map(read_all, opened), strict=True):
            assert isinstance(local, EpisodeData)
            assert isinstance(remote, EpisodeData)
            assert local.ref.episode_id == remote.ref.episode_id
            for column in local.frames.column_names:
                # NaN equals itself in this comparison of their buffers' text.
                assert str(local.frames[column].to_pylist()) == str(
                    remote.frames[column].to_pylist()
                )
