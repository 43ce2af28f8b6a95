"""Share a budget out evenly over domains of limited size."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["water_fill"]


def water_fill(sizes: Sequence[int], budget: int) -> list[int]:
    """Fill domains to one level: min(size, level) each, as much as the budget gives.

    Units that do not make a full level go to the first domains that have room. A larger budget
    never takes anything from a domain.

    Args:
        sizes: rows that each domain has.
        budget: rows to share out; what exceeds the sum of the sizes is left over.

    Returns:
        Rows of each domain, in the order of `sizes`.
    """
    level, remainder = _level(sizes, budget)
    filled = [min(size, level) for size in sizes]
    for index, size in enumerate(sizes):
        if remainder and size > level:
            filled[index] += 1
            remainder -= 1
    return filled


def _level(sizes: Sequence[int], budget: int) -> tuple[int, int]:
    """The highest level that the budget reaches, and what is left for single units above it."""
    left, num_open = budget, len(sizes)
    for size in sorted(sizes):
        if size * num_open > left:
            return divmod(left, num_open)
        left -= size
        num_open -= 1
    return max(sizes, default=0), 0
