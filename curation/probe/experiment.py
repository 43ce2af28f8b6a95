"""Train and test over several seeds, and report what came out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curation.probe.codec_pass import codec_library
from curation.probe.detector import Design
from curation.probe.evaluation import Evaluation, evaluate
from curation.probe.features import FeatureStore
from curation.probe.model_file import save_detector
from curation.probe.overlap import Overlap
from curation.probe.training import Check, TrainingResult, TrainingSettings, sharpness, train

__all__ = ["SUMMARY", "Report", "SeedRun", "run_seeds"]

SUMMARY: Final = pa.schema(
    [
        # `domain` (a spoof domain or a generator), `pooled` or `macro`.
        pa.field("scope", pa.string(), nullable=False),
        pa.field("domain", pa.string()),
        pa.field("num_bonafide", pa.int64(), nullable=False),
        pa.field("num_spoof", pa.int64(), nullable=False),
        # Mean over the seeds, as a fraction; so are the bounds of the bootstrap interval.
        pa.field("eer", pa.float64(), nullable=False),
        pa.field("eer_low", pa.float64()),
        pa.field("eer_high", pa.float64()),
        # Standard deviation over the seeds (n - 1); null for one seed.
        pa.field("eer_sd", pa.float64()),
    ]
)
"""The columns of `Report.by_domain` and `Report.by_generator`."""


@dataclass(frozen=True)
class SeedRun:
    """One detector: how it was trained, and what it did on the test."""

    seed: int
    training: TrainingResult
    evaluation: Evaluation
    test_sharpness: float | None = None
    """The sharpness on the test rows, if the settings ask for it."""


@dataclass(frozen=True)
class Report:
    """The runs of all seeds."""

    design: str
    settings: TrainingSettings
    runs: tuple[SeedRun, ...]
    overlaps: tuple[Overlap, ...]
    """What training and test share: named in every report, since it decides what the EER means."""
    lineage: Mapping[str, str]
    """Run, configuration, code version and input versions: `Lineage.properties()`."""

    @property
    def by_domain(self) -> pa.Table:
        """EER by (source, generator), pooled and macro: columns `SUMMARY`."""
        return _summary([run.evaluation.by_domain for run in self.runs])

    @property
    def by_generator(self) -> pa.Table:
        """EER by generator, pooled and macro: columns `SUMMARY`."""
        return _summary([run.evaluation.by_generator for run in self.runs])

    def to_dict(self) -> dict[str, Any]:
        """All of it but scores and weights, as JSON values."""
        return {
            "design": self.design,
            "settings": asdict(self.settings),
            # Its version decides what codecs do to samples.
            "codec_library": codec_library() if self.settings.codecs else None,
            "lineage": dict(self.lineage),
            "overlaps": [asdict(overlap) for overlap in self.overlaps],
            "by_domain": self.by_domain.to_pylist(),
            "by_generator": self.by_generator.to_pylist(),
            "seeds": [
                {
                    "seed": run.seed,
                    "num_parameters": run.training.detector.num_parameters,
                    "column": run.training.detector.column,
                    "augmentations": dict(run.training.augmentations),
                    "validation_sharpness": run.training.validation_sharpness,
                    "test_sharpness": run.test_sharpness,
                    "num_steps": run.training.num_steps,
                    "best_step": run.training.best_step,
                    "num_training_rows": run.training.num_training_rows,
                    "num_validation_rows": run.training.num_validation_rows,
                    "history": [asdict(check) for check in run.training.history],
                    "by_domain": run.evaluation.by_domain.to_pylist(),
                    "by_generator": run.evaluation.by_generator.to_pylist(),
                }
                for run in self.runs
            ],
        }

    def save(self, folder: Path) -> list[Path]:
        """Write `report.json`, and a detector and its scores a seed; the paths written."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for run in self.runs:
            weights = folder / f"detector-{run.seed}.pt"
            scores = folder / f"scores-{run.seed}.parquet"
            save_detector(run.training.detector, weights)
            pq.write_table(run.evaluation.scores, scores)
            paths += [weights, scores]
        report = folder / "report.json"
        report.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        return [report, *paths]


def run_seeds(
    train_store: FeatureStore,
    train_keys: pa.Table,
    test_store: FeatureStore,
    test_keys: pa.Table,
    *,
    design: Design,
    settings: TrainingSettings,
    num_seeds: int = 1,
    num_resamples: int = 1000,
    on_check: Callable[[int, Check], None] | None = None,
) -> tuple[SeedRun, ...]:
    """Train and test with the seeds `settings.seed`, `settings.seed + 1`, …

    Features are computed once for all seeds. A seed decides the weights at the start, the order of
    the batches, what augmentation does and which rows validate; the test and its bootstrap stay
    the same.

    Args:
        train_store: features of the table that `train_keys` indexes.
        train_keys: the rows to train and validate on; with a column `weight` (`with_weights`)
            where the settings use weights.
        test_store: features of the table that `test_keys` indexes; may be the same object.
        test_keys: the rows to test on.
        design: what to build.
        settings: how to train.
        num_seeds: how many detectors.
        num_resamples: bootstrap replicates an interval.
        on_check: called with the seed after each look at the validation rows.

    Raises:
        InputError: a side lacks one of the labels.
    """
    runs = []
    for seed in range(settings.seed, settings.seed + num_seeds):
        report = (lambda check, seed=seed: on_check(seed, check)) if on_check else None
        result = train(
            train_store, train_keys, design, replace(settings, seed=seed), on_check=report
        )
        found = evaluate(test_store, test_keys, result.detector, num_resamples=num_resamples)
        at_test = None
        if settings.sharpness_rho:
            at_test = sharpness(test_store, test_keys, result.detector, settings.sharpness_rho)
        runs.append(SeedRun(seed, result, found, at_test))
    return tuple(runs)


def _summary(breakdowns: Sequence[pa.Table]) -> pa.Table:
    """The mean over seeds of tables whose rows are the same domains."""
    first = breakdowns[0]
    columns = {name: first[name] for name in ("scope", "domain", "num_bonafide", "num_spoof")}
    for name in ("eer", "eer_low", "eer_high"):
        values = np.array([table[name].to_numpy() for table in breakdowns], dtype=np.float64)
        columns[name] = pa.array(values.mean(axis=0), from_pandas=True)
        if name == "eer" and len(breakdowns) > 1:
            columns["eer_sd"] = pa.array(values.std(axis=0, ddof=1))
    columns.setdefault("eer_sd", pa.nulls(first.num_rows, pa.float64()))
    return pa.table([columns[name] for name in SUMMARY.names], schema=SUMMARY)
