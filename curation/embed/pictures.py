"""The pictures of rows: of a column of encoded images, or of one camera of episodes.

Of an episode some pictures stand for all: from a video its keyframes, which cost no decoding of
what lies between (the first frame, where no keyframe lies in the episode); from an image feature
frames at equal steps. Where there are more than `num_pictures`, as many at equal steps of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.embed.episodes import SetAddress, SetReader
from curation.embed.vectors import Vectors
from curation.embed.waveforms import Unembeddable
from datalake.episodes.validation.videos import frames_in
from datalake.errors import InputError, SchemaError
from datalake.lake import Lake
from datalake.recording import VideoSpan
from datalake.schema import MEDIA_KEY
from datalake.video import BadVideo, VideoInfo, VideoReader
from datalake.video.pictures import decode_picture

__all__ = ["EpisodePictures", "Picture", "PictureEmbedding", "Pictures", "evenly"]

Picture: TypeAlias = npt.NDArray[np.uint8]
"""RGB, (height, width, 3)."""

_COLUMNS: Final = ("episode_id", "videos", "length", "stamp")


@dataclass(frozen=True)
class Pictures:
    """Which pictures a row has. Picklable and small.

    Args:
        lake: where the table is.
        table: a table with a column of images, or `<set>.episodes`.
        column: the column, or the camera of the set; None where there is only one.
        num_pictures: how many stand for an episode at most.

    Raises:
        NotFoundError: there is no such table or camera.
        InputError: there is no picture, or more than one column or camera to choose from.
        SchemaError: there is no such column.
    """

    lake: Lake
    table: str
    column: str | None = None
    num_pictures: int = 8
    of_episodes: bool = field(init=False)
    chosen: str = field(init=False)
    """The column or camera."""

    def __post_init__(self) -> None:
        if self.num_pictures < 1:
            raise InputError("An episode needs a picture", found=str(self.num_pictures))
        from datalake.episodes import set_of

        of_episodes = set_of(self.lake, self.table) is not None
        if of_episodes:
            features = SetAddress.of_table(self.lake, self.table).open().features
            known = [each.name for each in features if each.dtype in ("image", "video")]
        else:
            known = [
                each.name
                for each in self.lake[self.table].schema
                if (each.metadata or {}).get(MEDIA_KEY) == b"image"
            ]
        object.__setattr__(self, "of_episodes", of_episodes)
        object.__setattr__(self, "chosen", self._choose(known))

    def _choose(self, known: Sequence[str]) -> str:
        kind = "camera" if self.of_episodes else "column of images"
        if self.column is None:
            if len(known) != 1:
                raise InputError(
                    f"Which {kind} is meant is not clear" if known else f"There is no {kind}",
                    where=self.table,
                    found=", ".join(known) or "none",
                    fix="Name one of them (column=, --column)" if known else "",
                )
            return known[0]
        if self.column in known:
            return self.column
        if not self.of_episodes and self.column in self.lake[self.table].schema.names:
            return self.column  # Bytes that say nothing of what they are.
        raise SchemaError(
            f"There is no {kind} {self.column!r}",
            where=self.table,
            found=", ".join(known) or "none",
        )

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns from which a row's pictures follow."""
        return _COLUMNS if self.of_episodes else (self.chosen,)

    @property
    def settings(self) -> Mapping[str, object]:
        """Which pictures these are, as JSON values."""
        if not self.of_episodes:
            return {"column": self.chosen}
        address = SetAddress.of_table(self.lake, self.table)
        return {
            "set": str(address),
            "camera": self.chosen,
            "num_pictures": self.num_pictures,
        }

    def open(self) -> Callable[[pa.Table], Iterator[Callable[[], list[Picture]]]]:
        """From rows to what gives the pictures of each; that may raise `Unembeddable`."""
        if not self.of_episodes:
            return self._of_column
        reader = EpisodePictures(self)
        return reader.of_rows

    def _of_column(self, rows: pa.Table) -> Iterator[Callable[[], list[Picture]]]:
        for data in rows[self.chosen]:
            yield partial(_decoded, [data.as_buffer() if data.is_valid else None])


class EpisodePictures:
    """Reads pictures of episodes. Holds the bytes of one video file.

    Args:
        pictures: which; of episodes.
    """

    def __init__(self, pictures: Pictures) -> None:
        self._camera = pictures.chosen
        self._num_pictures = pictures.num_pictures
        self._reader = SetReader(SetAddress.of_table(pictures.lake, pictures.table))
        # Rows of this version of the videos.
        self._videos = self._reader.set.videos
        self._rows: dict[str, int] = {}
        self._held: tuple[str, dict[str, Any]] | None = None

    def of_rows(self, rows: pa.Table) -> Iterator[Callable[[], list[Picture]]]:
        """What gives the pictures of each row."""
        for episode in rows.select(["episode_id", "videos"]).to_pylist():
            yield partial(self.of_episode, episode)

    def of_episode(self, episode: Mapping[str, Any]) -> list[Picture]:
        """The pictures of an episode, in order of time.

        Args:
            episode: its `episode_id` and `videos`.

        Raises:
            Unembeddable: it has none, or they cannot be decoded.
        """
        span = self._span(episode)
        if span is not None:
            return self._of_video(span)
        row = self._reader.row_of(episode["episode_id"])
        if row is None:
            raise Unembeddable("the episode is not in the set any more")
        feature = self._reader.set.feature(self._camera)
        start, stop = self._reader.set.index.starts[row : row + 2].tolist()
        if feature.dtype != "image" or start == stop:
            raise Unembeddable("the episode has no pictures of this camera")
        frames = evenly(np.arange(start, stop), self._num_pictures)
        found = self._reader.set.frames.take(frames, [feature.column])[feature.column]
        return _decoded([data.as_buffer() if data.is_valid else None for data in found])

    def num_video_frames(self, episode: Mapping[str, Any]) -> int | None:
        """How many frames of the camera's video lie in an episode; None where it is no video.

        Raises:
            Unembeddable: the file is gone.
        """
        span = self._span(episode)
        if span is None:
            return None
        _, _, first, end = self._place(span)
        return max(0, end - first)

    def _span(self, episode: Mapping[str, Any]) -> Mapping[str, Any] | None:
        spans = (span for span in episode["videos"] or () if span["feature"] == self._camera)
        return next(spans, None)

    def _place(self, span: Mapping[str, Any]) -> tuple[dict[str, Any], VideoInfo, int, int]:
        """The file, and which of its frames lie in the span."""
        video = self._video(span["video_id"])
        info = VideoInfo.from_row(video)
        first, end = frames_in(VideoSpan(**span), info, info.fps)
        return video, info, first, end

    def _of_video(self, span: Mapping[str, Any]) -> list[Picture]:
        video, info, first, end = self._place(span)
        if first >= end:
            raise Unembeddable("no frame of the video lies in the episode")
        keys = info.keyframes[(info.keyframes >= first) & (info.keyframes < end)]
        wanted = keys if len(keys) else np.array([first])
        try:
            with VideoReader(video["video"], info, num_threads=1) as reader:
                return list(reader.frames(evenly(wanted, self._num_pictures)))
        except BadVideo as bad:
            raise Unembeddable(f"{bad.refusal.reason}: {bad.refusal.detail}") from bad

    def _video(self, video_id: str) -> dict[str, Any]:
        """The row of a file, the last one kept: episodes of one file follow each other."""
        if self._held is not None and self._held[0] == video_id:
            return self._held[1]
        if video_id not in self._rows:
            self._number()
        if video_id not in self._rows:
            raise Unembeddable("the video is not in the set any more")
        self._held = None
        videos = self._videos.take([self._rows[video_id]])
        row: dict[str, Any] = videos.drop_columns(["video"]).to_pylist()[0]
        row["video"] = videos["video"][0].as_buffer()
        self._held = (video_id, row)
        return row

    def _number(self) -> None:
        """Find the rows of all files; again where the set has others by now."""
        self._reader.renew()
        self._videos = self._reader.set.videos
        ids = self._videos.scan(["video_id"]).read_all()["video_id"].to_pylist()
        self._rows = {video_id: row for row, video_id in enumerate(ids)}


def _decoded(encoded: Sequence[Any]) -> list[Picture]:
    if any(data is None for data in encoded):
        raise Unembeddable("there is no picture")
    try:
        return [_rgb(decode_picture(data)) for data in encoded]
    except BadVideo as bad:
        # Pillow names the file object, which has another address each time.
        detail = bad.refusal.detail.partition(" <_io.")[0]
        raise Unembeddable(f"{bad.refusal.reason}: {detail}") from bad


def _rgb(picture: npt.NDArray[Any]) -> Picture:
    if picture.dtype != np.uint8:
        # Deep pictures: the range of the type is the range of the picture.
        top = 65535 if picture.dtype == np.uint16 or picture.max() > 255 else 255
        picture = (picture.astype(np.float64) * (255 / top)).clip(0, 255).astype(np.uint8)
    if picture.shape[2] in (1, 2):
        return np.repeat(picture[:, :, :1], 3, axis=2)
    return np.ascontiguousarray(picture[:, :, :3])


def evenly(numbers: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """At most so many of some numbers, at equal steps: the first and the last are among them.

    Of one, the one in the middle.
    """
    if len(numbers) <= most:
        return numbers
    if most == 1:
        return numbers[len(numbers) // 2 : len(numbers) // 2 + 1]
    return numbers[np.round(np.linspace(0, len(numbers) - 1, most)).astype(np.int64)]


@dataclass(frozen=True)
class PictureEmbedding:
    """Embeds rows by their pictures; an `Annotate`. A row's vector is the mean over its pictures.

    Args:
        pictures: from rows to what gives the pictures of each.
        field: of the embedding.
        embed: from a picture to its vector, (size,).
    """

    pictures: Callable[[pa.Table], Iterator[Callable[[], list[Picture]]]]
    field: pa.Field
    embed: Callable[[Picture], npt.NDArray[np.floating]]

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The embeddings, and why rows have none."""
        vectors = Vectors(self.field)
        for given in self.pictures(rows):
            try:
                # One by one: what is beside a picture in a batch moves its last digits.
                total = [self.embed(picture).astype(np.float64) for picture in given()]
                vectors.add(np.mean(total, axis=0))
            except Unembeddable as reason:
                vectors.fail(str(reason))
        return vectors.table()
