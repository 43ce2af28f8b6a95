from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.episodes import EpisodeSet
from datalake.episodes import walk as module
from datalake.episodes.walk import walk
from datalake.lake import open_lake
from tests.robots import LENGTHS, write_robots


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> EpisodeSet:
    path: Path = tmp_path_factory.mktemp("walk")
    return write_robots(open_lake(path / "lake"), video=False)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(st.sampled_from(range(len(LENGTHS))), unique=True),
    columns=st.sampled_from([["note"], ["action", "timestamp"], ["observation/images/wrist"]]),
    at_once=st.sampled_from([1, 20, 10_000]),
)
def test_equals_slices_of_the_table(
    source: EpisodeSet, rows: list[int], columns: list[str], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TAKEN_ROWS", at_once)
        found = list(walk(source, rows, columns))
    everything = source.frames.scan(columns).read_all()
    assert len(found) == len(rows)
    for row, frames in zip(rows, found, strict=True):
        start = int(source.index.starts[row])
        assert frames.equals(everything.slice(start, LENGTHS[row]))
