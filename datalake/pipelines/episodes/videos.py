"""What a worker does with a unit of video files: read each once, probe it, and stage its row.

The bytes go from the corpus's store into the table's writer as they were found: there is no
temporary copy, and no picture is decoded unless the videos are transcoded.

Memory: one file and its copy in the table's writer; of a remote corpus also up to 32 MiB of small
files that are fetched ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from datalake.episodes import VIDEOS
from datalake.pipelines.episodes.payloads import read_payload
from datalake.pipelines.episodes.plan import VideoTask
from datalake.pipelines.episodes.settings import VideoCodec
from datalake.pipelines.files import read_files
from datalake.quarantine import Reason, Refusal
from datalake.tables import Piece, Stager
from datalake.uri import Location

__all__ = ["StagedVideos", "VideoJob", "stage_videos"]


@dataclass
class StagedVideos:
    """What became of a unit. Picklable and small."""

    index: int
    pieces: list[Piece] = field(default_factory=list)
    num_items: int = 0
    """Files looked at."""
    num_bytes: int = 0
    """Bytes of the files that were read."""
    refused: dict[str, Refusal] = field(default_factory=dict)
    """Files that cannot be used, by their id in the corpus."""


@dataclass(frozen=True)
class VideoJob:
    """What all units of video files share. Picklable and small."""

    root: Location
    source: str
    units: Location
    """Lists of `VideoTask`."""
    stager: Stager
    """Of the videos table."""
    transcode: VideoCodec | None

    def stage(self, index: int) -> StagedVideos:
        """Read and stage the files of a unit.

        Raises:
            StoreError: the store refused to give or to take.
        """
        return stage_videos(self, index)


def stage_videos(job: VideoJob, index: int) -> StagedVideos:
    """Read the files of unit `index` and stage their rows. Publishes nothing."""
    tasks: Sequence[VideoTask] = read_payload(job.units, index)
    staged = StagedVideos(index, num_items=len(tasks))
    staged.pieces = job.stager.write(_rows(job, tasks, staged))
    return staged


def _rows(
    job: VideoJob, tasks: Sequence[VideoTask], staged: StagedVideos
) -> Iterator[pa.RecordBatch]:
    from datalake.video import BadVideo, probe, transcode

    files = read_files(job.root, ((task.file.path, task.file.size_bytes or 0) for task in tasks))
    for task, data in zip(tasks, files, strict=True):
        if isinstance(data, Refusal):
            missing = data.reason is Reason.NO_FILE
            reason = Reason.VIDEO_MISSING if missing else data.reason
            staged.refused[task.file.video_id] = Refusal(reason, data.detail)
            continue
        staged.num_bytes += len(data)
        try:
            info = probe(data)
            if job.transcode:
                data = transcode(data, codec=job.transcode)
                info = probe(data)
        except BadVideo as error:
            staged.refused[task.file.video_id] = error.refusal
            continue
        facts = {
            "video_id": task.stored_id,
            "source": job.source,
            "feature": task.file.feature,
            "path": task.file.path,
            "stamp": task.stamp,
            "num_bytes": len(data),
            **info.as_row(),
        }
        yield pa.record_batch(
            [
                _blob(data)
                if column.name == "video"
                else pa.array([facts[column.name]], column.type)
                for column in VIDEOS
            ],
            schema=VIDEOS,
        )


def _blob(data: bytes) -> pa.Array:
    """The bytes as a column of one row, without a copy."""
    offsets = pa.array([0, len(data)], pa.int64()).buffers()[1]
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(data)])
