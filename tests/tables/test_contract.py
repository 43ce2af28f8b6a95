"""The contract suite, on every format and on a real object store."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from datalake.tables import Table, create_table
from datalake.testing import TableContract
from datalake.uri import Location, StorageOptions


class _OnDisk(TableContract):
    format: ClassVar[str]

    folder: Path

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _folder(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.folder = tmp_path_factory.mktemp("tables")

    def make_table(self, schema: pa.Schema, properties: Mapping[str, str] | None = None) -> Table:
        place = self.folder / f"{uuid.uuid4().hex}.{self.format}"
        return create_table(place, schema, format=self.format, properties=properties)


class TestLance(_OnDisk):
    format = "lance"


class TestDelta(_OnDisk):
    format = "delta"


class TestMemory(TableContract):
    def make_table(self, schema: pa.Schema, properties: Mapping[str, str] | None = None) -> Table:
        place = f"memory://{uuid.uuid4().hex}"
        return create_table(place, schema, format="memory", properties=properties)


class _OnS3(TableContract):
    format: ClassVar[str]
    options: StorageOptions

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _server(cls, s3_server: StorageOptions) -> None:
        cls.options = s3_server

    def make_table(self, schema: pa.Schema, properties: Mapping[str, str] | None = None) -> Table:
        place = Location(f"s3://lake/{uuid.uuid4().hex}.{self.format}", self.options)
        return create_table(place, schema, format=self.format, properties=properties)


@pytest.mark.s3
class TestLanceOnS3(_OnS3):
    format = "lance"


@pytest.mark.s3
class TestDeltaOnS3(_OnS3):
    format = "delta"
