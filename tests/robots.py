"""Small episode sets, made from numbers: an arm that waits, sways and waits again.

    g1 = write_robots(lake)  # five episodes, two embodiments, pictures and video
    write_robots(lake, "g2", source="b", video=False, dim=4)

Everything follows from the arguments, so a test can make an episode's frames again
(`robot_frames`) and compare. Episodes 0 and 1 share a video file, and each other one has its own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import av
import numpy as np
import pyarrow as pa

from datalake.episodes import EPISODES, VIDEOS, EpisodeSet, create_episodes, frames_schema
from datalake.lake import Lake, Lineage
from datalake.recording import Feature

FPS = 10.0
LENGTHS = (12, 7, 20, 9, 15)
TASKS = ("pick the cube", "open the drawer")
EMBODIMENTS = ("arm", "humanoid")
CAMERA = "observation.images.front"
WRIST = "observation.images.wrist"
SIZE = (32, 24)  # width, height


def robot_features(*, dim: int = 3, image: bool = True, video: bool = True) -> tuple[Feature, ...]:
    """The features of a set: state and action vectors, a reward, a flag, a text, and cameras."""
    joints = tuple(f"joint_{i}" for i in range(dim))
    width, height = SIZE
    picture = (height, width, 3)
    axes = ("height", "width", "channels")
    return (
        Feature("observation.state", "float32", (dim,), joints, "rad"),
        Feature("action", "float32", (dim,), joints, "rad"),
        Feature("next.reward", "float32", (1,)),
        Feature("next.done", "bool", (1,)),
        Feature("note", "string", (1,)),
        *([Feature(WRIST, "image", picture, axes)] if image else []),
        *([Feature(CAMERA, "video", picture, axes)] if video else []),
    )


def robot_frames(
    number: int,
    length: int,
    *,
    source: str = "robots",
    dim: int = 3,
    image: bool = True,
    idle: tuple[int, int] = (0, 0),
    fps: float = FPS,
    seed: int = 0,
) -> pa.Table:
    """The frames of one episode as they are stored; `idle` at the head and the tail."""
    rng = np.random.default_rng([seed, number])
    head, tail = idle
    moving = np.clip(np.arange(length) - head, 0, max(0, length - head - tail - 1))
    phase = rng.uniform(0, 2 * np.pi, dim)
    state = np.sin(0.4 * moving[:, None] + phase).astype("float32")
    # The command is where the arm will be next.
    action = np.vstack([state[1:], state[-1:]])
    columns: dict[str, Any] = {
        "episode_id": [f"{source}/{number:06d}"] * length,
        "frame_index": np.arange(length),
        # In float32, as LeRobot has them.
        "timestamp": (np.arange(length) / fps).astype("float32").astype("float64"),
        "task_index": np.full(length, number % len(TASKS)),
        "observation/state": _vectors(state),
        "action": _vectors(action),
        "next/reward": np.linspace(0, 1, length, dtype="float32"),
        "next/done": np.arange(length) == length - 1,
        "note": [f"frame {i} of {number} ✓" for i in range(length)],
    }
    if image:
        columns["observation/images/wrist"] = [_png(number, i) for i in range(length)]
    features = robot_features(dim=dim, image=image)
    return pa.table(columns, schema=frames_schema(features))


def write_robots(
    lake: Lake,
    name: str = "g1",
    *,
    source: str = "robots",
    lengths: Sequence[int] = LENGTHS,
    dim: int = 3,
    image: bool = True,
    video: bool = True,
    idle: tuple[int, int] = (0, 0),
    fps: float = FPS,
    seed: int = 0,
    embodiments: Sequence[str] = EMBODIMENTS,
    tasks: Sequence[str] = TASKS,
    format: str = "lance",  # noqa: A002
) -> EpisodeSet:
    """Create an episode set of these lengths and fill it in one version.

    The features of the two embodiments are the same; a set of another `dim` has others.
    """
    lineage = Lineage("test")
    features = robot_features(dim=dim, image=image, video=video)
    made = create_episodes(lake, name, features, format=format, lineage=lineage)
    frames = pa.concat_tables(
        [made.frames.schema.empty_table()]
        + [
            robot_frames(
                number, length, source=source, dim=dim, image=image, idle=idle, fps=fps, seed=seed
            )
            for number, length in enumerate(lengths)
        ]
    )
    files, spans = robot_videos(lengths, source=source, fps=fps) if video else ([], {})
    rows = []
    for number, length in enumerate(lengths):
        embodiment, task = embodiments[number % len(embodiments)], number % len(TASKS)
        rows.append(
            {
                **dict.fromkeys(EPISODES.names),
                "episode_id": f"{source}/{number:06d}",
                "source": source,
                "episode_index": number,
                "embodiment": embodiment,
                "task": tasks[task],
                "domain": f"{source}/{embodiment}/{tasks[task]}",
                "fps": fps,
                "length": length,
                "duration_s": length / fps,
                "tasks": [{"task_index": task, "task": tasks[task]}],
                "features": [feature.as_row() for feature in features],
                "stats": [],
                "videos": spans.get(number, []),
                "success": number % 3 != 2,
                "metadata": json.dumps({"operator": "ada", "number": number}),
                "origin": f"data/chunk-000/episode_{number:06d}.parquet",
                "stamp": f"{seed}-{number}",
            }
        )
    pieces = made.episodes.stager().write(pa.Table.from_pylist(rows, schema=EPISODES))
    return made.publish(
        pieces,
        frames=made.frames.append(frames),
        videos=made.videos.append(pa.Table.from_pylist(files, schema=VIDEOS)),
        lineage=lineage,
    )


def robot_videos(
    lengths: Sequence[int], *, source: str = "robots", fps: float = FPS
) -> tuple[list[dict[str, Any]], dict[int, list[dict[str, Any]]]]:
    """Rows of the videos table, and the spans of each episode."""
    groups = [numbers for numbers in ([0, 1], *([n] for n in range(2, len(lengths)))) if lengths]
    files: list[dict[str, Any]] = []
    spans: dict[int, list[dict[str, Any]]] = {}
    for group in groups:
        present = [number for number in group if number < len(lengths)]
        path = f"videos/{CAMERA}/chunk-000/file-{len(files):03d}"
        encoded = clip(sum(lengths[number] for number in present), fps=fps, seed=len(files))
        files.append(video_row(encoded, f"{source}/{path}", source, CAMERA, f"{path}.mp4", fps))
        start = 0
        for number in present:
            stop = start + lengths[number]
            spans[number] = [
                {
                    "feature": CAMERA,
                    "video_id": f"{source}/{path}",
                    "from_s": start / fps,
                    "to_s": stop / fps,
                }
            ]
            start = stop
    return files, spans


def video_row(
    encoded: bytes, video_id: str, source: str, feature: str, path: str, fps: float
) -> dict[str, Any]:
    """A row of the videos table, read from the packets by a few lines of its own."""
    with av.open(io.BytesIO(encoded)) as container:
        stream = container.streams.video[0]
        packets = [packet for packet in container.demux(stream) if packet.pts is not None]
        pts = sorted(packet.pts for packet in packets)
        keys = sorted((pts.index(p.pts), p.pos) for p in packets if p.is_keyframe)
        return {
            "video_id": video_id,
            "source": source,
            "feature": feature,
            "path": path,
            "stamp": f"stamp of {path}",
            "num_bytes": len(encoded),
            "codec": stream.codec_context.name,
            "pix_fmt": stream.codec_context.pix_fmt,
            "width": stream.codec_context.width,
            "height": stream.codec_context.height,
            "fps": fps,
            "num_frames": len(pts),
            "duration_s": float(stream.duration * stream.time_base),
            "time_base_num": stream.time_base.numerator,
            "time_base_den": stream.time_base.denominator,
            "frame_pts": pts,
            "keyframes": [number for number, _ in keys],
            "keyframe_offsets": [position for _, position in keys],
            "video": encoded,
        }


def clip_frames(num_frames: int, *, size: tuple[int, int] = SIZE, seed: int = 0) -> np.ndarray:
    """RGB frames that differ from each other: a bright bar that wanders; uint8 (n, h, w, 3)."""
    width, height = size
    frames = np.full((num_frames, height, width, 3), 16, np.uint8)
    for number in range(num_frames):
        left = (3 * number + 5 * seed) % width
        frames[number, :, left : left + 4] = (255, 40 * (number % 6), 10 * (seed % 20))
    return frames


def clip(
    num_frames: int,
    *,
    fps: float = FPS,
    size: tuple[int, int] = SIZE,
    seed: int = 0,
    codec: str = "libx264",
    gop: int = 5,
) -> bytes:
    """An MP4 of `clip_frames`; H.264 with a keyframe every `gop` frames."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream: Any = container.add_stream(codec, rate=round(fps))
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.gop_size = gop
        stream.options = {"crf": "18"}
        for pixels in clip_frames(num_frames, size=size, seed=seed):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


def _vectors(values: np.ndarray) -> pa.FixedSizeListArray:
    item = pa.array(values.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(item, values.shape[1])


def _png(number: int, frame: int) -> bytes:
    """A picture of 4 by 3 pixels whose bytes no other frame has."""
    from PIL import Image

    pixels = np.full((3, 4, 3), (number * 16 % 256, frame * 5 % 256, 128), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()
