"""What things cost in tokens: a frame, a task's text, a second of audio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from datalake.errors import InputError, nearest
from datalake.packing.layout import Block, Layout, Modality, Span
from datalake.recording import Feature

__all__ = ["Characters", "TokenCosts"]

_BOOKKEEPING: Final = ("next.", "index", "timestamp")


@dataclass(frozen=True)
class Characters:
    """A text's tokens by its characters, `each` to a token, rounded up: a rule of thumb."""

    each: float = 4.0

    def __call__(self, text: str) -> int:
        """Tokens of a text."""
        return ceil(len(text) / self.each)


@dataclass(frozen=True)
class TokenCosts:
    """Tokens by kind of thing. A cost of 0 leaves a thing out of the sequence.

    Raises:
        InputError: a cost is negative.
    """

    state: int = 1
    """Of a frame's state: each feature whose name begins with `observation.` and holds numbers."""
    action: int = 1
    """Of a frame's action: each feature named `action` or `action.…`."""
    other: int = 0
    """Of each other feature of numbers."""
    image: int = 256
    """Of a picture, also of a frame of a camera's video; see `patch` and `cameras`."""
    patch: int | None = None
    """If given, a picture costs a token a patch of so many pixels square, edges rounded up."""
    cameras: Mapping[str, int] = field(default_factory=dict)
    """Of a picture of a camera, by the feature's name; goes before `image` and `patch`."""
    text: Callable[[str], int] = field(default_factory=Characters)
    """Of a text, such as an episode's task: a tokenizer's length function."""
    audio_s: float = 25.0
    """Of a second of audio; rounded up for an utterance."""
    video_frame: int = 256
    """Of a frame of a video that is an item of its own."""

    def __post_init__(self) -> None:
        costs: dict[str, float] = {
            name: getattr(self, name)
            for name in ("state", "action", "other", "image", "audio_s", "video_frame")
        }
        costs.update(self.cameras)
        for name, cost in costs.items():
            if not cost >= 0:
                raise InputError(
                    f"The cost {name} is out of range", expected="0 or more", found=str(cost)
                )
        if self.patch is not None and self.patch < 1:
            raise InputError(
                "The cost patch is out of range", expected="1 pixel or more", found=str(self.patch)
            )

    def of_image(self, feature: Feature) -> int:
        """Tokens of a picture of a camera; its shape is (height, width, channels).

        Raises:
            InputError: pictures cost by patches, and the feature does not say how large it is.
        """
        if feature.name in self.cameras:
            return self.cameras[feature.name]
        if self.patch is None:
            return self.image
        if len(feature.shape) != 3:
            raise InputError(
                f"The size of the pictures of {feature.name} is not known",
                expected="a shape (height, width, channels)",
                found=str(feature.shape),
                fix=f"Give the camera a cost of its own: {feature.name}=TOKENS",
            )
        height, width, _ = feature.shape
        return ceil(height / self.patch) * ceil(width / self.patch)

    def of_text(self, text: str | None) -> int:
        """Tokens of a text; none without one."""
        return self.text(text) if text else 0

    def of_audio(self, duration_s: float) -> int:
        """Tokens of an utterance."""
        return ceil(duration_s * self.audio_s)

    def of_video(self, num_frames: int) -> int:
        """Tokens of a video that is an item of its own."""
        return num_frames * self.video_frame

    def span(self, feature: Feature) -> Span:
        """The tokens that a feature adds to a frame."""
        if feature.dtype in {"image", "video"}:
            return Span(Modality.IMAGE, self.of_image(feature))
        if not feature.is_numeric:
            return Span(Modality.TEXT, 0)
        if feature.name == "action" or feature.name.startswith("action."):
            return Span(Modality.ACTION, self.action)
        if feature.name.startswith("observation."):
            return Span(Modality.STATE, self.state)
        return Span(Modality.OTHER, self.other)

    def of_episode(self, features: Iterable[Feature]) -> Layout:
        """A whole episode: text, then each frame's pictures, state, the rest and its action.

        Raises:
            InputError: a camera has a cost and the episode has no such camera.
        """
        seen, acted = self._of_frame(features)
        return Layout((Block((*seen, *acted)),))

    def of_window(self, features: Iterable[Feature], *, history: int, chunk: int) -> Layout:
        """A window: text, `history` frames and the current one as seen, then `chunk` actions."""
        seen, acted = self._of_frame(features)
        return Layout((Block(seen, history + 1), Block(acted, chunk)))

    def check_cameras(self, features: Iterable[Feature]) -> None:
        """See that each camera that has a cost is there.

        Raises:
            NotFoundError: one is not (names the nearest).
        """
        known = [feature.name for feature in features if feature.dtype in {"image", "video"}]
        for camera in self.cameras:
            if camera not in known:
                raise InputError(
                    f"There is no camera {camera!r} to have a cost", fix=nearest(camera, known)
                )

    def _of_frame(self, features: Iterable[Feature]) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """What is seen, and what is done, of a frame; in the order of the features."""
        spans = [span for span in map(self.span, features) if span.num_tokens]
        order = {Modality.IMAGE: 0, Modality.STATE: 1, Modality.OTHER: 2}
        seen = sorted(
            (span for span in spans if span.modality is not Modality.ACTION),
            key=lambda span: order[span.modality],
        )
        return tuple(seen), tuple(span for span in spans if span.modality is Modality.ACTION)
