"""Score a test and break its equal error rate down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curation.metrics import eer_by
from curation.probe.detector import NeuralDetector
from curation.probe.features import FeatureStore

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation:
    """What a detector did on a test."""

    scores: pa.Table
    """One row a test utterance: utt_id, label, domain, generator, score (high is bona fide)."""
    by_domain: pa.Table
    """EER of each (source, generator), pooled and macro, as `curation.metrics.eer_by` gives it."""
    by_generator: pa.Table
    """The same with the sources of a generator taken together; spoofs that name none by domain."""


def evaluate(
    store: FeatureStore,
    keys: pa.Table,
    detector: NeuralDetector,
    *,
    num_resamples: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Score the rows of `keys` and give the EER by domain, by generator, pooled and macro.

    Args:
        store: features of the table that `keys` indexes, for the detector's design.
        keys: the test rows, with the columns of `read_keys`.
        detector: the detector.
        num_resamples: bootstrap replicates an interval.
        seed: seed of the bootstrap.

    Raises:
        InputError: the test lacks one of the labels, or a score is not finite.
    """
    scores = store.scores(detector, keys["row_index"].to_numpy().astype(np.int64))
    labels = keys["label"].to_numpy()
    # A corpus that does not name its generators is one by itself.
    generator = pc.coalesce(keys["generator"], keys["domain"])
    breakdowns = [
        eer_by(scores, labels, column.to_numpy(), num_resamples=num_resamples, seed=seed)
        for column in (keys["domain"], generator)
    ]
    table = keys.select(["utt_id", "label", "domain", "generator"])
    return Evaluation(table.append_column("score", pa.array(scores)), *breakdowns)
