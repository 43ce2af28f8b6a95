"""Metrics of speech deepfake detection, with the field's definitions.

Scores are higher for bona fide. Every function takes the bona fide scores first, then the spoof
scores (`a_dcf` and `t_eer`: target, non-target, spoof), gives fractions, and refuses scores that
would make its value meaningless (`datalake.errors.InputError`).
"""

from curation.metrics.agnostic_cost import AGNOSTIC_COSTS, AgnosticCosts, a_dcf
from curation.metrics.bootstrap import Interval, bootstrap_interval
from curation.metrics.breakdown import breakdown
from curation.metrics.calibration import cllr
from curation.metrics.detection_cost import act_dcf, min_dcf
from curation.metrics.equal_error_rate import eer, eer_threshold
from curation.metrics.measures import Metric
from curation.metrics.per_domain import eer_by
from curation.metrics.tandem_cost import (
    ASVSPOOF5_ASV,
    AsvRates,
    TandemForm,
    act_t_dcf,
    asv_rates,
    min_t_dcf,
)
from curation.metrics.tandem_error_rate import t_eer

__all__ = [
    "AGNOSTIC_COSTS",
    "ASVSPOOF5_ASV",
    "AgnosticCosts",
    "AsvRates",
    "Interval",
    "Metric",
    "TandemForm",
    "a_dcf",
    "act_dcf",
    "act_t_dcf",
    "asv_rates",
    "bootstrap_interval",
    "breakdown",
    "cllr",
    "eer",
    "eer_by",
    "eer_threshold",
    "min_dcf",
    "min_t_dcf",
    "t_eer",
]
