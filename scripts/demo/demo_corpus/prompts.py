"""What a generator is asked to say. Every prompt follows from its number alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from demo_corpus.recordings import Recording

__all__ = ["Prompt", "english_sentence", "numbers"]


@dataclass(frozen=True)
class Prompt:
    """One utterance to make. A generator uses what it needs of it."""

    seed: int
    """Differs between prompts; the same on every build."""
    language: str
    """Of the source."""
    recording: Recording
    """What a vocoder re-synthesises; for everyone the level to match."""

    @property
    def rng(self) -> random.Random:
        """A fresh stream of random numbers, the same each time."""
        return random.Random(self.seed)


_OPENINGS: Final = (
    *("This morning", "After the meeting", "In the long run", "To be honest", "On the way home"),
    *("Once more", "At noon", "Without a word", "For the first time", "By the river"),
)
_ACTORS: Final = (
    *("the captain", "our neighbour", "a young doctor", "the old fisherman", "my sister"),
    *("the whole crew", "somebody", "the night operator", "a careful reader", "the new driver"),
)
_ACTIONS: Final = (
    *("opened", "was looking for", "described", "forgot about", "carried", "asked for"),
    *("returned", "finally found", "painted", "left behind"),
)
_THINGS: Final = (
    *("the green door", "seven heavy boxes", "a letter from abroad", "the broken telephone"),
    *("a cup of coffee", "the last message", "an empty bottle", "the map of the harbour"),
    *("two tickets", "a very strange noise"),
)
_ENDINGS: Final = (
    *("before anyone noticed", "and nobody knew why", "near the station", "as usual"),
    *("with great patience", "in the dark", "for the third time", "under the bridge"),
    *("because of the rain", "without asking"),
)


def english_sentence(rng: random.Random) -> str:
    """One of 100,000 plain sentences, about 3 s when spoken."""
    opening, actor, action, thing, ending = (
        rng.choice(part) for part in (_OPENINGS, _ACTORS, _ACTIONS, _THINGS, _ENDINGS)
    )
    return f"{opening}, {actor} {action} {thing} {ending}."


def numbers(rng: random.Random) -> str:
    """Two or three numbers in digits, which a synthesiser reads in whatever language it speaks."""
    return ", ".join(str(rng.randrange(10 ** rng.randint(1, 5))) for _ in range(rng.randint(2, 3)))
