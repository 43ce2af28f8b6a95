"""What a domain is: the group that mixing acts on. The one place that knows the rule.

For speech (SOURCE: DOSS, arXiv 2512.18210, second-hand) a bona fide domain is a source and a spoof
domain is a (source, generator) pair. Ingest writes the same names into the column `domain`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from datalake.schema import BONAFIDE, SPOOF

__all__ = ["KEY_COLUMNS", "WITHOUT_DOMAIN", "Domain", "domain_of"]

KEY_COLUMNS: Final = ("label", "source", "generator")
"""The columns that decide a row's domain."""

WITHOUT_DOMAIN: Final = (
    f"label IS NULL OR label NOT IN ('{BONAFIDE}', '{SPOOF}') OR source IS NULL OR source = '' "
    f"OR (label = '{SPOOF}' AND (generator IS NULL OR generator = ''))"
)
"""The predicate of rows for which `domain_of` gives None."""


@dataclass(frozen=True, order=True)
class Domain:
    """A domain. `generator` is empty for bona fide."""

    label: str
    source: str
    generator: str

    @property
    def name(self) -> str:
        """`<source>` for bona fide, `<source>/<generator>` for spoof."""
        return f"{self.source}/{self.generator}" if self.is_spoof else self.source

    @property
    def is_spoof(self) -> bool:
        """Whether its rows are spoofs."""
        return self.label == SPOOF


def domain_of(label: str | None, source: str | None, generator: str | None) -> Domain | None:
    """The domain of a row; None if a key that it needs is missing."""
    if not source:
        return None
    if label == BONAFIDE:
        return Domain(label, source, "")
    if label == SPOOF and generator:
        return Domain(label, source, generator)
    return None
