"""The slow way to a bootstrap: the scores that were drawn, one by one."""

from __future__ import annotations

from curation.metrics.ladder import Ladder
from curation.metrics.resampling import draw_resamples
from curation.metrics.trials import FloatArray, Trials


def drawn_scores(
    trials: Trials, num_resamples: int, seed: int
) -> list[tuple[FloatArray, FloatArray]]:
    """Bona fide and spoof scores of each resample over utterances."""
    ladder = Ladder.of(trials)
    found: list[tuple[FloatArray, FloatArray]] = []
    for block in draw_resamples(ladder, num_resamples, seed=seed):
        num_here = len(block.at_buckets().misses)
        sides = []
        for side, scores in ((block.bonafide, trials.bonafide), (block.spoof, trials.spoof)):
            rows: list[list[float]] = [[] for _ in range(num_here)]
            for bucket in range(ladder.num_buckets):
                for draw, row in zip(*side.draws(bucket), strict=True):
                    rows[row].append(scores[draw])
            sides.append(rows)
        found += zip(*sides, strict=True)
    return found
