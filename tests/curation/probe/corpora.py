"""A table of real audio files that is trivially separable: bona fide hums, spoofs hiss."""

from __future__ import annotations

import hashlib
import io
import itertools

import numpy as np
import pyarrow as pa
import soundfile

from datalake import tables
from datalake.schema import BONAFIDE, SPOOF, UTTERANCES
from datalake.tables import Table
from datalake.uri import Location

RATE_HZ = 16_000
_NUMBERS = itertools.count()


def clip(seed: int, *, hums: bool, duration_s: float = 0.6) -> bytes:
    """A FLAC file: a harmonic tone with a little noise, or noise alone."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(duration_s * RATE_HZ)) / RATE_HZ
    noise = rng.standard_normal(len(time))
    pitch = rng.uniform(100, 250)
    tone = sum(np.sin(2 * np.pi * pitch * k * time) / k for k in range(1, 10))
    wave = tone + 0.02 * noise if hums else noise
    file = io.BytesIO()
    wave = 0.3 * wave / np.abs(wave).max()
    soundfile.write(file, wave.astype("float32"), RATE_HZ, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def row(
    index: int,
    generator: str | None,
    *,
    source: str = "studio",
    speaker: str | None = None,
    audio: bytes | None = None,
) -> dict[str, object]:
    """One utterance; `audio` None makes a clip of its own."""
    data = clip(index, hums=generator is None) if audio is None else audio
    return {
        "utt_id": f"{source}/{generator or 'human'}-{index}",
        "source": source,
        "generator": generator,
        "label": SPOOF if generator else BONAFIDE,
        "domain": f"{source}/{generator}" if generator else source,
        "speaker_id": speaker,
        "sha256": hashlib.sha256(data).hexdigest(),
        "audio": data,
    }


def table_of(rows: list[dict[str, object]]) -> Table:
    """A table in memory."""
    location = Location(f"memory://probe-{next(_NUMBERS)}")
    table = tables.create_table(location, UTTERANCES, format="memory")
    return table.append(pa.Table.from_pylist(rows, schema=UTTERANCES))


def separable(num_bonafide: int = 40, num_spoof: int = 20, *, first: int = 0) -> Table:
    """Bona fide of two sources, spoofs of two generators in the ratio 3 to 1."""
    rows = [
        row(first + index, None, source="studio" if index % 2 else "phone")
        for index in range(num_bonafide)
    ]
    rows += [row(first + index, "a") for index in range(num_spoof)]
    rows += [row(first + 500 + index, "b") for index in range(num_spoof // 3)]
    return table_of(rows)
