"""Exports to a real S3-compatible store."""

from __future__ import annotations

from uuid import uuid4

import pytest

from datalake.detection import connector
from datalake.episodes.export import ExportSettings, export_episodes
from datalake.errors import ExistsError
from datalake.lake import Lake, open_lake
from datalake.recording import EpisodeCorpus, EpisodeData
from datalake.testing.episode_connector_suite import read_all
from datalake.uri import StorageOptions, locate
from tests.robots import LENGTHS
from tests.servers import BUCKET


@pytest.mark.s3
def test_export(robots: Lake, s3_server: StorageOptions) -> None:
    lake = open_lake(robots.location.uri, options=s3_server)
    place = locate(f"s3://{BUCKET}/{uuid4().hex}/export", s3_server)
    report = export_episodes(lake, "g1", place)
    corpus = connector("lerobot").open(place, {})
    assert isinstance(corpus, EpisodeCorpus)
    found = [data for data in read_all(corpus) if isinstance(data, EpisodeData)]
    assert [data.frames.num_rows for data in found] == list(LENGTHS)
    assert all(file.size_bytes for file in corpus.videos())
    with pytest.raises(ExistsError):
        export_episodes(lake, "g1", place)
    settings = ExportSettings(overwrite=True)
    again = export_episodes(lake, "g1", place, exporter="lerobot_v21", settings=settings)
    assert (again.num_episodes, report.num_episodes) == (5, 5)
    filesystem, path = place.filesystem()
    filesystem.invalidate_cache()
    assert not [name for name in filesystem.find(path) if name.endswith("tasks.parquet")]
