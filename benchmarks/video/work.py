"""What both sides are asked for, and how a run is timed. Needs nothing but Python."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

__all__ = ["BATCH_SIZE", "CHUNK", "timed"]

BATCH_SIZE: Final = 16
CHUNK: Final = 16
"""Actions from the frame on."""


def timed(
    batches: Iterator[Any], num_batches: int, cpu_s: Callable[[], float], num_untimed: int = 4
) -> None:
    """Take batches, the first of them untimed, and print what it took as JSON."""
    for _ in range(num_untimed):
        next(batches)
    began, cpu_began, episodes = time.perf_counter(), cpu_s(), 0
    for _ in range(num_batches):
        episodes += len(set(next(batches)["episode_index"].tolist()))
    result = {
        "samples": BATCH_SIZE * num_batches,
        "seconds": time.perf_counter() - began,
        "cpu_s": cpu_s() - cpu_began,
        "episodes": episodes / num_batches,
    }
    print(json.dumps(result), flush=True)
