"""The scores of a test: checked and sorted once, by class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["FloatArray", "Trials", "ascending", "check_detects"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trials:
    """Ascending scores of each class, float64, shapes (num_bonafide,) and (num_spoof,).

    In the order that all metrics share, scores ascend and bona fide comes first among equals.
    """

    bonafide: FloatArray
    spoof: FloatArray

    @classmethod
    def of(cls, bonafide_scores: npt.ArrayLike, spoof_scores: npt.ArrayLike) -> Trials:
        """Check and sort.

        Raises:
            InputError: a side is empty, not one-dimensional, or holds something other than finite
                numbers; or all scores of both sides are one value, so that nothing is detected.
        """
        trials = cls(ascending(bonafide_scores, "bona fide"), ascending(spoof_scores, "spoof"))
        check_detects(trials.bonafide, trials.spoof)
        return trials

    def rates_at(self, threshold: float) -> tuple[float, float]:
        """Miss and false-alarm rate when scores from `threshold` on are accepted."""
        misses = int(np.searchsorted(self.bonafide, threshold, side="left"))
        rejections = int(np.searchsorted(self.spoof, threshold, side="left"))
        return misses / self.bonafide.size, (self.spoof.size - rejections) / self.spoof.size

    def error_rates(self) -> tuple[FloatArray, FloatArray]:
        """Miss and false-alarm rates after rejecting the 0, 1, … lowest trials.

        Returns:
            Two arrays of shape (num_bonafide + num_spoof + 1,).
        """
        num_bonafide, num_spoof = self.bonafide.size, self.spoof.size
        is_bonafide = np.zeros(num_bonafide + num_spoof + 1, dtype=bool)
        spoofs_below = np.searchsorted(self.spoof, self.bonafide, side="left")
        is_bonafide[1 + np.arange(num_bonafide) + spoofs_below] = True
        misses = np.cumsum(is_bonafide)
        rejected = np.arange(misses.size)
        return misses / num_bonafide, (num_spoof - (rejected - misses)) / num_spoof


def check_detects(*sides: FloatArray) -> None:
    """Refuse ascending scores that are all one value, over all sides.

    Raises:
        InputError: they are.
    """
    values = {float(end) for side in sides for end in (side[0], side[-1])}
    if len(values) == 1:
        raise InputError(
            "Every score, bona fide and spoof, is the same",
            expected="a detector that tells some trials apart",
            found=f"{sum(side.size for side in sides)} scores of {sides[0][0]}",
            fix="Look at the detector: it may have collapsed or not been trained",
        )


def ascending(scores: npt.ArrayLike, side: str) -> FloatArray:
    """Scores of one kind of trials, checked and sorted; `side` names them in errors.

    Raises:
        InputError: there are none, or something is not a finite number.
    """
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The {side} scores are not numbers", expected="real numbers", found=str(error)
        ) from error
    if array.ndim != 1:
        raise InputError(
            f"The {side} scores are not one-dimensional",
            expected="one score a trial",
            found=f"an array of shape {array.shape}",
        )
    if not array.size:
        raise InputError(f"There are no {side} scores", expected="at least one trial of each class")
    finite = np.isfinite(array)
    if not finite.all():
        raise InputError(
            f"Some {side} scores are not finite",
            expected="finite numbers",
            found=f"{array.size - int(finite.sum())} of {array.size}, the first at position "
            f"{int(finite.argmin())}: {array[finite.argmin()]}",
            fix="A detector that gives NaN or infinity has diverged or seen silence; look at those "
            "trials before scoring",
        )
    return np.sort(array)
