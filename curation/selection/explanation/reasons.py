"""The code of what a selector leaves out."""

from __future__ import annotations

__all__ = ["reason_beyond"]


def reason_beyond(method: str, *, is_bonafide: bool, num_kept: int) -> str:
    """The reason of rows that are not among the first: see `Verdict.reason`.

    Args:
        method: the selector's name.
        is_bonafide: whether the rows are of a bona fide domain.
        num_kept: of what is cut together.
    """
    if not num_kept:
        return "domain_left_out"
    if method == "doss":
        return "beyond_ratio" if is_bonafide else "beyond_cap"
    return "beyond_budget" if method == "random" else "beyond_first"
