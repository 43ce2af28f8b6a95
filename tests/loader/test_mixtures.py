"""Mixtures of real tables: of one kind in one batch, of several side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from datalake.errors import InputError
from datalake.lake import open_lake
from datalake.loader import EpisodeWindows, Loader, Mixture, Rows, Utterances
from datalake.loader.stream import Batch
from datalake.tables import Table, create_table
from tests.loader import corpus
from tests.loader.resuming import assert_resumes_everywhere, assert_same
from tests.robots import robot_frames, write_robots

NAMES = ("lance", "delta", "robots")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    path: Path = tmp_path_factory.mktemp("mixtures")
    return {
        name: create_table(path / f"corpus.{name}", corpus.SCHEMA, format=name).append(
            corpus.rows(count)
        )
        for name, count in (("lance", 40), ("delta", 24))
    }


@pytest.fixture(scope="module")
def parts(tables: dict[str, Table], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    lake = open_lake(tmp_path_factory.mktemp("mixtures") / "lake")
    write_robots(lake, video=False, image=False)
    speech = {name: Utterances(table, num_samples=32) for name, table in tables.items()}
    return speech | {"robots": EpisodeWindows.from_lake(lake, "g1", {"action": [0, 0.1]})}


def loader_of(parts: dict[str, Any], names: tuple[str, ...] = NAMES, **changes: Any) -> Loader:
    weights = changes.pop("weights", None)
    mixture = Mixture({name: parts[name] for name in names}, weights)
    return Loader(mixture, **{"batch_size": 8, "num_threads": 0, **changes})


def rows_of(batch: Batch) -> list[tuple[str, int]]:
    """Which example of which part came, in the order of the batch."""
    found: list[Any] = [None] * len(batch["seed"])
    for name in NAMES:
        if name in batch:
            for place, row in zip(
                batch[name]["place"].tolist(), batch[name]["row_index"].tolist(), strict=True
            ):
                found[place] = (name, row)
    return [one for one, pad in zip(found, batch["is_pad"].tolist(), strict=True) if not pad]


def test_two_tables_of_speech_are_one_batch(parts: dict[str, Any]) -> None:
    seen = []
    for batch in loader_of(parts, ("lance", "delta")):
        assert batch["audio"].shape == (8, 32)
        for index, (part, row) in enumerate(
            zip(batch["source"].tolist(), batch["row_index"].tolist(), strict=True)
        ):
            audio = batch["audio"][index].numpy()
            begin = round(float(audio[0]) * 32768)
            assert np.array_equal(audio, corpus.clip(row)[begin : begin + 32])
            seen.append((part, row))
    assert sorted(seen) == [*((0, row) for row in range(40)), *((1, row) for row in range(24))]


def test_whole_clips_are_filled_as_their_part_says(tables: dict[str, Table]) -> None:
    mixture = Mixture(
        {
            "again": Utterances(tables["lance"], num_samples=None, pad="repeat"),
            "zeros": Utterances(tables["delta"], num_samples=None, pad="zeros"),
        }
    )
    for batch in Loader(mixture, batch_size=6, num_threads=0):
        longest = int(batch["num_samples"].max())
        for index, row in enumerate(batch["row_index"].tolist()):
            expected = np.zeros(longest, np.float32)
            clip = corpus.clip(row)
            expected[: len(clip)] = clip
            if batch["source"][index] == 0:
                expected = np.resize(clip, longest)
            assert np.array_equal(batch["audio"][index].numpy(), expected)


def test_parts_of_other_kinds_stand_under_their_names(parts: dict[str, Any]) -> None:
    states = np.concatenate(
        [
            np.asarray(robot_frames(n, k)["action"].combine_chunks().flatten()).reshape(-1, 3)
            for n, k in enumerate((12, 7, 20, 9, 15))
        ]
    )
    absent = 0
    for batch in loader_of(parts, weights={"lance": 9, "delta": 1, "robots": 3}):
        present = [name for name in NAMES if name in batch]
        absent += len(present) < 3
        assert sorted(batch["source"].unique().tolist()) == [NAMES.index(n) for n in present]
        assert batch.keys() == {
            *present, "weight", "is_pad", "seed", "source", "epoch", "position",
        }  # fmt: skip
        for name in present:
            part, number = batch[name], NAMES.index(name)
            assert part["place"].tolist() == torch.where(batch["source"] == number)[0].tolist()
            assert len(part["row_index"]) == len(part["place"]) > 0
        if "robots" in batch:
            rows = batch["robots"]["row_index"].numpy()
            assert np.array_equal(batch["robots"]["action"][:, 0].numpy(), states[rows])
    assert absent


def test_resumes_everywhere(parts: dict[str, Any]) -> None:
    def flat(batch: Batch) -> Batch:
        """One level, so that batches can be compared."""
        own = {name: batch[name] for name in batch if name not in NAMES}
        inner = {f"{n}/{key}": v for n in NAMES if n in batch for key, v in batch[n].items()}
        return own | inner

    class Flat(Loader):
        def __iter__(self) -> Any:
            return map(flat, super().__iter__())

    mixture = Mixture({name: parts[name] for name in NAMES})
    assert_resumes_everywhere(lambda: Flat(mixture, batch_size=24, num_threads=0))


def test_other_weights_ranks_and_batches_at_a_resume(parts: dict[str, Any]) -> None:
    """Each part goes on where it stood, and the rest comes in the new proportions."""
    first = loader_of(parts, weights={"lance": 1, "delta": 1, "robots": 2}, batch_size=5)
    passing = iter(first)
    seen = [one for _ in range(4) for one in rows_of(next(passing))]
    state = json.loads(json.dumps(first.state_dict()))
    loaders = [
        loader_of(parts, weights={"lance": 3, "delta": 1}, batch_size=4, rank=rank, world_size=3)
        for rank in range(3)
    ]
    for loader in loaders:
        loader.load_state_dict(state)
    rest = [one for step in zip(*loaders, strict=True) for batch in step for one in rows_of(batch)]
    assert len(seen) + len(rest) == first.num_examples == 127
    assert not any(name == "robots" for name, _ in rest)
    counts = {name: sum(one == name for one, _ in rest) for name in NAMES}
    assert abs(counts["lance"] - 0.75 * len(rest)) <= 2
    for name, size in (("lance", 40), ("delta", 24)):
        own = [row for one, row in (*seen, *rest) if one == name]
        for begin in range(0, len(own) - size + 1, size):
            assert sorted(own[begin : begin + size]) == list(range(size))
    with pytest.raises(InputError, match="another stream"):
        loader_of(parts, ("lance", "delta")).load_state_dict(state)


def test_the_realised_mix_is_told(parts: dict[str, Any]) -> None:
    loader = loader_of(parts, weights={"lance": 1, "delta": 2, "robots": 1})
    for _ in range(3):
        list(loader)
    mix = loader.stats().mix
    assert {name: share.asked for name, share in mix.items()} == {
        "lance": 0.25, "delta": 0.5, "robots": 0.25,
    }  # fmt: skip
    # Repeats that even out an epoch's last step count as well.
    assert sum(share.num_examples for share in mix.values()) == 3 * 128
    assert all(abs(share.realised - share.asked) < 0.02 for share in mix.values())


@pytest.mark.filterwarnings("ignore:lance is not fork-safe", "ignore:.*pin_memory")
def test_parts_come_through_worker_processes(parts: dict[str, Any]) -> None:
    expected = list(loader_of(parts, batch_size=20))
    loader = loader_of(parts, batch_size=20)
    found = list(loader.dataloader(num_workers=2, multiprocessing_context="fork", pin_memory=True))
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name in NAMES:
            if name in other:
                assert_same([one[name]], [other[name]])
                assert torch.is_tensor(one[name]["place"])
    assert loader.epoch == 1


def test_names_that_a_batch_gives_to_something_else(parts: dict[str, Any]) -> None:
    taken = {"seed": parts["lance"], "robots": parts["robots"]}
    with pytest.raises(InputError, match="call the part something else"):
        next(iter(Loader(Mixture(taken), num_threads=0)))
    schema = pa.schema([("source", pa.string())])
    table = create_table("memory://mixtures/source", schema, format="memory")
    table = table.append(pa.table({"source": ["a", "b"]}))
    assert next(iter(Loader(Rows(table), batch_size=2)))["source"] in (["a", "b"], ["b", "a"])
    with pytest.raises(InputError, match="adds to a batch"):
        next(iter(Loader(Mixture({"a": Rows(table), "b": Rows(table)}), num_threads=0)))
