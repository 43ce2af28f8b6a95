"""The script that kills ingests, two rounds of it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_ingest.py"


@pytest.fixture
def kill_ingest() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kill_ingest", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "kill_ingest", module)
        spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_killed_ingest_ends_like_an_undisturbed_one(
    kill_ingest: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    kill_ingest.run_trials(num_rounds=2, num_files=600, table_format="lance", seed=1)
    assert capsys.readouterr().out.count("equal") == 2
