"""Ray's workers find the duplicates that this process finds."""

from __future__ import annotations

from curation.duplicates import near_duplicates
from datalake.pipelines.ray_executor import RayExecutor
from tests.curation.duplicates.test_cover import drift_chains
from tests.curation.duplicates.test_near import table_of


def test_ray_drops_the_same_rows(tmp_path) -> None:
    table = table_of(tmp_path / "t", drift_chains(100, 6))
    options = {"num_cells": 12, "num_probes": 2}
    here = near_duplicates(table, "embedding", 0.98, **options)
    there = near_duplicates(
        table, "embedding", 0.98, executor=RayExecutor(num_workers=2), **options
    )
    assert here.drops.num_rows > 100
    assert there.drops.equals(here.drops)
    assert there.kept.equals(here.kept)
    assert there.parameters == here.parameters
