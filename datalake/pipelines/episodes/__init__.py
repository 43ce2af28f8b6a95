"""Ingest of robot data: an `EpisodeCorpus` becomes episodes of an episode set, each exactly once.

    plan        episodes of the corpus meet those of the set           plan.py, features.py
    videos      workers read video files and stage them, undecoded     videos.py
    episodes    workers read, check and stage frames and episodes      stage.py, rows.py
    publish     the driver commits groups of staged units              publish.py, quarantine.py
    run         does these in turn, and stops when it must             run.py

The plan can be made at any time from the corpus and the set alone, so a run that was killed is gone
on with by running it again; `publish.py` says what a crash costs at each step.

Memory of the driver: what the plan holds, some hundred bytes an episode and a video file. Of a
worker: see `videos.py` and `stage.py`.
"""

from datalake.pipelines.episodes.report import EpisodeReport
from datalake.pipelines.episodes.run import EpisodeRun
from datalake.pipelines.episodes.settings import EpisodeSettings, VideoCodec

__all__ = ["EpisodeReport", "EpisodeRun", "EpisodeSettings", "VideoCodec"]
