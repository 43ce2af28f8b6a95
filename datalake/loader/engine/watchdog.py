"""Waiting for another thread, but never in silence and never for ever."""

from __future__ import annotations

import logging
import os
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final, TypeVar

from datalake.errors import StalledError
from datalake.telemetry import Meter

__all__ = ["awaited", "told"]

_log: Final = logging.getLogger("datalake.loader")

Result = TypeVar("Result")


def awaited(future: Future[Result], meter: Meter, timeout_s: float, warn_after_s: float) -> Result:
    """What a thread of the stream works on for the next batch; its exceptions too.

    Args:
        future: of the work.
        meter: says what hangs.
        timeout_s: how long to wait.
        warn_after_s: how long before it is said on the log what is waited for.

    Raises:
        StalledError: it took too long; names what each thread is doing.
    """
    begin, warned = time.monotonic(), False
    while True:
        waited_s = time.monotonic() - begin
        until_s = timeout_s if warned else min(timeout_s, warn_after_s)
        try:
            return future.result(max(until_s - waited_s, 0.0))
        except FutureTimeoutError:
            if future.done():  # The task's own TimeoutError.
                return future.result()
        waited_s = time.monotonic() - begin
        if waited_s >= timeout_s:
            raise StalledError(
                "No batch came",
                where=f"process {os.getpid()}, thread {threading.current_thread().name}",
                expected=f"one within {timeout_s:g} s",
                found=told(meter),
                fix="Look at what is waited for, or give the loader a longer timeout_s",
            )
        if waited_s >= warn_after_s and not warned:
            _log.warning("Waiting for a batch for %.0f s: %s", waited_s, told(meter))
            warned = True


def told(meter: Meter) -> str:
    """What every thread of the stream does, in words."""
    words = [
        f"{doing.thread}: {f'{doing.stage} {doing.what}'.strip()}, {doing.for_s:.1f} s"
        for doing in meter.doing()
    ]
    return "; ".join(words) or "no thread at work"
