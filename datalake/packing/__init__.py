"""Packing: items of many lengths into sequences of one budget. Pure; knows nothing of tables.

packer.py       lengths into bins: windows, open bins carried over
best_fit.py     best fit decreasing on counts of equal lengths and equal remainders
first_fit.py    first fit on a segment tree
overlong.py     items longer than a bin
ranks.py        a multiple of the data-parallel ranks
costs.py        tokens of frames, texts, sounds and pictures
layout.py       modalities, and how an item's tokens follow each other
mixture.py      sources in one order, each with its share of the tokens
sequences.py    cu_seqlens, position ids, segment ids
shards.py       shards drawn in strides from many episodes
comparison.py   what simpler ways reach
"""

from datalake.packing.bins import Bins, Segment
from datalake.packing.comparison import Baselines, LengthLaw
from datalake.packing.costs import Characters, TokenCosts
from datalake.packing.layout import Block, Item, Layout, Modality, Span, modality_ids
from datalake.packing.mixture import Exhausted, Mix, mix
from datalake.packing.overlong import Overlong, Pieces, fit
from datalake.packing.packer import CARRY, METHODS, WINDOW, Method, Packer, pack_lengths
from datalake.packing.rows import packed_schema, sequence_rows, unpack
from datalake.packing.sequences import (
    attention_mask,
    cu_seqlens,
    padded,
    position_ids,
    segment_ids,
)
from datalake.packing.shards import Shards, balanced_shards

__all__ = [
    "CARRY",
    "METHODS",
    "WINDOW",
    "Baselines",
    "Bins",
    "Block",
    "Characters",
    "Exhausted",
    "Item",
    "Layout",
    "LengthLaw",
    "Method",
    "Mix",
    "Modality",
    "Overlong",
    "Packer",
    "Pieces",
    "Segment",
    "Shards",
    "Span",
    "TokenCosts",
    "attention_mask",
    "balanced_shards",
    "cu_seqlens",
    "fit",
    "mix",
    "modality_ids",
    "pack_lengths",
    "packed_schema",
    "padded",
    "position_ids",
    "segment_ids",
    "sequence_rows",
    "unpack",
]
