"""Small real corpora, made as the tests need them: a manifest and WAV files."""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile

from datalake.lake import Lake
from datalake.tables import Table

RATE_HZ = 16_000


def wav(seed: int, num_samples: int = 400, subtype: str = "PCM_16") -> bytes:
    """A mono WAV file of noise that is the same on every run."""
    samples = np.random.default_rng(seed).uniform(-0.5, 0.5, num_samples).astype(np.float32)
    target = io.BytesIO()
    soundfile.write(target, samples, RATE_HZ, format="WAV", subtype=subtype)
    return target.getvalue()


@dataclass
class ManifestCorpus:
    """A folder with `manifest.csv` and the files it names. `write` makes it so on disk."""

    root: Path
    rows: list[dict[str, str]] = field(default_factory=list)

    def add(self, name: str, data: bytes | None, **columns: str) -> None:
        """Add a row, and its file unless `data` is None."""
        row = {"path": f"{name}", "id": name, "label": "bonafide", **columns}
        self.rows.append(row)
        if data is not None:
            self.put(name, data)

    def put(self, name: str, data: bytes) -> None:
        """Write a file, new or over an old one."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def fill(self, num_rows: int, *, start: int = 0) -> None:
        """Add good rows, bona fide and spoof by turns."""
        for i in range(start, start + num_rows):
            spoof = {"label": "spoof", "generator": f"g{i % 3}"} if i % 2 else {}
            self.add(f"clips/{i:04d}.wav", wav(i), speaker=f"s{i % 5}", **spoof)

    def write(self) -> None:
        """Write the manifest."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "manifest.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, names, restval="")
            writer.writeheader()
            writer.writerows(self.rows)


def rows_of(table: Table) -> list[dict[str, object]]:
    """All rows, all columns, in the order of their ids."""
    return sorted(table.scan().read_all().to_pylist(), key=lambda row: str(row["utt_id"]))


def quarantined(lake: Lake, name: str = "corpus") -> list[tuple[str, str, str]]:
    """(path, reason, detail) of the quarantine table of a table, sorted."""
    if f"{name}.quarantine" not in lake:
        return []
    rows = lake[f"{name}.quarantine"].scan(["path", "reason", "detail"]).read_all().to_pylist()
    return sorted((row["path"], row["reason"], row["detail"]) for row in rows)


def sha256(data: bytes) -> str:
    """Of the bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
