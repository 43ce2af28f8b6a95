"""Where the pictures of each episode lie: which video, and from when on in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.episodes.episode_set import EpisodeSet
from datalake.errors import InputError

__all__ = ["Spans"]


class Spans:
    """For each camera the video of every episode. 16 bytes an episode and a camera.

    Args:
        episodes: the set, at a version.
        cameras: the features.
    """

    def __init__(self, episodes: EpisodeSet, cameras: Sequence[str]) -> None:
        self._episode_ids = episodes.index.episode_ids
        num_episodes = len(episodes.index.lengths)
        self._spans = {
            camera: (np.full(num_episodes, -1, np.int64), np.zeros(num_episodes))
            for camera in cameras
        }
        if not cameras:
            return
        column = episodes.episodes.scan(["videos"]).read_all()["videos"].combine_chunks()
        flat = pa.Table.from_struct_array(column.flatten())
        owners = np.repeat(np.arange(num_episodes), column.value_lengths().fill_null(0).to_numpy())
        video_ids = episodes.videos.scan(["video_id"]).read_all()["video_id"]
        rows = pc.index_in(flat["video_id"], value_set=video_ids).fill_null(-1).to_numpy()
        for camera, (video_rows, from_s) in self._spans.items():
            of_camera = pc.equal(flat["feature"], camera).to_numpy(zero_copy_only=False)
            video_rows[owners[of_camera]] = rows[of_camera]
            from_s[owners[of_camera]] = flat["from_s"].to_numpy()[of_camera]

    def of(
        self, camera: str, episodes: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The rows of the episodes' videos (-1: none), and where in them they begin, in seconds."""
        videos, from_s = self._spans[camera]
        return videos[episodes], from_s[episodes]

    def lacking(self, camera: str, episodes: npt.NDArray[np.int64]) -> InputError:
        """The error for episodes without a video of a camera."""
        return InputError(
            f"The episode {self._episode_ids[int(episodes[0])]} has no video of {camera}",
            fix="Leave the camera out with columns=…, or take other rows",
        )
