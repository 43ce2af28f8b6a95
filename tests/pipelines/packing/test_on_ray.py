"""Sequences are packed by Ray's workers as by this process."""

from __future__ import annotations

from pathlib import Path

from datalake.lake import open_lake
from datalake.pipelines.packing import PackSettings, pack
from datalake.pipelines.ray_executor import RayExecutor
from tests.pipelines.packing.test_pack import FEATURES, assert_unpacks_to, rows_of
from tests.robots import write_robots


def test_ray_makes_the_same_rows(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    g1 = write_robots(lake, lengths=[5 + number % 17 for number in range(60)], video=False)
    settings = PackSettings(budget=24, unit="frames", columns=FEATURES)
    pack(lake, "g1", settings, into="here", executor="local")
    seen: list[int] = []

    class Progress:
        def update(self, done: int, *, total: int | None = None, note: str = "") -> None:
            seen.append(done)

    pack(
        lake, "g1", settings, into="there", executor=RayExecutor(num_workers=2), progress=Progress()
    )
    assert rows_of(lake, "here") == rows_of(lake, "there")
    assert_unpacks_to(rows_of(lake, "there"), g1, features=FEATURES)
    assert seen[-1] == lake["there"].count_rows()
    assert len(seen) > 1
