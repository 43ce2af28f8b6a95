"""Episodes are written by Ray's workers as by this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalake.episodes import open_episodes
from datalake.lake import open_lake
from datalake.pipelines import ingest
from datalake.pipelines.episodes import work
from datalake.pipelines.ray_executor import RayExecutor
from tests.pipelines.episodes.corpora import contents, refused_episodes, toy

CHECKOUT = Path(__file__).resolve().parents[3]


def test_ray_and_this_process_write_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    monkeypatch.setattr(work, "cut", lambda items, *_, **__: iter([items[:2], items[2:]]))
    corpus = toy(tmp_path / "toys", 4)
    corpus.add(5, fault="nan")
    corpus.write()
    by_ray, here = open_lake(tmp_path / "ray"), open_lake(tmp_path / "here")
    with RayExecutor(num_workers=2) as executor:
        report = ingest(by_ray, corpus.root, "g1", connector="toy", executor=executor)
    ingest(here, corpus.root, "g1", connector="toy", executor="local")
    assert report.num_added == 4
    # In the same order, too.
    assert contents(open_episodes(by_ray, "g1")) == contents(open_episodes(here, "g1"))
    assert refused_episodes(by_ray) == refused_episodes(here) != []
