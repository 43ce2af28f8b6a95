"""What LeRobot cannot hold is refused with the reason and the way out, before anything is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from datalake.errors import InputError, NotFoundError
from datalake.lake import Lake, Lineage
from datalake.recording import Feature
from tests.connectors.lerobot_writers.conftest import Export
from tests.connectors.lerobot_writers.sets import ODD, write_set
from tests.robots import CAMERA, write_robots

STATE = ODD[0]
CAMERA_FEATURE = Feature(CAMERA, "video", (24, 32, 3))

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "bookkeeping": (
        {"features": [STATE, Feature("task", "string", (1,))]},
        r"the feature task .*rename-feature",
    ),
    "six axes": (
        {"features": [STATE, Feature("deep", "float32", (1, 1, 2, 1, 1, 2))]},
        r"deep .*6 axes; it knows 5 at most",
    ),
    "texts": ({"features": [STATE, Feature("words", "string", (2,))]}, r"words .*one text a frame"),
    "frame rates": (
        {"features": [STATE], "fps": (10.0, 20.0)},
        r"10 fps in odd/000000, 20 in odd/000001.*--where 'fps = 10'",
    ),
    "features": (
        {"features": [STATE, ODD[1]], "own_features": {1: [STATE]}},
        r"odd/000000 has action, odd/000001 has not.*--where",
    ),
    "shapes": (
        {"features": [STATE], "own_features": {2: [replace(STATE, shape=(4,), names=())]}},
        r"shape \(3,\) .*in odd/000000 and float64 of shape \(4,\) in odd/000002",
    ),
    "names": (
        {"features": [STATE], "own_features": {2: [replace(STATE, names=("a", "b", "c"))]}},
        r"\(x, y, z\) in odd/000000 and .*\(a, b, c\) in odd/000002",
    ),
    "no camera": (
        {"features": [STATE, CAMERA_FEATURE]},
        rf"no video of {CAMERA} in odd/000000.*drop-feature",
    ),
    "gaps": (
        {"features": [STATE, ODD[1]], "missing": [(1, "action")]},
        r"values of action \(odd, episode odd/000001\).*no gaps",
    ),
    "uint64": ({"features": [Feature("n", "uint64", (1,))]}, r"above 2\*\*63 - 1"),
}


@pytest.mark.parametrize("version", ["v30", "v21"])
@pytest.mark.parametrize("case", CASES)
def test_refused(case: str, version: str, lake: Lake, export: Export, tmp_path: Path) -> None:
    given, said = CASES[case]
    write_set(lake, "odd", **given)
    with pytest.raises(InputError, match=said):
        export(lake, "odd", version)
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]


def test_a_slash_in_a_name(lake: Lake, export: Export) -> None:
    source = write_set(lake, "odd", [Feature("a.b", "float32", (1,))])
    rows = source.episodes.scan().read_all().to_pylist()
    for row in rows:
        row["features"][0]["name"] = "a/b"
    source.rewrite(pa.Table.from_pylist(rows, source.episodes.schema), lineage=Lineage("test"))
    with pytest.raises(InputError, match=r"a slash in its name.*rename-feature"):
        export(lake, "odd", "v30")


def test_an_episode_without_frames(lake: Lake, export: Export) -> None:
    source = write_set(lake, "odd", [STATE], (3,))
    rows = source.episodes.scan().read_all().to_pylist()
    rows.append({**rows[0], "episode_id": "odd/empty", "length": 0})
    source.rewrite(pa.Table.from_pylist(rows, source.episodes.schema), lineage=Lineage("test"))
    with pytest.raises(InputError, match=r"odd/empty.*length > 0"):
        export(lake, "odd", "v30")
    _, report = export(lake, "odd", "v30", where="length > 0")
    assert report.num_episodes == 1


def test_a_video_that_the_set_lacks(lake: Lake, export: Export) -> None:
    source = write_robots(lake)
    source.publish([], videos=source.videos.delete("num_bytes > 0"), lineage=Lineage("test"))
    with pytest.raises(NotFoundError, match="video files that the set does not have"):
        export(lake, "g1", "v30")


def test_what_is_chosen(robots: Lake, export: Export) -> None:
    with pytest.raises(NotFoundError, match="Did you mean robots/000001"):
        export(robots, "g1", "v30", episode_ids=["robots/0000001"])
    with pytest.raises(InputError, match="named twice"):
        export(robots, "g1", "v30", episode_ids=["robots/000001"] * 2)
    with pytest.raises(InputError, match="none for which length > 99"):
        export(robots, "g1", "v30", where="length > 99")
    with pytest.raises(InputError, match="not by both"):
        export(robots, "g1", "v30", where="length > 9", episode_ids=["robots/000001"])
    with pytest.raises(NotFoundError, match="no episode set 'g2'"):
        export(robots, "g2", "v30")
    with pytest.raises(NotFoundError, match="no exporter 'lerobot_v40'"):
        export(robots, "g1", "v40")


def test_parts_of_a_union_are_exported_apart(lake: Lake, export: Export) -> None:
    write_set(
        lake,
        "odd",
        [STATE, ODD[1]],
        (4, 5),
        own_features={1: [STATE]},
        missing=[(1, "action")],
        embodiments=("arm", "humanoid"),
    )
    _, report = export(lake, "odd", "v30", where="embodiment = 'humanoid'")
    assert (report.num_episodes, report.num_frames) == (1, 5)
