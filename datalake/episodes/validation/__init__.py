"""What is wrong with an episode: one small rule a fault, pure functions of what was read.

An error costs the episode, since training on it would be wrong or break; a warning is for a person
to know, and the episode is ingested. `Checks` holds the tolerances.

=====================  ========  ==================================================================
reason                 severity  found when
=====================  ========  ==================================================================
empty                  error     there is no frame; a picture has no bytes
length_mismatch        error     the metadata promise another number of frames
frame_gap              error     frame_index, or else the timestamps, leave frames out
frame_repeat           error     a frame_index or a timestamp stands twice in a row
index_gap              error     frame_index does not begin at 0, or goes back
index_gap              warning   `index` is not contiguous; nothing here reads it
metadata_mismatch      error     episode_index is not the episode's: the rows may be another's
bad_timestamps         error     there is none, or it is no number; goes back; is off
                                 frame_index / fps by more than the tolerance
bad_timestamps         warning   the same, though each step is right: they begin late or drift, as
                                 videos may too; LeRobot takes them
shape_changed          error     a declared feature is absent, of another shape or another type;
                                 task_index is no integer; a video's pictures are of another size
metadata_mismatch      warning   a column that no feature declares; it is left out
non_finite             error     NaN, infinite or null in `action…` or `observation…`: one such
                                 value makes the loss NaN
non_finite             warning   the same in other features, where NaN may stand for "unknown"
out_of_range           error     outside of the min and max that the feature declares
constant               warning   no action ever changes: nothing is shown
no_task                warning   a frame's task has no text; policies without language can use it
stats_mismatch         warning   declared statistics are not the data's; the lake has its own
video_length_mismatch  error     fewer video frames than frames, or many more: nobody can say which
                                 picture belongs to which frame
video_length_mismatch  warning   one frame more, as encoders leave it (`max_extra_video_frames`)
video_timestamps       error     no video frame stands where a timestamp wants one
video's own refusal    error     missing, cut, empty, a Git-LFS pointer, no video, …
=====================  ========  ==================================================================

The tolerance of timestamps is LeRobot's, 1e-4 s, plus the spacing of float32 at that time where
they are float32: at 30 fps and after 35 minutes it is as large as the tolerance itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from datalake.episodes.validation.checks import Checks
from datalake.episodes.validation.columns import absent_columns, odd_columns, undeclared_columns
from datalake.episodes.validation.declared_stats import wrong_stats
from datalake.episodes.validation.numbering import (
    foreign_rows,
    odd_frame_index,
    odd_index,
    wrong_length,
)
from datalake.episodes.validation.pictures import empty_pictures
from datalake.episodes.validation.tasks import missing_texts
from datalake.episodes.validation.timing import bad_timestamps
from datalake.episodes.validation.values import constant_action, non_finite, out_of_range
from datalake.episodes.validation.videos import bad_videos
from datalake.quarantine import Refusal
from datalake.recording import EpisodeData, Finding, Severity
from datalake.video import VideoInfo

__all__ = ["Checks", "check_episode"]


def check_episode(
    data: EpisodeData,
    *,
    fps: float,
    videos: Mapping[str, VideoInfo | Refusal],
    checks: Checks | None = None,
) -> list[Finding]:
    """All faults of one episode, each rule's first frame only.

    Args:
        data: what its files hold.
        fps: frames a second.
        videos: what probing said of each video file, by `video_id`. Files that are not there were
            not looked into, and are passed over.
        checks: the tolerances.
    """
    checks = checks or Checks()
    length = [*wrong_length(data)]
    found = [*length]
    if data.frames.num_rows == 0:
        return found
    timing = [*bad_timestamps(data, fps, checks)]
    found += odd_frame_index(data)
    found += timing
    found += foreign_rows(data)
    found += odd_index(data)
    found += absent_columns(data)
    found += odd_columns(data)
    found += undeclared_columns(data)
    found += non_finite(data)
    found += out_of_range(data)
    found += constant_action(data)
    found += empty_pictures(data)
    found += missing_texts(data)
    if not length:
        # Statistics of other rows are others: no news.
        found += wrong_stats(data, checks)
    # Nor is it that no video frame stands where a wrong timestamp wants it.
    is_timed = all(finding.severity is not Severity.ERROR for finding in timing)
    found += bad_videos(data, fps, videos, checks, with_times=is_timed)
    return found
