"""A corpus whose table tells how long its clips are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.loader import corpus

SCHEMA = corpus.SCHEMA.append(pa.field("duration_s", pa.float64()))


def rows(
    count: int,
    *,
    broken: tuple[int, ...] = (),
    unknown: tuple[int, ...] = (),
    domains: list[str] | None = None,
) -> pa.Table:
    """Those of `corpus`. The bytes of `broken` are no audio; of `unknown` no duration is known."""
    made = corpus.rows(count)
    audio = made["audio"].to_pylist()
    for row in broken:
        audio[row] = b"no audio at all"
    seconds = [
        None if row in (*broken, *unknown) else corpus.num_samples(row) / 16000
        for row in range(count)
    ]
    made = made.set_column(3, corpus.SCHEMA.field("audio"), pa.array(audio, pa.large_binary()))
    if domains is not None:
        made = made.set_column(1, corpus.SCHEMA.field("domain"), [domains])
    return made.append_column(SCHEMA.field("duration_s"), pa.array(seconds, pa.float64()))


def clips(numbers: list[int]) -> np.ndarray:
    """What rows decode to, one after the other."""
    return np.concatenate([corpus.clip(number) for number in numbers])
