"""Augmentation of training examples: what becomes of an utterance follows from its name alone.

Every number is drawn from a hash of (seed, utt_id, epoch), where an utterance's epoch is how often
it was trained on before. So the same seed gives the same waves in any order, in any number of
threads, and anyone can make them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curation.order import digest
from curation.probe.codec_pass import through_codec
from curation.probe.rawboost import rawboost

__all__ = ["Augmenter"]

_LEVELS = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Augmenter:
    """Changes waveforms: RawBoost first, then a codec, as a channel comes after a microphone."""

    seed: int
    sample_rate_hz: int
    rawboost: int = 0
    """The algorithm, 1 to 8; 0 for none."""
    codecs: tuple[str, ...] = ()
    """An example passes one of them, drawn anew each epoch."""
    share: float = 1.0
    """Of examples changed; drawn for RawBoost and for codecs apart."""
    num_threads: int = 1

    @property
    def is_idle(self) -> bool:
        """Whether nothing is ever changed."""
        return self.share <= 0 or not (self.rawboost or self.codecs)

    def apply(
        self,
        waves: npt.NDArray[np.float32],
        utt_ids: Sequence[str],
        epochs: Sequence[int],
        record: Counter[str] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Changed copies (n, num_samples) of `waves`.

        Args:
            waves: (n, num_samples), full scale 1.
            utt_ids: whose they are, n.
            epochs: how often each was trained on before, n.
            record: counts what was done: `rawboost 5`, `mp3 0.5`, `none`.
        """
        each = list(zip(waves, utt_ids, epochs, strict=True))
        if self.num_threads > 1:
            with ThreadPoolExecutor(self.num_threads) as threads:
                done = list(threads.map(lambda one: self._changed(*one), each))
        else:
            done = [self._changed(*one) for one in each]
        if record is not None:
            for _, what in done:
                record.update(what or ("none",))
        return np.stack([wave for wave, _ in done])

    def _changed(
        self, wave: npt.NDArray[np.float32], utt_id: str, epoch: int
    ) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
        what = []
        if self.rawboost:
            rng = self._rng("rawboost", utt_id, epoch)
            if rng.uniform() < self.share:
                wave = rawboost(wave, self.sample_rate_hz, self.rawboost, rng)
                what.append(f"rawboost {self.rawboost}")
        if self.codecs:
            rng = self._rng("codec", utt_id, epoch)
            if rng.uniform() < self.share:
                name = self.codecs[int(rng.integers(len(self.codecs)))]
                level = _LEVELS[int(rng.integers(len(_LEVELS)))]
                wave = through_codec(wave, self.sample_rate_hz, name, level)
                what.append(f"{name} {level}")
        return wave, tuple(what)

    def _rng(self, purpose: str, utt_id: str, epoch: int) -> np.random.Generator:
        named = digest(self.seed, f"{purpose}/{epoch}/{utt_id}")
        return np.random.default_rng(int.from_bytes(named, "little"))
