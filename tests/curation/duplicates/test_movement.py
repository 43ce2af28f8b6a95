"""Episodes of one movement, against comparing all with all."""

from __future__ import annotations

import numpy as np
import pytest

from curation.duplicates.movement import near_episodes
from curation.order import place
from datalake.episodes.walk import walk
from datalake.errors import InputError
from datalake.lake import open_lake
from tests.robots import write_robots


def movements(episodes, num_points: int = 64) -> dict[str, np.ndarray]:
    """By id, resampled and normalised, the plain way."""
    columns = ["observation/state", "action"]
    ids = episodes.index.episode_ids.to_pylist()
    frames = {
        name: np.concatenate([np.array(part[c].to_pylist()) for c in columns], axis=1)
        for name, part in zip(ids, walk(episodes, range(len(ids)), columns), strict=True)
    }
    everything = np.concatenate(list(frames.values()))
    found = {}
    for name, values in frames.items():
        scaled = (values - everything.mean(0)) / everything.std(0)
        at = np.linspace(0, len(scaled) - 1, num_points)
        found[name] = np.stack(
            [np.interp(at, np.arange(len(scaled)), column) for column in scaled.T], axis=1
        )
    return found


@pytest.mark.parametrize("threshold", [0.6, 0.9])
def test_the_same_episodes_go_as_by_comparing_all(tmp_path, threshold) -> None:
    lake = open_lake(tmp_path / "lake")
    lengths = [10 + number % 3 for number in range(120)]
    episodes = write_robots(lake, lengths=lengths, dim=2, image=False, video=False)
    moved = movements(episodes)
    kept: list[str] = []
    wanted = {}
    for name in sorted(moved, key=lambda name: place(0, name)):
        apart = {k: np.sqrt(np.mean((moved[k] - moved[name]) ** 2)) for k in kept}
        by = [k for k in kept if apart[k] <= 1 - threshold]
        if by:
            wanted[name] = (by[0], 1 - apart[by[0]])
        else:
            kept.append(name)
    found = near_episodes(lake, "g1.episodes", threshold)
    drops = found.drops.to_pylist()
    assert {row["utt_id"]: row["kept_by_id"] for row in drops} == {
        name: by for name, (by, _) in wanted.items()
    }
    assert len(drops) > (30 if threshold == 0.6 else 1)
    for row in drops:
        assert row["similarity"] == pytest.approx(wanted[row["utt_id"]][1], abs=1e-5)
    assert set(found.kept["utt_id"].to_pylist()) == set(kept)
    assert found.parameters["num_compared"] < 120 * 119 / 2 / (2 if threshold == 0.6 else 5)


def test_what_cannot_be_is_refused(tmp_path) -> None:
    lake = open_lake(tmp_path / "lake")
    write_robots(lake, lengths=[5, 6], image=False, video=False)
    with pytest.raises(InputError, match="threshold"):
        near_episodes(lake, "g1.episodes", 1.0)
    with pytest.raises(InputError, match="not numeric"):
        near_episodes(lake, "g1.episodes", features=["note"])
