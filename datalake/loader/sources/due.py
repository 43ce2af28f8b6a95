"""When what several blocks of examples share is wanted again."""

from __future__ import annotations

import time

import numpy as np

from datalake.loader.order.order import Indices

__all__ = ["Due"]


class Due:
    """When each of some pieces is wanted again, so that it is known of several together.

    What holds several of them is done with once all of them are. Holds 8 bytes a piece. Calls from
    several threads do no harm.

    Args:
        num_pieces: how many there are.
    """

    def __init__(self, num_pieces: int) -> None:
        self._at_s = np.full(num_pieces, -np.inf)

    def tell(self, pieces: Indices, in_s: float) -> None:
        """Pieces are done with, and wanted again in about so many seconds."""
        self._at_s[pieces] = time.monotonic() + in_s

    def of(self, first: int, stop: int) -> float | None:
        """In how many seconds the first of these pieces is wanted again; None if one of them is not
        done with, or is in use again by now."""
        in_s = float(self._at_s[first:stop].min()) - time.monotonic()
        return in_s if in_s > 0 else None
