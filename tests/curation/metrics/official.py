"""Slow, obvious twins of the metrics: the challenge's rules walked trial by trial."""

from __future__ import annotations

import math


def det(bonafide: list[float], spoof: list[float]) -> tuple[list[float], list[float], list[float]]:
    """Miss rates, false-alarm rates and thresholds.

    Bona fide come before spoofs in the joint list, and Python's sort is stable, so among equal
    scores bona fide are rejected first.
    """
    trials = [(score, 1) for score in bonafide] + [(score, 0) for score in spoof]
    trials.sort(key=lambda trial: trial[0])
    misses, rejections = 0, 0
    miss_rates, false_alarm_rates, thresholds = [0.0], [1.0], [trials[0][0] - 0.001]
    for score, is_bonafide in trials:
        misses += is_bonafide
        rejections += 1 - is_bonafide
        miss_rates.append(misses / len(bonafide))
        false_alarm_rates.append((len(spoof) - rejections) / len(spoof))
        thresholds.append(score)
    return miss_rates, false_alarm_rates, thresholds


def eer(bonafide: list[float], spoof: list[float]) -> tuple[float, float]:
    miss_rates, false_alarm_rates, thresholds = det(bonafide, spoof)
    gaps = [abs(miss - alarm) for miss, alarm in zip(miss_rates, false_alarm_rates, strict=True)]
    first = gaps.index(min(gaps))
    return (miss_rates[first] + false_alarm_rates[first]) / 2, thresholds[first]


def min_dcf(bonafide: list[float], spoof: list[float]) -> float:
    miss_rates, false_alarm_rates, _ = det(bonafide, spoof)
    target = 1 - 0.05
    costs = [
        1 * miss * target + 10 * alarm * (1 - target)
        for miss, alarm in zip(miss_rates, false_alarm_rates, strict=True)
    ]
    return min(costs) / min(1 * target, 10 * (1 - target))


def act_dcf(bonafide: list[float], spoof: list[float]) -> float:
    threshold = -math.log(1.9)
    miss_rate = sum(score < threshold for score in bonafide) / len(bonafide)
    false_alarm_rate = sum(score >= threshold for score in spoof) / len(spoof)
    target = 1 - 0.05
    return (miss_rate * target + 10 * false_alarm_rate * (1 - target)) / min(
        target, 10 * (1 - target)
    )


def cllr(bonafide: list[float], spoof: list[float]) -> float:
    bonafide_cost = sum(math.log1p(math.exp(-score)) for score in bonafide) / len(bonafide)
    spoof_cost = sum(math.log1p(math.exp(score)) for score in spoof) / len(spoof)
    return 0.5 * (bonafide_cost + spoof_cost) / math.log(2)
