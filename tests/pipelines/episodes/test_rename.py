"""Features under other names: robots of other shapes share a set."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalake.episodes import open_episodes
from datalake.errors import InputError, SchemaError
from datalake.lake import open_lake
from datalake.pipelines import ingest
from scripts.broken_robot_datasets import CAMERA, LENGTHS, write_good

NAMES = {"action": "action.two", "observation.state": "observation.two", CAMERA: f"{CAMERA}_two"}


def test_renamed_features_have_columns_of_their_own(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    for name in ("one", "two"):
        write_good(tmp_path / name, "v2.1")
    ingest(lake, tmp_path / "one", "arms", executor="local")
    with pytest.raises(SchemaError, match=r"action\.two.*--union"):
        ingest(lake, tmp_path / "two", "arms", executor="local", rename=NAMES)
    ingest(lake, tmp_path / "two", "arms", executor="local", rename=NAMES, union=True)

    arms = open_episodes(lake, "arms")
    assert {feature.name for feature in arms.features} == {*NAMES, *NAMES.values()}
    frames, half = arms.frames.scan().read_all(), sum(LENGTHS)
    assert frames["action"][:half] == frames["action/two"][half:]
    assert frames["action"][half:].null_count == frames["action/two"][:half].null_count == half
    rows = arms.episodes.scan(["videos", "stats"]).read_all().to_pylist()
    assert [row["videos"][0]["feature"] for row in rows[len(LENGTHS) :]] == [f"{CAMERA}_two"] * 3
    assert "action.two" in {stats["feature"] for stats in rows[-1]["stats"]}

    again = ingest(lake, tmp_path / "two", "arms", executor="local", rename=NAMES, union=True)
    assert again.version_after == arms.version


@pytest.mark.parametrize(
    "rename", [{"acton": "a"}, {"action": "observation.state"}, {"action": "index"}, {"action": ""}]
)
def test_names_that_cannot_be_are_refused(rename: dict[str, str], tmp_path: Path) -> None:
    write_good(tmp_path / "one", "v2.1")
    lake = open_lake(tmp_path / "lake")
    with pytest.raises(InputError, match=r"no feature 'acton'|cannot be called"):
        ingest(lake, tmp_path / "one", "arms", executor="local", rename=rename)
    assert not lake.tables()
