"""What the numbers of episodes are like: min, max, mean, std and quantiles of every element.

One rule for one episode and for the whole set: population std (ddof 0), quantiles by linear
interpolation, both in float64, so that they equal `numpy.std` and `numpy.quantile` of the values.
NaN and null are left out, element by element; infinite values count.

`lerobot` 0.4 writes min, max and mean that are equal to ours up to rounding. Three of its figures
are not those of the data, and ours differ from them there:
quantiles of an episode come from 5,000 bins between min and max (a few bins off); quantiles of a
set are the episodes' quantiles averaged; and the std of pictures squares bytes in bytes, so that it
is 0 where the overflow makes the variance negative.
"""

from datalake.episodes.statistics.columns import numbers_of
from datalake.episodes.statistics.feature_stats import QUANTILES, FeatureStats, merge_stats
from datalake.episodes.statistics.moments import Accumulator
from datalake.episodes.statistics.pictures import sampled_frames, summarise_pictures
from datalake.episodes.statistics.summaries import summarise, summarise_set, summarise_stream

__all__ = [
    "QUANTILES",
    "Accumulator",
    "FeatureStats",
    "merge_stats",
    "numbers_of",
    "sampled_frames",
    "summarise",
    "summarise_pictures",
    "summarise_set",
    "summarise_stream",
]
