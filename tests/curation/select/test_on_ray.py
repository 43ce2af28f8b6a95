"""Ray's workers select the rows that this process selects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import curation
from curation.selection import OrderOptions, block_scan
from datalake import tables
from datalake.pipelines.ray_executor import RayExecutor
from tests.curation.select.corpora import key_table
from tests.curation.select.test_orders import CORPUS


@pytest.fixture(scope="module")
def ray() -> Iterator[RayExecutor]:
    with RayExecutor(num_workers=2) as running:
        yield running


def test_ray_selects_the_same_rows(ray, tmp_path, monkeypatch) -> None:
    corpus = key_table({"a": 400, "a/x": 900, "a/y": 7, "b": 30, "b/x": 60, "r": 500})
    table = tables.create_table(str(tmp_path / "keys.lance"), corpus.schema, format="lance")
    table = table.append(corpus)
    monkeypatch.setattr(block_scan, "BLOCK_ROWS", 500)
    options = {"table_name": "corpus", "cap": 20, "where": "duration_s > 1"}
    here = curation.select(table, **options)
    within = {**options, "cap": 5, "within": here}
    there = curation.select(table, executor=ray, scratch=tmp_path, **options)
    cut = curation.select(table, executor=ray, scratch=tmp_path, **within)
    assert there.rows.equals(here.rows)
    assert there.manifest.equals(here.manifest)
    assert there.parameters == here.parameters
    assert cut.rows.equals(curation.select(table, **within).rows)


def test_ray_orders_domains_alike(ray, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(block_scan, "BLOCK_ROWS", CORPUS.num_rows // 3)
    table = tables.create_table(str(tmp_path / "corpus.lance"), CORPUS.schema, format="lance")
    table = table.append(CORPUS)
    options = {"table_name": "corpus", "cap": 20, "ratio": 2.0}
    voice = OrderOptions(embedding="voice", num_neighbors=16)
    by_snr = OrderOptions(quality="snr_db")
    orders = {"facility_location": voice, "quality": by_snr}
    for order, given in orders.items():
        here = curation.select(table, order=order, order_options=given, **options)
        there = curation.select(
            table, order=order, order_options=given, executor=ray, scratch=tmp_path, **options
        )
        assert there.rows.equals(here.rows)
        assert there.manifest.equals(here.manifest)
