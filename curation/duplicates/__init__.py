"""Duplicates: which rows say again what a kept row says."""

from curation.duplicates.cover import CutOff, Dropped, Pairs, Rule, drop_duplicates
from curation.duplicates.drops import DUPLICATES, Duplicates, num_conflicts
from curation.duplicates.equal import equal_rows, equal_samples
from curation.duplicates.movement import near_episodes
from curation.duplicates.near import near_duplicates
from curation.duplicates.same_audio import same_audio

__all__ = [
    "DUPLICATES",
    "CutOff",
    "Dropped",
    "Duplicates",
    "Pairs",
    "Rule",
    "drop_duplicates",
    "equal_rows",
    "equal_samples",
    "near_duplicates",
    "near_episodes",
    "num_conflicts",
    "same_audio",
]
