"""The connector of replay buffers keeps the contract of episode connectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from connectors.umi import connector as umi
from datalake.testing.episode_connector_suite import EpisodeConnectorSuite
from tests.connectors.robots import buffers


class TestUmiZip(EpisodeConnectorSuite):
    connector = umi.CONNECTOR
    options: ClassVar = {"fps": "60"}
    path = "cup"

    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Mapping[str, bytes]:
        return buffers.files(tmp_path, "cup/dataset.zarr.zip", buffers.umi())


class TestUmiZipFile(TestUmiZip):
    path = "cup/dataset.zarr.zip"


class TestPushT(EpisodeConnectorSuite):
    connector = umi.CONNECTOR
    options: ClassVar = {"fps": "10", "task": "push the T"}
    damaged = (
        "pusht.zarr/.zgroup",
        "pusht.zarr/data/.zgroup",
        "pusht.zarr/data/img/.zarray",
        "pusht.zarr/data/img/0.0.0.0",
        "pusht.zarr/data/action/1.0",
        "pusht.zarr/meta/episode_ends/.zarray",
        "pusht.zarr/meta/episode_ends/0",
    )

    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Mapping[str, bytes]:
        return buffers.files(tmp_path, "pusht.zarr", buffers.pusht())


class TestVersion3(TestPushT):
    damaged = ("pusht.zarr/zarr.json", "pusht.zarr/data/img/c/0/0/0/0")

    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Mapping[str, bytes]:
        return buffers.files(tmp_path, "pusht.zarr", buffers.pusht(), zarr_format=3)
