"""How well a stream is shuffled and mixed: as it comes, and before it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from datalake.loader.order.hashing import keys, mix
from datalake.loader.order.order import Indices
from datalake.loader.order.quality import Quality, QualityMeter
from datalake.loader.sampling.realised import Labelled, Realised, Share
from datalake.loader.sampling.rows import RowSampler
from datalake.loader.sampling.sampler import Picks, Sampler

if TYPE_CHECKING:
    from datalake.loader.engine.assembly import Step

__all__ = ["ShuffleMeter", "expected_shuffle"]

_NUM_DRAWN: Final = 300


class ShuffleMeter:
    """Measures each source's shuffle, and the mix of them, batch by batch. Constant memory."""

    def __init__(self, sampler: Sampler) -> None:
        self._names = sampler.names
        self._meters = [QualityMeter(s.num_rows, s.block_rows) for s in sampler.sources]
        # Of a part of the rows, or of several visits to them, places are not comparable.
        whole = [s.num_rows for s in sampler.sources] == [sampler.num_examples]
        self._is_whole = whole and isinstance(sampler, RowSampler)
        self._realised = Realised(sampler) if isinstance(sampler, Labelled) else None

    def observe(self, step: Step) -> None:
        """Count a batch that was delivered."""
        self.count(step.picks, step.share.positions)

    def count(self, picks: Picks, positions: Indices) -> None:
        """Count what stands at some positions."""
        if len(self._meters) == 1:
            self._meters[0].observe(picks.rows, positions if self._is_whole else None)
        else:
            for index, meter in enumerate(self._meters):
                meter.observe(picks.rows[picks.sources == index])
        if self._realised is not None:
            self._realised.observe(picks)

    def quality(self) -> dict[str, Quality]:
        """Each source's shuffle so far, by name."""
        return {n: meter.quality() for n, meter in zip(self._names, self._meters, strict=True)}

    def shares(self) -> Mapping[str, Share]:
        """What each part or domain was to have and had."""
        return {} if self._realised is None else self._realised.shares()


def expected_shuffle(sampler: Sampler, epoch: int, batch_size: int) -> dict[str, Quality]:
    """Each source's shuffle in an epoch, from batches drawn over it; all if they are few."""
    meter = ShuffleMeter(sampler)
    whole = max(sampler.num_examples // batch_size, 1)
    drawn = np.arange(min(whole, _NUM_DRAWN))
    if whole > _NUM_DRAWN:
        # One from each of equally long stretches.
        words = mix(drawn.astype(np.uint64), keys(1, "expected")[0]) >> np.uint64(11)
        drawn = ((drawn + words * 2.0**-53) * (whole / _NUM_DRAWN)).astype(np.int64)
    for batch in drawn.tolist():
        stop = min((batch + 1) * batch_size, sampler.num_examples)
        positions = np.arange(batch * batch_size, stop)
        meter.count(sampler.picks(epoch, positions), positions)
    return meter.quality()
