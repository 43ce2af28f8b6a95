"""What the numbers of episodes are like: min, max, mean, std and quantiles of every element.

One rule for one episode and for the whole set: population std (ddof 0), quantiles by linear
interpolation, both in float64, so that they equal `numpy.std` and `numpy.quantile` of the values.
NaN and null are left out, element by element; infinite values count.

`lerobot` writes min, max and mean that equal ours (mean up to float32's rounding), and so does the
std of version 2.1. Four figures of `lerobot` 0.4.4 are not the data's, and ours differ from them:

- quantiles of an episode come from 5,000 bins, and are off by the gap between neighbouring values;
- quantiles of a set are the episodes' quantiles averaged by count;
- std is the root of mean(x²) - mean(x)² in float32: for a joint that moves by .01 around 100 it is
  .13, or 0;
- std of pictures squares bytes in bytes: it is 0 where the overflow makes the variance negative.
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
