"""A small corpus with a manifest, made from numbers: harmonic voices, and spoofs that buzz."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import soundfile

RATE_HZ = 16_000
DOMAINS = (
    # source, generator, rows
    ("studio", None, 24),
    ("phone", None, 12),
    ("studio", "vocoder-a", 40),
    ("studio", "vocoder-b", 8),
    ("phone", "vocoder-a", 6),
    ("phone", "vocoder-c", 4),
)


def voice(rng: np.random.Generator, generator: str | None, duration_s: float) -> np.ndarray:
    """A gliding harmonic tone with noise; a spoof has a fixed pitch and a comb of its own."""
    time = np.arange(int(duration_s * RATE_HZ)) / RATE_HZ
    pitch = rng.uniform(90, 220) * (
        1 + (0.05 * np.sin(2 * np.pi * 3 * time) if not generator else 0)
    )
    phase = 2 * np.pi * np.cumsum(np.broadcast_to(pitch, time.shape)) / RATE_HZ
    wave = sum(np.sin(k * phase) / k for k in range(1, 12))
    wave = wave + rng.normal(0, 0.1, time.shape)
    if generator:
        delay = 20 + 10 * (ord(generator[-1]) - ord("a"))
        wave[delay:] += 0.8 * wave[:-delay]
    return (0.2 * wave / np.abs(wave).max()).astype("float32")


def write_speech(root: Path, *, seed: int = 0) -> Path:
    """Write `manifest.csv` and 94 short files below `root`; the same bytes on every run."""
    rng = np.random.default_rng(seed)
    root.mkdir(parents=True, exist_ok=True)
    with (root / "manifest.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "source", "generator", "label", "speaker"])
        for source, generator, count in DOMAINS:
            for index in range(count):
                suffix = "flac" if index % 3 else "wav"
                name = f"{source}/{generator or 'bonafide'}_{index:03d}.{suffix}"
                (root / source).mkdir(exist_ok=True)
                wave = voice(rng, generator, rng.uniform(0.5, 1.5))
                soundfile.write(root / name, wave, RATE_HZ, subtype="PCM_16")
                label = "spoof" if generator else "bonafide"
                rows.writerow([name, source, generator or "", label, f"spk{index % 5}"])
    return root
