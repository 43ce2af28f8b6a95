"""The exception by which readers of robot data give up on one episode and not on the dataset."""

from __future__ import annotations

from datalake.quarantine import Reason, Refusal

__all__ = ["RefusedError"]


class RefusedError(Exception):
    """A file or an episode cannot be used. Caught where episodes are yielded, as `BadEpisode`."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.refusal = Refusal(reason, detail)
