"""What a model is told of a packed sequence; attention on it equals attention on each part."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from datalake.packing import (
    attention_mask,
    cu_seqlens,
    pack_lengths,
    padded,
    position_ids,
    segment_ids,
)


def test_a_sequence_by_hand() -> None:
    assert cu_seqlens([3, 1, 2]).tolist() == [0, 3, 4, 6]
    assert cu_seqlens([3, 1, 2]).dtype == np.int32
    assert position_ids([3, 1, 2], 8).tolist() == [0, 1, 2, 0, 0, 1, 0, 0]
    assert segment_ids([3, 1, 2], 8).tolist() == [1, 1, 1, 2, 3, 3, 0, 0]
    assert padded([[[1, 2]], [[3, 4], [5, 6]]], 4, fill=-1).tolist() == [
        [1, 2], [3, 4], [5, 6], [-1, -1],
    ]  # fmt: skip


def test_a_sequence_of_padding() -> None:
    assert cu_seqlens([]).tolist() == [0]
    assert position_ids([], 3).tolist() == segment_ids([], 3).tolist() == [0, 0, 0]


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 5))
def test_ids_follow_from_cu_seqlens(lengths: list[int], padding: int) -> None:
    capacity = sum(lengths) + padding
    bounds = cu_seqlens(lengths)
    assert bounds[-1] == sum(lengths) <= capacity
    segments, positions = segment_ids(lengths, capacity), position_ids(lengths, capacity)
    for number, (begin, end) in enumerate(pairwise(bounds), start=1):
        assert (segments[begin:end] == number).all()
        assert positions[begin:end].tolist() == list(range(end - begin))
    assert not segments[bounds[-1] :].any()


@pytest.mark.parametrize("causal", [False, True])
def test_attention_on_a_packed_sequence_is_attention_on_each_episode(causal: bool) -> None:
    torch.manual_seed(0)
    lengths = [37, 5, 64, 1, 20]
    capacity, heads, width = 160, 4, 16
    bins = pack_lengths(lengths, capacity)
    assert len(bins) == 1
    of_episode = [torch.randn(length, 3, heads, width) for length in lengths]
    order = [segment.item for segment in bins[0]]
    sizes = [segment.length for segment in bins[0]]
    positions = torch.from_numpy(position_ids(sizes, capacity))
    packed = torch.zeros(capacity, 3, heads, width)
    packed[: sum(sizes)] = torch.cat([of_episode[item] for item in order])

    def attend(tokens: torch.Tensor, at: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Scaled dot-product attention with rotary positions; (tokens, heads, width)."""
        query, key, value = (part.transpose(0, 1) for part in tokens.unbind(1))
        query, key = rotated(query, at), rotated(key, at)
        # Queries and keys tell distances only; so that positions begin anew in each segment.
        value = rotated(value, at)
        found = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=causal and mask is None
        )
        return found.transpose(0, 1)

    mask = torch.from_numpy(attention_mask(segment_ids(sizes, capacity), causal=causal))
    together = attend(packed, positions, mask)
    assert torch.isfinite(together).all()
    bounds = cu_seqlens(sizes)
    for place, item in enumerate(order):
        tokens = of_episode[item]
        alone = attend(tokens, torch.arange(len(tokens)), None)
        torch.testing.assert_close(
            together[bounds[place] : bounds[place + 1]], alone, rtol=1e-5, atol=1e-6
        )


def rotated(values: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding: what makes the positions matter. (heads, tokens, width)."""
    half = values.shape[-1] // 2
    angles = at[:, None] / 100.0 ** (torch.arange(half) / half)
    first, second = values[..., :half], values[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def test_positions_alone_tell_segments_apart() -> None:
    # Some kernels are given position ids and find the segments where they restart.
    lengths, capacity = [4, 2, 5], 11
    positions = position_ids(lengths, capacity)
    begins = np.flatnonzero(positions == 0)
    assert np.append(begins, capacity).tolist() == cu_seqlens(lengths).tolist()
