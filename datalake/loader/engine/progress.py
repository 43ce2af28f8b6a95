"""One line on stderr that says how a stream goes."""

from __future__ import annotations

import sys
import time
from typing import Final, TextIO

from datalake.loader.engine.stats import LoaderStats

__all__ = ["Progress"]

_ON_TERMINAL_S: Final = 0.5
_ELSEWHERE_S: Final = 30.0


class Progress:
    """Rewrites a line twice a second on a terminal; elsewhere adds one every half minute.

    Args:
        to: None for stderr.
    """

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = sys.stderr if to is None else to
        self._on_terminal = self._to.isatty()
        self._every_s = _ON_TERMINAL_S if self._on_terminal else _ELSEWHERE_S
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether it is time for a line; a fraction of a microsecond."""
        return time.monotonic() - self._last >= self._every_s

    def show(self, stats: LoaderStats, epoch: int, position: int, num_examples: int) -> None:
        """Write the line."""
        self._last = time.monotonic()
        waits = sorted(stats.wait_by_stage_s.items(), key=lambda wait: -wait[1])
        stage, seconds = waits[0]
        named = f", most for {stage}" if seconds > 0 else ""
        line = (
            f"epoch {epoch}: {position:,} of {num_examples:,} examples, "
            f"{stats.examples_per_s:,.0f}/s on this rank, waited {stats.wait_share:.0%}{named}"
        )
        self._to.write(f"\r\x1b[K{line}" if self._on_terminal else f"{line}\n")
        self._to.flush()

    def end(self) -> None:
        """Leave the line as it stands."""
        if self._on_terminal:
            self._to.write("\n")
            self._to.flush()
