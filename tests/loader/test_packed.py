"""Packed sequences on the fly, with real tables: what lies flat is what `cu_seqlens` says."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.errors import InputError, NotFoundError
from datalake.lake import Lake, open_lake
from datalake.loader import Episodes, EpisodeWindows, Loader, Mixture, Packed, Selected, Utterances
from datalake.loader.stream import Batch
from datalake.packing import attention_mask, position_ids, segment_ids
from datalake.tables import Table, create_table
from tests.loader import corpus, timed
from tests.loader.resuming import assert_resumes_everywhere
from tests.robots import LENGTHS, robot_frames, write_robots

CAPACITY = 1000


@pytest.fixture(scope="module")
def table() -> Table:
    made = create_table("memory://packed/corpus", timed.SCHEMA, format="memory")
    return made.append(timed.rows(53))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = open_lake(tmp_path_factory.mktemp("packed") / "lake")
    write_robots(made, video=False)
    write_robots(made, "wider", video=False, image=False, dim=4, source="b", lengths=(5, 9, 4))
    return made


def flat(table: Table, **changes: Any) -> Utterances:
    return Utterances(table, **{"num_samples": None, "layout": "flat", **changes})


def check_bounds(batch: Batch, capacity: int, lengths: torch.Tensor) -> None:
    """What a batch says of its sequences fits the lengths of its examples."""
    assert batch["lengths"].tolist() == lengths.tolist()
    bounds = batch["cu_seqlens"]
    assert bounds.dtype == torch.int32
    assert bounds.tolist() == [0, *lengths.cumsum(0).tolist()]
    assert batch["max_seqlen"] == lengths.max()
    sequences = batch["sequence"]
    assert sequences.tolist() == sorted(sequences.tolist())
    fills = torch.bincount(sequences, lengths.double())
    assert (fills <= capacity).all()


@settings(deadline=None, max_examples=15)
@given(
    num_sequences=st.integers(1, 3),
    world_size=st.integers(1, 4),
    window=st.sampled_from([7, 64]),
    epoch=st.integers(0, 2),
)
def test_clips_lie_one_after_the_other(
    table: Table, num_sequences: int, world_size: int, window: int, epoch: int
) -> None:
    seen: list[int] = []
    packed = Packed(CAPACITY, "samples", num_sequences=num_sequences, window=window)
    for rank in range(world_size):
        loader = Loader(
            flat(table), batching=packed, rank=rank, world_size=world_size, num_threads=0,
            epoch=epoch,
        )  # fmt: skip
        for batch in loader:
            numbers = batch["row_index"].tolist()
            assert batch["num_samples"].tolist() == [corpus.num_samples(n) for n in numbers]
            assert np.array_equal(batch["audio"].numpy(), timed.clips(numbers))
            check_bounds(batch, CAPACITY, batch["num_samples"])
            assert len(batch["audio"]) == batch["cu_seqlens"][-1]
            total = int(batch["num_samples"].sum())
            assert batch["fill"] == total / (CAPACITY * num_sequences)
            seen += batch["row_index"][~batch["is_pad"]].tolist()
    assert sorted(seen) == list(range(53))


def test_what_is_too_long_is_cut_and_what_is_shorter_than_told_leaves_room() -> None:
    rows = timed.rows(12)
    told = rows["duration_s"].to_pylist()
    # The table says more than there is of row 2, less of row 3, and row 9 is too long anyway.
    told[2], told[3] = 210 / 16000, 100 / 16000
    rows = rows.set_column(4, timed.SCHEMA.field("duration_s"), [told])
    table = create_table("memory://packed/wrong", timed.SCHEMA).append(rows)
    packed = Packed(300, "samples", overlong="truncate", num_sequences=2)
    expected = {n: min(corpus.num_samples(n), 300) for n in range(12)} | {3: 100}
    found = {}
    for batch in Loader(flat(table), batching=packed, num_threads=0):
        check_bounds(batch, 300, batch["num_samples"])
        for number, (begin, end) in zip(
            batch["row_index"].tolist(), pairwise(batch["cu_seqlens"].tolist()), strict=True
        ):
            clip = corpus.clip(number)[: expected[number]]
            assert np.array_equal(batch["audio"][begin:end].numpy(), clip)
            found[number] = end - begin
    assert found == expected
    with pytest.raises(InputError, match=r"at most 300 samples"):
        list(Loader(flat(table), batching=Packed(300, "samples"), num_threads=0))


@pytest.mark.parametrize("crop", ["random", "head"])
def test_crops_lie_flat_too(table: Table, crop: str) -> None:
    padded = Utterances(table, num_samples=200, crop=crop, pad="zeros")  # type: ignore[arg-type]
    source = flat(table, num_samples=200, crop=crop)
    assert source.kind != padded.kind
    assert padded.flat == {}
    for one, other in zip(
        Loader(source, batch_size=9, num_threads=0),
        Loader(padded, batch_size=9, num_threads=0),
        strict=True,
    ):
        kept = torch.arange(200) < other["num_samples"][:, None]
        assert torch.equal(one["audio"], other["audio"][kept])
        assert torch.equal(one["num_samples"], other["num_samples"])


def test_other_units_are_refused(table: Table, lake: Lake) -> None:
    with pytest.raises(InputError, match=r"Packed\(unit='samples'\).*'seconds'"):
        Loader(flat(table), batching=Packed(1, "seconds"))
    with pytest.raises(InputError, match=r"Packed\(unit='frames'\)"):
        Loader(Episodes.from_lake(lake, "g1"), batching=Packed(1, "seconds"))
    # What is padded is packed by any cost.
    assert list(Loader(Utterances(table), batching=Packed(1, "seconds"), num_threads=0))
    with pytest.raises(InputError, match="layout is unknown"):
        Utterances(table, layout="ragged")  # type: ignore[arg-type]


def test_resumes_at_every_step(table: Table) -> None:
    assert_resumes_everywhere(
        lambda: Loader(
            flat(table), batching=Packed(CAPACITY, "samples", window=16), num_threads=0, seed=3
        )
    )


def test_tables_of_one_kind_share_sequences(table: Table) -> None:
    other = create_table("memory://packed/other", timed.SCHEMA, format="memory")
    other = other.append(timed.rows(70).slice(40))
    mixture = Mixture({"one": flat(table), "two": flat(other)})
    seen = []
    for batch in Loader(mixture, batching=Packed(CAPACITY, "samples"), num_threads=0):
        sources, rows = batch["source"].tolist(), batch["row_index"].tolist()
        numbers = [row + 40 * source for source, row in zip(sources, rows, strict=True)]
        assert np.array_equal(batch["audio"].numpy(), timed.clips(numbers))
        check_bounds(batch, CAPACITY, batch["num_samples"])
        seen += list(zip(sources, rows, strict=True))
    assert len(set(seen)) == 83


# Episodes -----------------------------------------------------------------------------------------


def state_of(number: int) -> np.ndarray:
    frames = robot_frames(number, LENGTHS[number])["observation/state"].combine_chunks()
    return np.asarray(frames.flatten()).reshape(-1, 3)


def test_episodes_lie_one_after_the_other(lake: Lake) -> None:
    source = Episodes.from_lake(lake, "g1")
    loader = Loader(source, batching=Packed(32, "frames"), num_threads=0)
    seen = []
    for batch in loader:
        rows = batch["row_index"].tolist()
        lengths = [LENGTHS[row] for row in rows]
        assert batch["num_frames"].tolist() == lengths
        expected = np.concatenate([state_of(row) for row in rows])
        assert np.array_equal(batch["observation.state"].numpy(), expected)
        assert batch["action"].shape == (sum(lengths), 3)
        assert batch["next.reward"].shape == batch["next.done"].shape == (sum(lengths),)
        assert batch["episode_id"] == [f"robots/{row:06d}" for row in rows]
        assert [task is not None for task in batch["task"]] == [True] * len(rows)
        assert "note" not in batch
        check_bounds(batch, 32, batch["num_frames"])
        seen += rows
    assert sorted(seen) == list(range(5))


def test_episodes_are_a_source(lake: Lake) -> None:
    source = Episodes.from_lake(lake, "g1", ["action"])
    rows = np.array([4, 0, 4])
    assert source.num_rows == 5
    assert source.costs(rows, "frames").tolist() == [15, 12, 15]
    assert source.costs(rows, "seconds").tolist() == [1.5, 1.2, 1.5]
    assert source.costs(rows, "examples").tolist() == [1, 1, 1]
    assert source.ids(rows) == [f"robots/{row:06d}" for row in rows]
    assert source.domains(rows)[1] == "robots/arm/pick the cube"
    assert source.block_rows & (source.block_rows - 1) == 0
    source.prefetch(rows).wait()
    source.expect(rows, 1.0)
    words = np.zeros(3, np.uint64)
    copy = pickle.loads(pickle.dumps(source))
    for made in (source, copy):
        assert made.read(rows, words, np.empty)["action"].shape == (42, 3)
    assert source.read(rows[:0], words[:0], np.empty)["action"].shape == (0, 3)
    assert source.kind != Episodes.from_lake(lake, "wider", ["action"]).kind
    assert source.identity() != Episodes.from_lake(lake, "wider").identity()
    train = source.episodes.rows(where="embodiment = 'humanoid'")
    (batch,) = Loader(Selected(source, train), batch_size=2, num_threads=0)
    assert sorted(batch["row_index"].tolist()) == train.tolist()
    with pytest.raises(InputError, match="examples or frames or seconds"):
        source.costs(rows, "samples")
    with pytest.raises(InputError, match="features of numbers"):
        Episodes.from_lake(lake, "g1", ["action", "note"])
    with pytest.raises(InputError, match="features of numbers"):
        Episodes.from_lake(lake, "g1", [])
    with pytest.raises(NotFoundError, match="action"):
        Episodes.from_lake(lake, "g1", ["actoin"])


def test_episodes_of_different_robots_share_sequences(lake: Lake) -> None:
    """Each part has its own frames; `cu_seqlens` says where the examples lie in the sequence."""
    parts = {name: Episodes.from_lake(lake, name, ["action"]) for name in ("g1", "wider")}
    seen = 0
    for batch in Loader(Mixture(parts), batching=Packed(24, "frames"), num_threads=0):
        lengths = torch.zeros(len(batch["seed"]), dtype=torch.int64)
        for number, (name, width) in enumerate((("g1", 3), ("wider", 4))):
            if name not in batch:
                assert not (batch["source"] == number).any()
                continue
            part = batch[name]
            lengths[part["place"]] = part["num_frames"]
            assert part["action"].shape == (part["num_frames"].sum(), width)
            assert (batch["source"][part["place"]] == number).all()
        check_bounds(batch, 24, lengths)
        seen += int((~batch["is_pad"]).sum())
    assert seen == 8


def test_windows_beside_whole_episodes(lake: Lake) -> None:
    parts: dict[str, Any] = {
        "windows": EpisodeWindows.from_lake(lake, "g1", columns=["action"]),
        "whole": Episodes.from_lake(lake, "g1", ["action"]),
    }
    batches = list(Loader(Mixture(parts), batching=Packed(24, "frames"), num_threads=0))
    assert all((batch["cu_seqlens"].diff() == batch["lengths"]).all() for batch in batches)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_on_a_batch_is_attention_on_each_episode(lake: Lake, causal: bool) -> None:
    source = Episodes.from_lake(lake, "g1", ["observation.state"])
    packed = Packed(40, "frames", num_sequences=2)
    (batch,) = Loader(source, batching=packed, num_threads=0)
    assert batch["sequence"].max() == 1
    torch.manual_seed(0)
    project = torch.nn.Linear(3, 3 * 2 * 8)
    lengths = batch["num_frames"].numpy()
    total = int(batch["cu_seqlens"][-1])
    positions = torch.from_numpy(position_ids(lengths, total))

    def attend(states: torch.Tensor, at: torch.Tensor, mask: Any) -> torch.Tensor:
        tokens = project(states + torch.sin(at[:, None] / 3.0))
        query, key, value = tokens.reshape(-1, 3, 2, 8).permute(1, 2, 0, 3)
        found = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=causal and mask is None
        )
        return found.transpose(0, 1)

    mask = torch.from_numpy(attention_mask(segment_ids(lengths, total), causal=causal))
    together = attend(batch["observation.state"], positions, mask)
    bounds = batch["cu_seqlens"].tolist()
    for row, (begin, end) in zip(batch["row_index"].tolist(), pairwise(bounds), strict=True):
        own = torch.from_numpy(state_of(row).copy())
        alone = attend(own, torch.arange(len(own)), None)
        torch.testing.assert_close(together[begin:end], alone, rtol=1e-5, atol=1e-6)
