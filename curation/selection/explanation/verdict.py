"""What is said of a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Verdict"]


@dataclass(frozen=True)
class Verdict:
    """Why a row is in a selection, or out of it."""

    utt_id: str
    """The episode's id where the table holds episodes."""
    row_index: int | None
    """In the version that was selected from; None if it has no such row."""
    is_kept: bool
    reason: str
    """A code: `kept`, or what refused the row:

    - `not_in_table`: the version that was selected from has no row of this id;
    - `where`: the predicate does not hold;
    - `within`: the selection within which was selected does not have it;
    - `beyond_cap`, `beyond_ratio`, `beyond_budget`, `beyond_first`: other rows come before it and
      are as many as are kept; `domain_left_out`: none is kept of its domain;
    - the codes of drops (`snr_db_low`) and of duplicates (`near_speaker`);
    - `other_part`: a split gave it to another part;
    - `not_chosen`: by a method that leaves no trace of its reasons.
    """
    text: str
    """The same as a sentence."""
    domain: str | None = None
    place: int | None = None
    """How many rows of what is cut together (a domain, unless the method says otherwise) come
    before it; None where that has no meaning or the order does not say."""
    num_kept: int | None = None
    """Of what is cut together, the rows kept,"""
    num_rows: int | None = None
    """and those considered."""
    weight: float | None = None
    """Of a row that is kept."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """The numbers and names behind a refusal, such as `value` and `threshold`; JSON values."""
    within: Verdict | None = None
    """What an earlier selection says of the row that it does not have."""
