"""What a camera shows in episodes: frozen, blurred or badly exposed pictures, and a video's length.

Told from keyframes, which cost no decoding of what lies between (`curation.embed.pictures`). What
is usual for a camera is for rules to find: sharpness has no scale of its own. Ours.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.embed.pictures import EpisodePictures, Picture, Pictures
from curation.embed.waveforms import Unembeddable
from datalake.errors import InputError
from datalake.lake import Lake
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["VIEWS", "RobotViews", "exposure", "fingerprint", "sharpness"]

VIEWS: Final = pa.schema(
    [
        # Pictures whose fingerprint is that of the one before.
        pa.field("frozen_view_share", pa.float32()),
        pa.field("sharpness_median", pa.float32()),
        pa.field("sharpness_min", pa.float32()),
        # Mean grey, from 0 to 1: the median over pictures.
        pa.field("brightness", pa.float32()),
        # Pixels that are all but black, or all but white: the largest of any picture.
        pa.field("dark_share", pa.float32()),
        pa.field("bright_share", pa.float32()),
        # Frames of the video less those of the data.
        pa.field("num_video_frames_over", pa.int32()),
    ]
)
"""What is measured."""

_GREY: Final = np.array([0.299, 0.587, 0.114])
_SIDE: Final = 16
_DARK, _BRIGHT = 0.02, 0.98
_VERSION: Final = 1

Grey = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RobotViews:
    """Measures episodes by the keyframes of one camera; an `Annotator`.

    Memory: a video file and a few pictures.

    Args:
        lake: where the set is.
        table: its table of episodes.
        column: the camera; None where there is only one.
        num_pictures: how many keyframes of an episode are looked at, at most.

    Raises:
        InputError: the table holds no episodes, or there is no camera, or more than one.
        SchemaError: there is no such camera.
    """

    lake: Lake
    table: str
    column: str | None = None
    num_pictures: int = 16
    pictures: Pictures = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = Pictures(self.lake, self.table, self.column, self.num_pictures)
        if not found.of_episodes:
            raise InputError(
                "Views are of episodes", where=self.table, expected="<set>.episodes",
                found="another table",
            )  # fmt: skip
        object.__setattr__(self, "pictures", found)

    @property
    def reads(self) -> tuple[str, ...]:
        """What finds the pictures of an episode."""
        return self.pictures.reads

    @property
    def adds(self) -> pa.Schema:
        """`VIEWS`."""
        return VIEWS

    @property
    def settings(self) -> Mapping[str, object]:
        """The version of the measures, and the pictures."""
        return {"robot_views": _VERSION, **self.pictures.settings}

    def open(self) -> Annotate:
        """Open the set."""
        reader = EpisodePictures(self.pictures)

        def annotate(rows: pa.Table) -> pa.Table:
            made: list[Mapping[str, float | int | None]] = []
            errors: list[str | None] = []
            for episode in rows.select(["episode_id", "videos", "length"]).to_pylist():
                try:
                    made.append(_measured(reader, episode))
                    errors.append(None)
                except Unembeddable as reason:
                    made.append({})
                    errors.append(str(reason))
            columns = {
                each.name: pa.array([values.get(each.name) for values in made], each.type)
                for each in VIEWS
            }
            return pa.table({**columns, "error": pa.array(errors, pa.string())})

        return annotate


def _measured(reader: EpisodePictures, episode: Mapping[str, Any]) -> dict[str, float | int | None]:
    greys = [_grey(picture) for picture in reader.of_episode(episode)]
    prints = [fingerprint(grey) for grey in greys]
    same = [one == other for one, other in itertools.pairwise(prints)]
    sharp = [value for value in map(sharpness, greys) if value is not None]
    exposures = np.array([exposure(grey) for grey in greys])
    num_frames = reader.num_video_frames(episode)
    return {
        "frozen_view_share": float(np.mean(same)) if same else None,
        "sharpness_median": float(np.median(sharp)) if sharp else None,
        "sharpness_min": min(sharp, default=None),
        "brightness": float(np.median(exposures[:, 0])),
        "dark_share": float(exposures[:, 1].max()),
        "bright_share": float(exposures[:, 2].max()),
        "num_video_frames_over": None if num_frames is None else num_frames - episode["length"],
    }


def _grey(picture: Picture) -> Grey:
    """From 0 to 1, (height, width), by ITU-R BT.601."""
    grey: Grey = picture @ (_GREY / 255)
    return grey


def fingerprint(grey: Grey) -> bytes:
    """256 bits: which of 16 x 17 areas are brighter than their right neighbours.

    Two pictures of a camera that works differ by their noise, and so does this; a stream that hangs
    gives the same. A difference hash (Krawetz, 2013), of more areas.

    Args:
        grey: (height, width).
    """
    rows = _edges(grey.shape[0], _SIDE)
    columns = _edges(grey.shape[1], _SIDE + 1)
    sums = np.add.reduceat(np.add.reduceat(grey, rows, axis=0), columns, axis=1)
    # Areas that do not divide a picture are of unlike size.
    sizes = np.diff(np.append(columns, grey.shape[1]))
    means = sums / sizes
    return np.packbits(means[:, :-1] > means[:, 1:]).tobytes()


def _edges(size: int, number: int) -> npt.NDArray[np.int64]:
    """Where areas begin; fewer where a picture is smaller."""
    return np.unique(np.arange(number) * size // number)


def sharpness(grey: Grey) -> float | None:
    """The variance of the Laplacian over that of the picture; None for a plain picture.

    A picture out of focus or of a fast movement has less than others of its camera. That it is over
    the contrast leaves light out of it.

    Args:
        grey: (height, width), three pixels a side or more.
    """
    variance = float(grey.var())
    # Below a quarter of one of 255 levels there is nothing to see.
    if min(grey.shape) < 3 or variance < (0.25 / 255) ** 2:
        return None
    inner = grey[1:-1, 1:-1]
    around = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:]
    return float((around - 4 * inner).var()) / variance


def exposure(grey: Grey) -> tuple[float, float, float]:
    """Mean grey, and the shares of pixels that are all but black and all but white.

    Args:
        grey: (height, width), from 0 to 1.
    """
    return float(grey.mean()), float((grey <= _DARK).mean()), float((grey >= _BRIGHT).mean())
