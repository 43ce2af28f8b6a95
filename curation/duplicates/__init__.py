"""Duplicates: which rows say again what a kept row says."""

from curation.duplicates.cover import Dropped, Pairs, Rule, drop_duplicates
from curation.duplicates.equal import equal_rows
from curation.duplicates.near_pairs import near_pairs, recall_of

__all__ = ["Dropped", "Pairs", "Rule", "drop_duplicates", "equal_rows", "near_pairs", "recall_of"]
