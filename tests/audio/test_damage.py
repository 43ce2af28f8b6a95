"""Whatever the damage: BadAudio or samples, and nothing else ever."""

from __future__ import annotations

import contextlib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.audio import BadAudio, decode, inspect
from tests.audio.clips import CLIPS


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A file with bytes changed, cut off, left out or put in; often near its start."""
    data = bytearray(CLIPS[draw(st.sampled_from(sorted(CLIPS)))].data())
    for _ in range(draw(st.integers(1, 4))):
        end = draw(st.sampled_from([48, 300, len(data)]))
        at = draw(st.integers(0, max(0, min(end, len(data)) - 1)))
        change = draw(st.sampled_from(["set", "cut", "remove", "insert"]))
        if change == "set":
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=4))
        elif change == "cut":
            del data[at + 1 :]
        elif change == "remove":
            del data[at : at + draw(st.integers(1, 64))]
        else:
            data[at:at] = draw(st.binary(min_size=1, max_size=16))
    return bytes(data)


@settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_damage_raises_nothing_but_bad_audio(data: bytes) -> None:
    try:
        info = inspect(data)
    except BadAudio:
        info = None
    try:
        decoded, rate_hz = decode(data, mono=False)
    except BadAudio:
        # What decode refuses, inspect refused before.
        assert info is None
        return
    if info is not None:
        assert decoded.shape == (info.num_channels, info.num_samples)
        assert rate_hz == info.sample_rate_hz


@given(st.binary(max_size=400))
def test_any_bytes_raise_nothing_but_bad_audio(data: bytes) -> None:
    for look in (inspect, decode):
        with contextlib.suppress(BadAudio):
            look(data)
