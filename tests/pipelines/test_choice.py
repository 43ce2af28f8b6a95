"""Which executor is taken for how much work."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalake.errors import InputError
from datalake.lake import open_lake
from datalake.pipelines.choice import Undecided, chosen_executor, decided, named_executor
from datalake.pipelines.executors import LocalExecutor
from datalake.pipelines.ray_executor import RayExecutor

MIB = 1 << 20


def test_little_stays_in_this_process_and_much_goes_to_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    auto = named_executor("auto", 2)
    assert isinstance(decided(auto, 5 * MIB), LocalExecutor)
    assert isinstance(decided(auto, 500 * MIB), RayExecutor)


def test_a_cluster_that_is_named_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(decided(Undecided(address="10.0.0.1:6379"), 1), RayExecutor)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert isinstance(decided(Undecided(), 1), RayExecutor)


def test_what_was_asked_for_stays() -> None:
    assert isinstance(decided(named_executor("local", None), 500 * MIB), LocalExecutor)
    assert isinstance(decided(named_executor("ray", None), 1), RayExecutor)
    with pytest.raises(InputError, match="auto, ray or local"):
        named_executor("spark", None)  # type: ignore[arg-type]


def test_a_lake_in_memory_is_for_this_process(tmp_path: Path) -> None:
    lake = open_lake("memory://choice/lake")
    assert isinstance(chosen_executor("auto", None, lake), LocalExecutor)
    with pytest.raises(InputError, match="cannot reach a lake in memory"):
        chosen_executor("ray", None, lake)
    assert isinstance(chosen_executor("ray", None, open_lake(tmp_path / "lake")), RayExecutor)
