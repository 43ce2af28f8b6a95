"""Which topics are cameras, and what they are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from connectors.encoded_pictures import encoded_shape
from connectors.mcap.pictures import COMPRESSED
from connectors.mcap.plan import Camera
from connectors.mcap.sampling import Sample
from connectors.pictures import AXES
from datalake.errors import ConfigError, nearest
from datalake.recording import Feature

__all__ = ["find_cameras"]

# Parts of a topic that do not tell cameras apart.
_PLAIN_PARTS: Final = frozenset(
    {
        *("image", "images", "image_raw", "image_color", "image_rect", "image_rect_color"),
        *("compressed", "compresseddepth", "color", "rgb", "camera", "cameras", "sensors"),
    }
)


def find_cameras(
    samples: Mapping[str, Sample],
    options: Mapping[str, str],
    left_out: dict[str, str],
    notes: list[str],
) -> Iterator[Camera]:
    """The cameras that options name; without any all topics that hold pictures.

    Args:
        samples: the recording's topics.
        options: of the connector; `camera.<name>` gives a topic.
        left_out: gets why a topic of pictures is no camera.
        notes: gets what was chosen that no option says.

    Raises:
        ConfigError: an option names a topic that there is not, or that holds no pictures.
    """
    asked = {
        option.partition(".")[2]: topic.strip()
        for option, topic in options.items()
        if option.startswith("camera.")
    }
    if asked:
        for name, topic in asked.items():
            sample = samples.get(topic)
            if sample is None:
                raise ConfigError(f"There is no topic {topic!r}", fix=nearest(topic, samples))
            if sample.fault or sample.picture is None:
                raise ConfigError(
                    f"The topic {topic} is no camera", found=sample.fault or sample.channel.type
                )
            yield _camera(name, topic, sample, left_out)
        return
    found: dict[str, list[str]] = {}
    for topic, sample in sorted(samples.items()):
        if sample.is_camera and not sample.fault and sample.is_steady:
            found.setdefault(_camera_name(topic), []).append(topic)
    for name, topics in found.items():
        # A camera that is published in several ways is taken once, as it was compressed.
        best = min(
            topics, key=lambda topic: (samples[topic].channel.short_type not in COMPRESSED, topic)
        )
        left_out |= {topic: f"{best} is the same camera" for topic in topics if topic != best}
        camera = _camera(name, best, samples[best], left_out)
        if camera.feature.shape != (1, 1, 3):
            notes.append(f"{camera.feature.name} is {best} (option camera.{name})")
            yield camera


def _camera(name: str, topic: str, sample: Sample, left_out: dict[str, str]) -> Camera:
    shape = encoded_shape(sample.picture or b"")
    if shape is None:
        left_out[topic] = "its pictures cannot be recognised"
    info = {"topic": topic, "type": sample.channel.type}
    feature = Feature(f"observation.images.{name}", "image", shape or (1, 1, 3), AXES, info=info)
    return Camera(feature, topic)


def _camera_name(topic: str) -> str:
    parts = [part for part in topic.strip("/").split("/") if part]
    kept = [part for part in parts if part.lower() not in _PLAIN_PARTS]
    depth = (
        ["depth"] if "depth" in topic.lower() and not any("depth" in part for part in kept) else []
    )
    return "_".join([*(kept or parts[:1]), *depth]) or "camera"
