"""What a connector of robot data opens: episodes to be read one by one, and their video files.

An `EpisodeCorpus` promises little and checks little: it says what the metadata says (`episodes`,
`videos`, `findings`) and reads what an episode's files hold (`read`), as they hold it. Whether the
two agree is found out in one place for all formats, `datalake.episodes.validation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from datalake.quarantine import Reason
from datalake.recording.feature import Feature
from datalake.recording.finding import Finding
from datalake.uri import Location

__all__ = [
    "BOOKKEEPING",
    "BadEpisode",
    "EpisodeCorpus",
    "EpisodeData",
    "EpisodeRef",
    "VideoFile",
    "VideoSpan",
]

BOOKKEEPING: Final = frozenset({"timestamp", "frame_index", "episode_index", "index", "task_index"})
"""Columns of frames that number and time them, and are no features."""


@dataclass(frozen=True)
class VideoFile:
    """One video file that the metadata names, whether or not it is there."""

    video_id: str
    """`<source>/<path without its suffix>`: the same on every run."""
    feature: str
    """The camera: a feature of dtype `video`."""
    path: str
    """Relative to the corpus's root."""
    size_bytes: int | None
    """None: there is no such file."""
    stamp: str
    """Changes when the bytes do, as in `datalake.connector.FILES`."""


@dataclass(frozen=True)
class VideoSpan:
    """Where in a video file an episode is."""

    feature: str
    video_id: str
    from_s: float
    """The time in the file of the episode's first frame, in seconds."""
    to_s: float | None
    """The time at which it ends (no frame of its own stands there); None: with the file."""


@dataclass(frozen=True)
class EpisodeRef:
    """An episode as the metadata has it. Picklable and small."""

    episode_id: str
    """`<source>/<its number, six digits>` or `<source>/<its own name>`; the same on every run."""
    episode_index: int
    """Its number in the source, from 0."""
    origin: str
    """Where its numbers are, relative to the root: a file, or `<file>:<group>`."""
    length: int | None
    """Frames that the metadata promises; None where it does not say."""
    stamp: str
    """Changes when anything that the episode is made of does, its videos included."""
    num_bytes: int = 0
    """About how many bytes `read` reads for it; units are cut by it."""
    videos: tuple[VideoSpan, ...] = ()
    refusal: tuple[Reason, str] | None = None
    """Set where the metadata alone shows that it cannot be used (reason and detail)."""
    hint: Any = None
    """Whatever `read` needs to find it again. Picklable."""


@dataclass(frozen=True)
class EpisodeData:
    """What an episode's files hold, unchecked."""

    ref: EpisodeRef
    frames: pa.Table
    """One row a frame, in the order of the source. `timestamp` (float32 or float64, seconds from
    the episode's beginning) is always there; of the other `BOOKKEEPING` columns those that the
    source has, as it has them; then a column for each feature that is no video, under its name with
    dots and in its `arrow_type` where the source keeps to it."""
    features: tuple[Feature, ...]
    """The features as declared for this episode, videos included."""
    tasks: Mapping[int, str] = field(default_factory=dict)
    """The text of each `task_index` that occurs. A source without numbers uses 0."""
    success: bool | None = None
    split: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What else the source says of the episode, as JSON values."""
    stats: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the source says of the episode's statistics: feature -> min, max, mean, std, count, q01,
    q10, q50, q90, q99, as nested lists; pictures per channel, in [0, 1]."""


@dataclass(frozen=True)
class BadEpisode:
    """An episode whose files cannot be read."""

    ref: EpisodeRef
    reason: Reason
    detail: str
    frame_index: int | None = None


@runtime_checkable
class EpisodeCorpus(Protocol):
    """An opened robot dataset. Picklable; workers read from copies of it.

    Everything but `read` looks at metadata only.
    """

    @property
    def source(self) -> str:
        """The dataset's name, by which a later ingest knows it again; a part of `episode_id`."""
        ...

    @property
    def root(self) -> Location:
        """What paths are relative to."""
        ...

    @property
    def embodiment(self) -> str | None:
        """The robot, as the source names it."""
        ...

    @property
    def fps(self) -> float:
        """Frames a second."""
        ...

    @property
    def features(self) -> tuple[Feature, ...]:
        """The declared features; where the format declares none, those of the first episode."""
        ...

    def findings(self) -> Iterator[Finding]:
        """Faults of the metadata: files that are empty, absent or contradict each other."""
        ...

    def videos(self) -> Iterator[VideoFile]:
        """The video files that the metadata names, each once, in a stable order."""
        ...

    def episodes(self) -> Iterator[EpisodeRef]:
        """The episodes, by number. A plan holds all of them: some hundred bytes each."""
        ...

    def read(self, refs: Sequence[EpisodeRef]) -> Iterator[EpisodeData | BadEpisode]:
        """Read episodes, in the order asked. A file that several of them share is opened once.

        Holds one episode in memory, and what its format cannot read in parts.

        Raises:
            StoreError: the store refused or did not answer.
        """
        ...
