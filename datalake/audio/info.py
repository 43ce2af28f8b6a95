"""What is known of an audio file after a look inside, and the error that says it is bad."""

from __future__ import annotations

from dataclasses import dataclass

from datalake.errors import InputError
from datalake.quarantine import Reason, Refusal

__all__ = ["AudioInfo", "BadAudio"]

MAX_SAMPLE_RATE_HZ = 768_000
MAX_CHANNELS = 256


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """Facts about one audio file. `num_samples` counts samples of one channel."""

    duration_s: float
    sample_rate_hz: int
    num_channels: int
    codec: str
    num_samples: int

    @classmethod
    def of(cls, num_samples: int, sample_rate_hz: int, num_channels: int, codec: str) -> AudioInfo:
        """The facts, with the duration worked out.

        Raises:
            BadAudio: the rate or the number of channels is impossible, or there is no sample.
        """
        if not 0 < sample_rate_hz <= MAX_SAMPLE_RATE_HZ:
            raise BadAudio.of(Reason.BAD_HEADER, f"a sample rate of {sample_rate_hz} Hz")
        if not 0 < num_channels <= MAX_CHANNELS:
            raise BadAudio.of(Reason.BAD_HEADER, f"{num_channels} channels")
        if num_samples == 0:
            raise BadAudio.of(Reason.EMPTY, "a header without samples")
        return cls(num_samples / sample_rate_hz, sample_rate_hz, num_channels, codec, num_samples)


class BadAudio(InputError):  # noqa: N818 - the noun is what callers catch
    """Audio that cannot be used. `refusal` holds the reason code and the detail."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__("The audio cannot be used", found=f"{refusal.detail} [{refusal.reason}]")

    @classmethod
    def of(cls, reason: Reason, detail: str) -> BadAudio:
        """The error for a reason code and a detail."""
        return cls(Refusal(reason, detail))

    def __reduce__(self) -> tuple[object, ...]:
        return (BadAudio, (self.refusal,))
