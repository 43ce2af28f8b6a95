"""Progress on stderr: a line that renews itself on a terminal, now and then a line in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

__all__ = ["Progress"]

_TERMINAL_EVERY_S: Final = 0.1
_LOG_EVERY_S: Final = 10.0


class Progress:
    """How far a run is. Use as a context manager; call `update` as often as you like."""

    def __init__(self, what: str, *, total: int | None = None, unit: str = "rows") -> None:
        self.what = what
        self.total = total
        self.unit = unit
        self._done = 0
        self._note = ""
        self._updated = False
        self._on_terminal = sys.stderr.isatty()
        self._every_s = _TERMINAL_EVERY_S if self._on_terminal else _LOG_EVERY_S
        self._started = self._printed = self._told = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._updated:
            return
        self._print()
        if self._on_terminal:
            sys.stderr.write("\n")

    def update(
        self, done: int, *, total: int | None = None, note: str = "", unit: str = ""
    ) -> None:
        """Say that `done` of `total` units are done; `note` follows them on the line.

        A `unit` replaces the one that was given before. Where `done` is 0, or less than it was, a
        new stretch of work begins: the time before it is not counted.
        """
        self._updated = True
        now = self._told = time.monotonic()
        if done == 0 or done < self._done:
            self._started = now
        self.unit = unit or self.unit
        self._done = done
        self._note = note
        self.total = self.total if total is None else total
        if now - self._printed >= self._every_s:
            self._printed = now
            self._print()

    def _print(self) -> None:
        # What came after the last word of it may have been other work.
        seconds = self._told - self._started
        of = f"/{self.total:,}" if self.total is not None else ""
        rate = f", {_rate(self._done / seconds)} {self.unit}/s" if seconds > 0 else ""
        line = f"{self.what}: {self._done:,}{of} {self.unit}{rate}, {seconds:.0f} s"
        if self._note:
            line += f", {self._note}"
        # \x1b[K clears what a longer line left behind.
        sys.stderr.write(f"\r{line}\x1b[K" if self._on_terminal else f"{line}\n")
        sys.stderr.flush()


def _rate(number: float) -> str:
    """A rate with as many digits as say something: `0.4`, `12`."""
    return f"{number:.1f}" if 0 < number < 9.95 else f"{number:,.0f}"
