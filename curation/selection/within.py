"""Selecting among what an earlier selection kept."""

from __future__ import annotations

from datalake.lake import Selection

__all__ = ["within_which"]


def within_which(within: Selection) -> dict[str, object]:
    """What a selection's parameters say of the one within which it was made.

    A part of a split stays one, so that the loader can tell training from test.
    """
    kept = {key: within.parameters[key] for key in ("split", "part") if key in within.parameters}
    return {"within": within.name, "within_digest": within.digest, **kept}
