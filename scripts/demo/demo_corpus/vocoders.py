"""Generators that take a recording apart and put it together again: same speaker, same words."""

from __future__ import annotations

import os
import subprocess
from typing import Final

import numpy as np
from scipy.fft import irfft, rfft
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

from demo_corpus.channel import Samples, load
from demo_corpus.debian import Package, PackageFolder
from demo_corpus.prompts import Prompt

__all__ = ["CODEC2_PACKAGES", "Codec2", "GriffinLim", "LpcVocoder", "World"]

_RATE_HZ: Final = 16_000


class GriffinLim:
    """80 mel bands, inverted, with phases by Griffin and Lim's iteration (1984)."""

    _FFT, _HOP, _ITERATIONS = 1024, 256, 24

    def __init__(self) -> None:
        self._window = np.hanning(self._FFT).astype(np.float32)
        self._mel = _mel_filters(80, self._FFT, _RATE_HZ)
        self._inverse = np.linalg.pinv(self._mel).astype(np.float32)

    def make(self, prompt: Prompt) -> tuple[Samples, int]:
        """Re-synthesise the prompt's recording."""
        recording = load(prompt.recording, _RATE_HZ)
        magnitude = np.abs(self._analyse(recording)) @ self._mel.T @ self._inverse.T
        magnitude = np.maximum(magnitude, 0)
        rng = np.random.default_rng(prompt.seed)
        phase = np.exp(2j * np.pi * rng.random(magnitude.shape, np.float32))
        for _ in range(self._ITERATIONS):
            spectrum = self._analyse(self._join(magnitude * phase, len(recording)))
            phase = spectrum / np.maximum(np.abs(spectrum), 1e-8)
        return self._join(magnitude * phase, len(recording)), _RATE_HZ

    def _analyse(self, samples: Samples) -> np.ndarray:
        padded = np.pad(samples, self._FFT // 2)
        frames = np.lib.stride_tricks.sliding_window_view(padded, self._FFT)[:: self._HOP]
        spectrum: np.ndarray = rfft(frames * self._window, axis=1)
        return spectrum

    def _join(self, spectrum: np.ndarray, num_samples: int) -> Samples:
        frames = irfft(spectrum, axis=1).astype(np.float32) * self._window
        out = np.zeros((len(frames) - 1) * self._HOP + self._FFT, np.float32)
        weight = np.full_like(out, 1e-3)
        for index, frame in enumerate(frames):
            place = slice(index * self._HOP, index * self._HOP + self._FFT)
            out[place] += frame
            weight[place] += self._window**2
        whole = (out / weight)[self._FFT // 2 :][:num_samples]
        return np.pad(whole, (0, num_samples - len(whole)))


def _mel_filters(num_bands: int, fft_size: int, rate_hz: int) -> np.ndarray:
    """Triangles on the mel scale: (num_bands, fft_size / 2 + 1)."""
    top = 2595 * np.log10(1 + rate_hz / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, num_bands + 2) / 2595) - 1)
    bins = np.linspace(0, rate_hz / 2, fft_size // 2 + 1)
    low, peak, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return np.clip(np.minimum((bins - low) / (peak - low), (high - bins) / (high - peak)), 0, None)


class LpcVocoder:
    """Linear prediction: an all-pole filter a frame, driven by pulses where voiced, else noise."""

    _ORDER, _FRAME, _HOP = 18, 480, 160
    _LAGS = slice(_RATE_HZ // 350, _RATE_HZ // 70)
    _VOICED = 0.45

    def make(self, prompt: Prompt) -> tuple[Samples, int]:
        """Re-synthesise the prompt's recording."""
        samples = load(prompt.recording, _RATE_HZ)
        rng = np.random.default_rng(prompt.seed)
        frames = np.lib.stride_tricks.sliding_window_view(np.pad(samples, self._FRAME), self._FRAME)
        out = np.zeros(len(samples) + 2 * self._FRAME, np.float32)
        window = np.hanning(self._FRAME)
        next_pulse = 0.0
        memory = np.zeros(self._ORDER)
        for start in range(0, len(frames), self._HOP):
            frame = frames[start] * window
            correlation = irfft(np.abs(rfft(frame, 2 * self._FRAME)) ** 2)[: self._FRAME]
            correlation[0] += 1e-6
            order = slice(0, self._ORDER)
            taps = solve_toeplitz(correlation[order], correlation[1 : self._ORDER + 1])
            error = max(correlation[0] - taps @ correlation[1 : self._ORDER + 1], 1e-9)
            lag = self._LAGS.start + int(np.argmax(correlation[self._LAGS]))
            excitation = np.zeros(self._HOP)
            if correlation[lag] > self._VOICED * correlation[0]:
                while next_pulse < self._HOP:
                    excitation[int(next_pulse)] = np.sqrt(lag)
                    next_pulse += lag
                next_pulse -= self._HOP
            else:
                excitation = rng.standard_normal(self._HOP)
                next_pulse = 0.0
            gain = np.sqrt(error / np.sum(window**2))
            made, memory = lfilter([gain], [1.0, *-taps], excitation, zi=memory)
            out[start : start + self._HOP] += made.astype(np.float32)
        return out[self._FRAME // 2 :][: len(samples)], _RATE_HZ


class World:
    """WORLD: pitch, smooth envelope and aperiodicity, re-synthesised with a changed pitch."""

    def make(self, prompt: Prompt) -> tuple[Samples, int]:
        """Re-synthesise the prompt's recording, up to 3 semitones higher or lower."""
        import pyworld

        samples = load(prompt.recording, _RATE_HZ).astype(np.float64)
        coarse, times = pyworld.dio(samples, _RATE_HZ)
        pitch = pyworld.stonemask(samples, coarse, times, _RATE_HZ)
        envelope = pyworld.cheaptrick(samples, pitch, times, _RATE_HZ)
        aperiodicity = pyworld.d4c(samples, pitch, times, _RATE_HZ)
        shifted = pitch * 2 ** prompt.rng.uniform(-0.25, 0.25)
        made = pyworld.synthesize(shifted, envelope, aperiodicity, _RATE_HZ)
        return np.asarray(made, np.float32), _RATE_HZ


CODEC2_PACKAGES: Final = (Package(("codec2",)), Package(("libcodec2-1.0", "libcodec2-1.2")))


class Codec2:
    """Codec 2 at 1,300 bit/s: a sinusoidal speech coder for radio, 8 kHz."""

    _RATE_HZ: Final = 8000
    _MODE: Final = "1300"

    def __init__(self, packages: PackageFolder) -> None:
        self._programs = packages.path(CODEC2_PACKAGES[0]) / "usr/bin"
        self._environment = {**os.environ, "LD_LIBRARY_PATH": packages.libraries(CODEC2_PACKAGES)}

    def make(self, prompt: Prompt) -> tuple[Samples, int]:
        """Code and decode the prompt's recording."""
        samples = load(prompt.recording, self._RATE_HZ)
        pcm = (samples.clip(-1, 1) * 32767).astype("<i2").tobytes()
        made = self._pass("c2dec", self._pass("c2enc", pcm))
        return np.frombuffer(made, "<i2").astype(np.float32) / np.float32(32768), self._RATE_HZ

    def _pass(self, program: str, data: bytes) -> bytes:
        command = [str(self._programs / program), self._MODE, "-", "-"]
        return subprocess.run(
            command, input=data, stdout=subprocess.PIPE, check=True, env=self._environment
        ).stdout
