"""The data that everybody stores and streams, as flat files from which each copy is written.

audio     20,000 clips of 16-bit speech-like sound at 16 kHz, .9 to 8 s, mean 3.1 s, 2.0 GB
frames    120 episodes, 24,175 frames: state (14), action (14), two JPEGs of 224 x 224, .6 GB
records   20,000 records of 64 kB, ordered by 20 blocks, 1.3 GB
"""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["CHUNK", "CROP", "DATASETS", "RATE_HZ", "SIDE", "Audio", "Frames", "Records", "opened"]

DATASETS: Final = ("audio", "frames", "records")
RATE_HZ: Final = 16_000
CROP: Final = 64_600
CHUNK: Final = 16
SIDE: Final = 224

_NUM_CLIPS: Final = 20_000
_NUM_EPISODES: Final = 120
_NUM_RECORDS: Final = 20_000
_RECORD_BYTES: Final = 64_000
_SYSTEMS: Final = (
    *("bonafide", "vits", "hifigan", "xtts", "bark", "tortoise", "wavenet", "melgan"),
)
_TASKS: Final = [
    f"pick up the {colour} {thing} and place it on the tray"
    for colour in ("red", "green", "blue", "white")
    for thing in ("cube", "mug", "sponge", "block", "bowl")
]


def opened(folder: Path, dataset: str) -> Audio | Frames | Records:
    """A dataset, made on the first use."""
    kind = {"audio": Audio, "frames": Frames, "records": Records}[dataset]
    if not (folder / f"{dataset}.npz").exists():
        folder.mkdir(parents=True, exist_ok=True)
        kind.make(folder)
    return kind(folder)


class Audio:
    """Clips of 16-bit samples."""

    NUM_BLOCKS: Final = 400

    def __init__(self, folder: Path) -> None:
        index = np.load(folder / "audio.npz")
        self.starts, self.system, self.label = index["off"], index["gen"], index["label"]
        self.samples = np.memmap(folder / "audio.bin", "<i2", "r")

    def __len__(self) -> int:
        return len(self.label)

    @staticmethod
    def make(folder: Path, num_clips: int = _NUM_CLIPS) -> None:
        """Write it."""
        rng = np.random.default_rng(0)
        lengths_s = np.clip(rng.lognormal(np.log(2.85), 0.42, num_clips), 0.9, 8.0)
        lengths = (lengths_s * RATE_HZ).astype(np.int64)
        system = rng.integers(0, len(_SYSTEMS), num_clips)
        noise = rng.standard_normal(1 << 20).astype(np.float32)
        spectrum = np.fft.rfft(noise)
        spectrum *= 1 / (0.05 + np.linspace(0, 1, spectrum.size))
        pink = np.fft.irfft(spectrum).astype(np.float32)
        pink /= pink.std()
        with (folder / "audio.bin").open("wb", buffering=1 << 24) as file:
            for length in lengths.tolist():
                start = int(rng.integers(0, len(pink) - length))
                time_s = np.arange(length, dtype=np.float32) / RATE_HZ
                pitch_hz = float(rng.uniform(80, 260))
                envelope = 0.6 + 0.4 * np.sin(2 * np.pi * 3 * time_s)
                sound = pink[start : start + length] * 1500
                sound += 6000 * np.sin(2 * np.pi * pitch_hz * time_s) * envelope
                sound += 2500 * np.sin(2 * np.pi * 3.1 * pitch_hz * time_s)
                file.write(np.clip(sound, -32768, 32767).astype("<i2").tobytes())
        starts = np.concatenate([[0], np.cumsum(lengths)])
        np.savez(folder / "audio.npz", off=starts, gen=system, label=(system > 0).astype(np.int64))

    def clip(self, row: int) -> npt.NDArray[np.int16]:
        """A row's samples, mapped."""
        return self.samples[self.starts[row] : self.starts[row + 1]]

    def record(self, row: int) -> dict[str, Any]:
        """A row as the peers store it."""
        return {
            "idx": row,
            "id": f"utt_{row:06d}",
            "label": int(self.label[row]),
            "generator": _SYSTEMS[self.system[row]],
            "audio": self.clip(row).tobytes(),
        }

    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each row's payload."""
        return np.diff(self.starts) * 2

    def block_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The block, of those that shuffles are judged by, that each row lies in."""
        return rows * self.NUM_BLOCKS // len(self)


class Frames:
    """Frames of robot episodes, with a chunk of future actions each."""

    NUM_BLOCKS: Final = _NUM_EPISODES

    def __init__(self, folder: Path) -> None:
        index = np.load(folder / "frames.npz")
        self.starts, self.state, self.action = index["off"], index["state"], index["action"]
        self.episode, self.episode_starts = index["ep"], index["ep_start"]
        self.pictures = np.memmap(folder / "jpg.bin", np.uint8, "r")

    def __len__(self) -> int:
        return len(self.episode)

    @staticmethod
    def make(folder: Path) -> None:
        """Write it."""
        from PIL import Image

        rng = np.random.default_rng(1)
        lengths = rng.integers(150, 251, _NUM_EPISODES)
        episode_starts = np.concatenate([[0], np.cumsum(lengths)])
        num_frames = int(episode_starts[-1])
        state = np.zeros((num_frames, 14), np.float32)
        action = np.zeros((num_frames, 14), np.float32)
        for begin, end in itertools.pairwise(episode_starts):
            steps = rng.standard_normal((end - begin + 1, 14)).astype(np.float32) * 0.02
            walk = np.cumsum(steps, 0)
            state[begin:end], action[begin:end] = walk[:-1], walk[1:]
        ends = [0]
        with (folder / "jpg.bin").open("wb", buffering=1 << 24) as file:
            for length in lengths.tolist():
                scenes = []
                for _ in range(2):
                    coarse = rng.integers(0, 256, (22, 22, 3), dtype=np.uint8)
                    scene = Image.fromarray(coarse).resize((480, 480), Image.BICUBIC)
                    rough = rng.integers(-11, 12, (480, 480, 3), dtype=np.int16)
                    scenes.append(np.clip(np.asarray(scene) + rough, 0, 255).astype(np.uint8))
                phase = rng.uniform(0, 6.28, 4)
                for step in range(length):
                    for camera, scene in enumerate(scenes):
                        top = int(128 + 120 * np.sin(step / 37 + phase[2 * camera]))
                        left = int(128 + 120 * np.cos(step / 29 + phase[2 * camera + 1]))
                        encoded = io.BytesIO()
                        view = scene[top : top + SIDE, left : left + SIDE]
                        Image.fromarray(view).save(encoded, "JPEG", quality=85)
                        file.write(encoded.getvalue())
                        ends.append(ends[-1] + len(encoded.getvalue()))
        episode = np.repeat(np.arange(_NUM_EPISODES), lengths)
        np.savez(
            folder / "frames.npz",
            off=np.array(ends),
            state=state,
            action=action,
            ep=episode,
            ep_start=episode_starts,
        )

    def chunk(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The next actions of each row, clamped within the episode, (n, CHUNK, 14)."""
        last = self.episode_starts[self.episode[rows] + 1] - 1
        return self.action[np.minimum(rows[:, None] + np.arange(CHUNK), last[:, None])]

    def jpegs(self, row: int) -> tuple[bytes, bytes]:
        """The two encoded pictures."""
        a, b, c = self.starts[2 * row : 2 * row + 3]
        return self.pictures[a:b].tobytes(), self.pictures[b:c].tobytes()

    def task(self, row: int) -> str:
        """What the episode is about."""
        return _TASKS[int(self.episode[row]) % len(_TASKS)]

    def record(self, row: int) -> dict[str, Any]:
        """A row as the peers store it, which cannot make windows: with its actions to come."""
        first, second = self.jpegs(row)
        return {
            "idx": row,
            "episode": int(self.episode[row]),
            "frame": int(row - self.episode_starts[self.episode[row]]),
            "task": self.task(row),
            "state": np.ascontiguousarray(self.state[row]),
            "action": self.chunk(np.array([row]))[0],
            "cam0": first,
            "cam1": second,
        }

    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each row's payload."""
        return self.starts[2::2] - self.starts[:-2:2] + 14 * 4 * (1 + CHUNK)

    def block_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The episode of each row."""
        return self.episode[rows]


class Records:
    """Records of one size."""

    NUM_BLOCKS: Final = 20

    def __init__(self, folder: Path) -> None:
        self.label = np.load(folder / "records.npz")["label"]
        self.data = np.memmap(folder / "records.bin", "<i2", "r").reshape(len(self.label), -1)

    def __len__(self) -> int:
        return len(self.label)

    @staticmethod
    def make(folder: Path) -> None:
        """Write it."""
        rng = np.random.default_rng(2)
        with (folder / "records.bin").open("wb", buffering=1 << 24) as file:
            for _ in range(_NUM_RECORDS):
                file.write(rng.integers(-3000, 3000, _RECORD_BYTES // 2, dtype=np.int16).tobytes())
        np.savez(folder / "records.npz", label=np.arange(_NUM_RECORDS) * 20 // _NUM_RECORDS)

    def record(self, row: int) -> dict[str, Any]:
        """A row as the peers store it."""
        return {
            "idx": row,
            "id": f"rec_{row:06d}",
            "label": int(self.label[row]),
            "data": self.data[row].tobytes(),
        }

    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each row's payload."""
        return np.full(len(self), _RECORD_BYTES)

    def block_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The block, of those that shuffles are judged by, that each row lies in."""
        return self.label[rows]
