"""Reading from the store that a table lies in: within the node's budget, waiting out refusals.

A store that has no time (503, 429, SlowDown), does not answer or hangs up is asked again, later and
by everybody less often; any other failure is raised at once. Lance 14 and delta-rs try again by
themselves before they raise. With the options of `tables.stores` Lance sends a refused request up
to 64 times within some 9 seconds (3 repeats by its client, that 16 times by its own limiter, whose
rate is the process's alone), delta-rs and Arrow 4 times within half a second; a request without an
answer ends after 60 seconds. So a refusal that arrives here means that the store has been refusing
for a while.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from datalake.blocks.budget import DEFAULT_RATE, RequestBudget
from datalake.blocks.opened import Rows
from datalake.errors import (
    CredentialsError,
    DiskFullError,
    InputError,
    LakeError,
    NotFoundError,
    StoreError,
)
from datalake.tables.failures import without_fork
from datalake.tables.protocol import Table
from datalake.telemetry import Meter
from datalake.uri import Location, locate

__all__ = ["NOT_OF_ROWS", "Origin", "RefusedError", "num_runs", "will_pass"]

_FIRST_WAIT_S: Final = 0.25
_LONGEST_WAIT_S: Final = 8.0
# What Lance, delta-rs, s3fs and Arrow say of a store that would answer another time; see
# tests/blocks/test_origin.py for whole sentences.
_PASSING: Final = re.compile(
    r"SlowDown|Slow Down|reduce your request rate|too many requests|service unavailable|"
    r"bad gateway|gateway time-?out|internal server error|InternalError|RequestTimeout|"
    r"status code:? *(429|500|502|503|504)\b|error (429|500|502|503|504)\b|"
    r"\btimed? ?out\b|error sending request|connection (refused|reset|closed|aborted)|broken pipe|"
    r"connection error|end of file before message length|response body error|"
    r"AWS Error (SLOW_DOWN|SERVICE_UNAVAILABLE|THROTTLING|INTERNAL_FAILURE|REQUEST_TIMEOUT|"
    r"NETWORK_CONNECTION)|HTTP status (429|500|502|503|504)\b|"
    r"error decoding response body|incomplete(read| message| body)|unexpected eof",
    re.IGNORECASE,
)


class RefusedError(StoreError):
    """A store that refused or did not answer for all of a read's patience."""


NOT_OF_ROWS: Final = (RefusedError, CredentialsError, DiskFullError)
"""Of all a StoreError may be: what other rows would meet too."""


class Origin:
    """The store of one version of a table. Thread-safe, picklable.

    Args:
        table: the version.
        directory: of the node's cache, where the request budget is kept; None for a budget of this
            process alone.
        reads_per_s: that the store grants this node; None for what the options say with which the
            table was opened (`StorageOptions.reads_per_s`), or `DEFAULT_RATE`.
        patience_s: how long a store may refuse before a read fails.
    """

    def __init__(
        self,
        table: Table,
        *,
        directory: Path | None = None,
        reads_per_s: float | None = None,
        patience_s: float = 120.0,
    ) -> None:
        self._table = table
        location = locate(table.uri)
        self.is_remote = not location.is_local and location.scheme != "memory"
        self._patience_s = patience_s
        self._budget: RequestBudget | None = None
        self.store = ""
        """Endpoint and bucket; empty for a local table."""
        if self.is_remote:
            # A handle keeps its location to itself.
            own: Location = getattr(table, "_location", location)
            options = own.options.resolved()
            # The endpoint tells stores of equal names apart.
            self.store = f"{options.endpoint or ''} {'/'.join(location.uri.split('/')[:3])}"
            rate = reads_per_s or options.reads_per_s or DEFAULT_RATE
            self._budget = RequestBudget.of(directory, self.store, rate=rate)
        self.is_forked = False
        """Whether this process was forked from one that had the table open."""

    @property
    def where(self) -> str:
        """For a person."""
        return f"{self._table.uri}, version {self._table.version}"

    @property
    def rate(self) -> float:
        """Reads a second that the node may send to this store at the moment; infinite if local."""
        return float("inf") if self._budget is None else self._budget.rate

    def read(
        self,
        rows: Rows | range,
        columns: Sequence[str],
        meter: Meter,
        *,
        num_requests: int,
        stop: threading.Event | None = None,
    ) -> pa.Table:
        """Rows of columns, in the order asked.

        Args:
            rows: (n,), within the table; or a range without steps, which costs less.
            columns: names.
            meter: counts `origin_reads`, `origin_bytes`, `origin_refusals` and `budget_waits`, and
                the time as stage "store".
            num_requests: about how many requests it takes.
            stop: once set, nothing is waited for any more.

        Raises:
            StoreError: the store has no such rows (any more), or the bytes are no rows. Names
                table, version, columns and rows.
            RefusedError: the store refused for all of the patience.
            CredentialsError: the store refused who asks.
            InputError: this is a forked process, and the format does not survive that.
        """
        what = self._what(rows, columns)
        if self.is_forked and not self._table.capabilities.survives_fork:
            raise without_fork(what, self._table.format)
        with meter.during("store", what):
            found = self._insisting(rows, columns, meter, num_requests, what, stop)
        meter.count("origin_bytes", found.nbytes)
        return found

    def lost(self, error: BaseException, rows: Rows | range, columns: Sequence[str]) -> StoreError:
        """The error for rows whose file is gone or damaged."""
        return _lost(error, self._what(rows, columns))

    def _what(self, rows: Rows | range, columns: Sequence[str]) -> str:
        return f"{_named(rows)} of {', '.join(columns)} of {self.where}"

    def _insisting(
        self,
        rows: Rows | range,
        columns: Sequence[str],
        meter: Meter,
        num_requests: int,
        what: str,
        stop: threading.Event | None,
    ) -> pa.Table:
        begin, tries = time.monotonic(), 0
        while True:
            tries += 1
            self._pay(num_requests, meter, what, stop)
            asked_at = time.monotonic()
            meter.count("origin_reads")
            try:
                if isinstance(rows, range):
                    return self._table.read(rows.start, rows.stop, columns)
                return self._table.take(rows, columns)
            except (InputError, CredentialsError, DiskFullError):
                raise
            except BaseException as error:
                if not isinstance(error, Exception) and not _is_panic(error):
                    raise
                if not (self.is_remote and will_pass(error)):
                    raise _lost(error, what) from error
                meter.count("origin_refusals")
                if self._budget is not None:
                    self._budget.refused(asked_at)
                spent = time.monotonic() - begin
                wait = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (tries - 1))
                wait *= random.uniform(0.5, 1.0)
                if spent + wait > self._patience_s or (stop is not None and stop.is_set()):
                    raise _refused(error, what, tries, spent) from error
            _pause(wait, meter, f"{what}: refused {tries} times, trying again", stop)

    def _pay(
        self, num_requests: int, meter: Meter, what: str, stop: threading.Event | None
    ) -> None:
        if self._budget is None:
            return
        wait = self._budget.take(num_requests)
        if wait > 0:
            meter.count("budget_waits")
            _pause(wait, meter, f"{what}: waiting for the request budget", stop)


def will_pass(error: BaseException) -> bool:
    """Whether asking the store again, later, may help."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, NotFoundError | CredentialsError | InputError):
            return False
        if isinstance(seen, ConnectionError | TimeoutError) or _PASSING.search(str(seen)):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _pause(wait: float, meter: Meter, what: str, stop: threading.Event | None) -> None:
    with meter.during("store", what):
        if stop is None:
            time.sleep(wait)
        else:
            stop.wait(wait)


def _is_panic(error: BaseException) -> bool:
    # What Rust code raises that met the unthinkable, such as a file cut short.
    return type(error).__name__ == "PanicException"


def _refused(error: BaseException, what: str, tries: int, spent: float) -> RefusedError:
    return RefusedError(
        "The store kept refusing",
        where=what,
        expected="an answer",
        found=f"{tries} refusals within {spent:.0f} seconds, the last one: {_words(error)}",
        fix="Check the store, or ask it for less at a time (fewer ranks, a lower request rate)",
    )


def _lost(error: BaseException, what: str) -> StoreError:
    return StoreError(
        "Rows cannot be read",
        where=what,
        found=_words(error),
        fix="Check whether files of the version were removed or damaged; `datalake versions` "
        "lists those that are whole",
    )


def _words(error: BaseException) -> str:
    if isinstance(error, LakeError):
        place = f" ({error.where})" if error.where else ""
        return f"{error.what}{place}" + f": {error.found}" * bool(error.found)
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _named(rows: Rows | range) -> str:
    size = len(rows)
    if size == 0:
        return "no rows"
    if isinstance(rows, range):
        first, last = rows[0], rows[-1]
    else:
        first, last = int(rows.min()), int(rows.max())
    if last - first + 1 == size:
        return f"row {first}" if size == 1 else f"rows {first}-{last}"
    shown = ", ".join(str(row) for row in rows[:8])
    return f"rows {shown}" + (f", … ({size} in all)" if size > 8 else "")


def num_runs(rows: Rows) -> int:
    """How many requests take these rows, where neighbours come with one."""
    if rows.size == 0:
        return 0
    ordered = np.sort(rows)
    return 1 + int(np.count_nonzero(np.diff(ordered) > 1))
