"""Metrics of speech deepfake detection, with the field's definitions.

Scores are higher for bona fide. Every function takes the bona fide scores first, then the spoof
scores, and refuses scores that would make its value meaningless (`datalake.errors.InputError`).
"""

from curation.metrics.bootstrap import Interval, Metric, bootstrap_interval
from curation.metrics.calibration import cllr
from curation.metrics.detection_cost import act_dcf, min_dcf
from curation.metrics.equal_error_rate import eer, eer_threshold
from curation.metrics.per_domain import eer_by

__all__ = [
    "Interval",
    "Metric",
    "act_dcf",
    "bootstrap_interval",
    "cllr",
    "eer",
    "eer_by",
    "eer_threshold",
    "min_dcf",
]
