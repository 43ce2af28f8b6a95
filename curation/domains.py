"""What a domain is: the group that mixing acts on. The one place that knows the rule.

For speech (SOURCE: DOSS, arXiv 2512.18210, second-hand) a bona fide domain is a source and a spoof
domain is a (source, generator) pair. For robots (OURS) it is what a source holds of one embodiment
at one task. Ingest writes the same names into the column `domain`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from datalake.schema import BONAFIDE, SPOOF

__all__ = ["EPISODES", "UTTERANCES", "Domain", "Keys", "keys_of"]


@dataclass(frozen=True, order=True)
class Domain:
    """A domain; what does not tell it apart is empty."""

    label: str
    """`bonafide`, `spoof`, or empty for episodes."""
    source: str
    generator: str = ""
    """Of a spoof."""
    embodiment: str = ""
    """Of episodes, as is the task."""
    task: str = ""

    @property
    def name(self) -> str:
        """`<source>`, `<source>/<generator>` or `<source>/<embodiment>/<task>`."""
        parts = (self.source, self.generator, self.embodiment, self.task)
        return "/".join(part for part in parts if part)

    @property
    def is_bonafide(self) -> bool:
        """Whether its rows are bona fide speech: real rows that follow the others by a ratio."""
        return self.label == BONAFIDE


@dataclass(frozen=True)
class Keys:
    """The columns that say which row and which domain, in one kind of table."""

    id_column: str
    columns: tuple[str, ...]
    """Those that decide a row's domain: fields of `Domain`."""
    without_domain: str
    """The predicate of rows for which `domain` gives None."""
    expected: str
    advice: str
    """A predicate that leaves such rows out."""

    def domain(self, *values: str | None) -> Domain | None:
        """The domain of a row with these values of `columns`; None if a key is missing."""
        found = Domain(
            **{"label": "", **dict(zip(self.columns, (v or "" for v in values), strict=True))}
        )
        if not found.source or ("label" in self.columns and not _is_labelled(found)):
            return None
        # What a bona fide row names as its generator says nothing.
        return Domain(found.label, found.source) if found.is_bonafide else found


def keys_of(schema: pa.Schema) -> Keys:
    """The keys of a table with these columns: of utterances, unless it holds episodes."""
    return EPISODES if "episode_id" in schema.names else UTTERANCES


def _is_labelled(domain: Domain) -> bool:
    return domain.is_bonafide or (domain.label == SPOOF and bool(domain.generator))


UTTERANCES: Final = Keys(
    id_column="utt_id",
    columns=("label", "source", "generator"),
    without_domain=(
        f"label IS NULL OR label NOT IN ('{BONAFIDE}', '{SPOOF}') OR source IS NULL "
        f"OR source = '' OR (label = '{SPOOF}' AND (generator IS NULL OR generator = ''))"
    ),
    expected="a label (bonafide or spoof), a source, and for spoofs a generator",
    advice="label IS NOT NULL AND (label = 'bonafide' OR generator IS NOT NULL)",
)
EPISODES: Final = Keys(
    id_column="episode_id",
    columns=("source", "embodiment", "task"),
    without_domain="source IS NULL OR source = ''",
    expected="a source",
    advice="source IS NOT NULL",
)
