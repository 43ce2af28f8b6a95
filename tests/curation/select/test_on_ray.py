"""Ray's workers select the rows that this process selects."""

from __future__ import annotations

import curation
from curation.selection import block_scan
from datalake import tables
from datalake.pipelines.ray_executor import RayExecutor
from tests.curation.select.corpora import key_table


def test_ray_selects_the_same_rows(tmp_path, monkeypatch) -> None:
    corpus = key_table({"a": 400, "a/x": 900, "a/y": 7, "b": 30, "b/x": 60, "r": 500})
    table = tables.create_table(str(tmp_path / "keys.lance"), corpus.schema, format="lance")
    table = table.append(corpus)
    monkeypatch.setattr(block_scan, "BLOCK_ROWS", 500)
    options = {"table_name": "corpus", "cap": 20, "where": "duration_s > 1"}
    here = curation.select(table, **options)
    within = {**options, "cap": 5, "within": here}
    with RayExecutor(num_workers=2) as ray:
        there = curation.select(table, executor=ray, scratch=tmp_path, **options)
        cut = curation.select(table, executor=ray, scratch=tmp_path, **within)
    assert there.rows.equals(here.rows)
    assert there.manifest.equals(here.manifest)
    assert there.parameters == here.parameters
    assert cut.rows.equals(curation.select(table, **within).rows)
