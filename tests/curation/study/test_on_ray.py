from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from curation.study.design import read_design
from curation.study.run import run_study
from datalake.pipelines.ray_executor import RayExecutor
from tests.curation.study.corpora import DESIGN, lake_at


def test_a_study_on_ray_is_the_same(tmp_path: Path) -> None:
    lake = lake_at(tmp_path / "lake")
    path = tmp_path / "design.yaml"
    path.write_text(DESIGN)
    design = read_design(path)
    small = replace(design, methods=design.methods[1:3], protocols=design.protocols[1:], seeds=(0,))
    here = run_study(lake, small, tmp_path / "here")
    there = run_study(lake, small, tmp_path / "there", executor=RayExecutor(num_workers=2))
    assert there.failures == ()
    assert there.results.num_rows == here.results.num_rows > 0
    for column in here.results.column_names:
        if column != "seconds":
            assert there.results[column].equals(here.results[column]), column
    assert there.mixtures.equals(here.mixtures)
