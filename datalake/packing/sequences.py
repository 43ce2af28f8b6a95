"""What a model needs to know of a packed sequence, from the lengths of its segments.

Padding comes last. It has segment id 0 (segments count from 1), position 0 and modality 0
(`padding`), and no entry in `cu_seqlens`, which ends with the number of tokens that are none.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["attention_mask", "cu_seqlens", "padded", "position_ids", "segment_ids"]


def cu_seqlens(lengths: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Where segments begin, and the end of the last: 0, l0, l0 + l1, …; (segments + 1,).

    As kernels of variable-length attention take it (flash attention's `cu_seqlens_q`).
    """
    ends = np.cumsum(np.asarray(lengths, np.int64))
    return np.concatenate([[0], ends]).astype(np.int32)


def position_ids(lengths: npt.ArrayLike, capacity: int) -> npt.NDArray[np.int32]:
    """Each token's place in its segment, from 0; 0 for padding; (capacity,)."""
    bounds = cu_seqlens(lengths)
    sizes = np.diff(bounds)
    places = np.zeros(capacity, np.int32)
    places[: bounds[-1]] = np.arange(bounds[-1]) - np.repeat(bounds[:-1], sizes)
    return places


def segment_ids(lengths: npt.ArrayLike, capacity: int) -> npt.NDArray[np.int32]:
    """Each token's segment, from 1; 0 for padding; (capacity,)."""
    sizes = np.asarray(lengths, np.int64)
    ids = np.repeat(np.arange(1, len(sizes) + 1, dtype=np.int32), sizes)
    return np.concatenate([ids, np.zeros(capacity - len(ids), np.int32)])


def attention_mask(segments: npt.ArrayLike, *, causal: bool = False) -> npt.NDArray[np.bool_]:
    """Who may look at whom: (tokens, tokens), row looks at column.

    True within a segment (and, if `causal`, not ahead). Padding looks at itself alone, so that no
    row of a softmax is empty.

    Args:
        segments: segment ids, (tokens,).
        causal: whether a token sees later ones.
    """
    ids = np.asarray(segments)
    mask: npt.NDArray[np.bool_] = (ids[:, None] == ids[None, :]) & (ids[:, None] != 0)
    if causal:
        mask = np.tril(mask)
    mask |= np.eye(len(ids), dtype=np.bool_)
    return mask


def padded(
    parts: Iterable[npt.ArrayLike], capacity: int, fill: float = 0
) -> npt.NDArray[np.generic]:
    """Values of segments one after the other, then `fill`: (capacity, *value's shape)."""
    values = np.concatenate([np.asarray(part) for part in parts])
    padding = np.full((capacity - len(values), *values.shape[1:]), fill, values.dtype)
    return np.concatenate([values, padding])
