"""Duplicates: which rows say again what a kept row says."""

from curation.duplicates.cover import Dropped, Pairs, Rule, drop_duplicates

__all__ = ["Dropped", "Pairs", "Rule", "drop_duplicates"]
