"""What becomes of a recording's topics: the plan of a dataset, made from options and one recording.

Every recording of a dataset is read by the same plan, so that all episodes have the same features.
"""

from __future__ import annotations

from dataclasses import dataclass

from datalake.recording import Feature

__all__ = ["Camera", "Plan", "Source", "Vector"]


@dataclass(frozen=True)
class Source:
    """Fields of a topic's messages, one after another."""

    topic: str
    fields: tuple[str, ...]
    joints: tuple[str, ...] = ()
    """The order of the joints where messages name them; empty where they do not."""
    parts: tuple[tuple[str, ...], ...] = ()
    """The joints, sorted, that messages bring in turn; empty where each message has all of them."""

    def __str__(self) -> str:
        return f"{self.topic}:{'+'.join(self.fields)}"


@dataclass(frozen=True)
class Vector:
    """A feature of numbers, or of one text, and where it comes from."""

    feature: Feature
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Camera:
    """A feature of pictures."""

    feature: Feature
    topic: str


@dataclass(frozen=True)
class Plan:
    """How recordings are read. Picklable.

    Its text is part of every episode's stamp, so it holds no sets: their order is another in each
    process.
    """

    fps: float
    reference: str
    """The topic that the grid is tied to."""
    vectors: tuple[Vector, ...]
    cameras: tuple[Camera, ...]
    main: tuple[str, ...]
    """Topics without which an episode is none: those of the state, the action and the cameras."""
    task: Source | None = None
    task_text: str | None = None
    clock: str = "log"
    rule: str = "hold"
    max_age_s: float = 0.5
    keep_gaps: bool = False
    salvage: bool = False

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of all episodes, by name."""
        found = [vector.feature for vector in self.vectors]
        found += [camera.feature for camera in self.cameras]
        return tuple(sorted(found, key=lambda feature: feature.name))

    @property
    def framed(self) -> frozenset[str]:
        """The topics of which every frame has a value: all that are read, but the task's."""
        sources = [source for vector in self.vectors for source in vector.sources]
        cameras = {camera.topic for camera in self.cameras}
        return frozenset({source.topic for source in sources} | cameras | {self.reference})

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are read."""
        return self.framed | ({self.task.topic} if self.task else frozenset())
