"""How the tokens of an item follow each other: modalities, spans, and the pattern of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

__all__ = ["Block", "Item", "Layout", "Modality", "Span", "modality_ids"]


class Modality(IntEnum):
    """What a token is of. The numbers are stored, so they are never changed."""

    PADDING = 0
    TEXT = 1
    IMAGE = 2
    AUDIO = 3
    VIDEO = 4
    STATE = 5
    ACTION = 6
    OTHER = 7
    """A number of a frame that is neither state nor action."""

    @property
    def label(self) -> str:
        """Its name in reports and options: `text`, `image`, …"""
        return self.name.lower()


@dataclass(frozen=True)
class Span:
    """Tokens of one modality that follow each other."""

    modality: Modality
    num_tokens: int


def modality_ids(spans: Sequence[Span]) -> npt.NDArray[np.int8]:
    """The modality of each token, (tokens,)."""
    kinds = np.array([span.modality for span in spans], np.int8)
    return np.repeat(kinds, [span.num_tokens for span in spans])


@dataclass(frozen=True)
class Item:
    """Something that is packed whole: an utterance, a picture with its caption, an episode."""

    item_id: str
    source: str
    """The table it is of, or whatever mixing shall tell apart."""
    spans: tuple[Span, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens of all spans."""
        return sum(span.num_tokens for span in self.spans)

    @property
    def main_modality(self) -> Modality:
        """The one that most tokens are of; of several the first in the item."""
        totals: dict[Modality, int] = {}
        for span in self.spans:
            totals[span.modality] = totals.get(span.modality, 0) + span.num_tokens
        return max(totals, key=lambda modality: totals[modality], default=Modality.PADDING)


@dataclass(frozen=True)
class Block:
    """Spans that are repeated."""

    spans: tuple[Span, ...]
    repeats: int | None = None
    """How often; None: once a frame of the item."""

    @property
    def num_tokens(self) -> int:
        """Tokens of one repetition."""
        return sum(span.num_tokens for span in self.spans)


@dataclass(frozen=True)
class Layout:
    """The tokens of items that are made alike: a head of text, then blocks."""

    blocks: tuple[Block, ...]

    @property
    def frame_tokens(self) -> int:
        """Tokens that each frame of an item adds."""
        return sum(block.num_tokens for block in self.blocks if block.repeats is None)

    @property
    def fixed_tokens(self) -> int:
        """Tokens that an item has whatever its frames, its head left out."""
        return sum(block.num_tokens * (block.repeats or 0) for block in self.blocks)

    def totals(self, num_frames: int) -> dict[Modality, int]:
        """Tokens of each modality in items of so many frames together, heads left out."""
        totals: dict[Modality, int] = {}
        for block in self.blocks:
            times = num_frames if block.repeats is None else block.repeats
            for span in block.spans:
                totals[span.modality] = totals.get(span.modality, 0) + span.num_tokens * times
        return totals

    def modality_ids(self, num_frames: int, *, head: int = 0) -> npt.NDArray[np.int8]:
        """The modality of each token of an item, (tokens,); `head` tokens of text come first."""
        parts = [np.full(head, Modality.TEXT, np.int8)]
        for block in self.blocks:
            times = num_frames if block.repeats is None else block.repeats
            parts.append(np.tile(modality_ids(block.spans), times))
        return np.concatenate(parts)
