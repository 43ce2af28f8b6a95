"""What a foreign robot dataset says of itself: features, episodes, video files, and its faults.

Connectors speak in these words and the pipelines listen; nothing here reads a file.
"""

from datalake.recording.corpus import (
    BOOKKEEPING,
    BadEpisode,
    EpisodeCorpus,
    EpisodeData,
    EpisodeRef,
    VideoFile,
    VideoSpan,
)
from datalake.recording.feature import NUMERIC_DTYPES, Feature, column_of, feature_of
from datalake.recording.finding import Finding, Severity
from datalake.recording.renamed import RenamedCorpus, renamed

__all__ = [
    "BOOKKEEPING",
    "NUMERIC_DTYPES",
    "BadEpisode",
    "EpisodeCorpus",
    "EpisodeData",
    "EpisodeRef",
    "Feature",
    "Finding",
    "RenamedCorpus",
    "Severity",
    "VideoFile",
    "VideoSpan",
    "column_of",
    "feature_of",
    "renamed",
]
