"""Columns that lie flat: cut to what was planned for each example, and merged from parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.loader.batching import Batching, Packed
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Sampler
from datalake.loader.sources.source import Allocate, Columns, Flat, Source

__all__ = ["check_packing", "cut_flat", "flat_columns", "merge_flat"]

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def flat_columns(source: Source) -> Mapping[str, str]:
    """A source's columns that lie flat, each with the column of its lengths; see `Flat`."""
    return source.flat if isinstance(source, Flat) else _NONE


def check_packing(sampler: Sampler, batching: Batching) -> None:
    """See that sequences are packed in the unit in which what lies flat is counted.

    Raises:
        InputError: they are not, so that `cu_seqlens` would not be those of the values.
    """
    if not isinstance(batching, Packed):
        return
    for source, name in zip(sampler.sources, sampler.names, strict=True):
        if isinstance(source, Flat) and source.flat and source.flat_unit != batching.unit:
            raise InputError(
                "Sequences are packed in another unit than their values are counted in",
                where=name,
                expected=f"Packed(unit={source.flat_unit!r})",
                found=repr(batching.unit),
            )


def cut_flat(columns: Columns, flat: Mapping[str, str], most: npt.NDArray[np.integer]) -> Columns:
    """The columns with no more than `most` of each example, (n,), in those that lie flat."""
    cut: Columns = {}
    for name, counted in flat.items():
        lengths = columns[counted]
        if (lengths > most).any():
            kept = np.minimum(lengths, most).astype(lengths.dtype)
            within = np.arange(int(lengths.sum()))
            within -= np.repeat(np.cumsum(lengths) - lengths, lengths)
            cut[name] = columns[name][within < np.repeat(kept, lengths)]
            cut[counted] = kept
    return {**columns, **cut}


def merge_flat(
    places: Sequence[Indices],
    parts: Sequence[npt.NDArray[Any]],
    lengths: Sequence[npt.NDArray[np.integer]],
    allocate: Allocate,
) -> npt.NDArray[Any]:
    """One flat array of several, in the order of the examples' places in the batch.

    Args:
        places: of each part's examples.
        parts: their values, one after the other.
        lengths: of each part's examples.
        allocate: for the whole.
    """
    sizes = np.empty(sum(map(len, places)), np.int64)
    for where, each in zip(places, lengths, strict=True):
        sizes[where] = each
    begins = np.cumsum(sizes) - sizes
    whole = allocate((int(sizes.sum()), *parts[0].shape[1:]), parts[0].dtype)
    for where, values, each in zip(places, parts, lengths, strict=True):
        reached = 0
        for begin, length in zip(begins[where].tolist(), each.tolist(), strict=True):
            whole[begin : begin + length] = values[reached : reached + length]
            reached += length
    return whole
