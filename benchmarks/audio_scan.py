"""A scan of audio files for duration, level and silence, beside Data-Juicer's duration filter.

    python benchmarks/audio_scan.py [--files 20000] [--peer-python PYTHON] [--peer-files 2000]
                                    [--json FILE]

Files are 16-bit WAV of 1 to 8 seconds at 16 kHz, on disk. Ours reads each file, decodes it and
measures five columns, in one process and in two. The peer, in an environment of its own that has
`py-data-juicer`, filters by duration alone with two processes; the time is that of the operator,
without the imports. First both filter the same files, 2 to 6 seconds, and must keep the same ones.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import soundfile

from curation.quality.audio import measure
from datalake.audio import decode

RATE_HZ = 16_000
DISTINCT = 2_000
COLUMNS = ("duration_s", "peak_dbfs", "rms_dbfs", "leading_silence_s", "trailing_silence_s")
KEPT_S = (2.0, 6.0)

PEER = """
import json, sys, time
from data_juicer.core.data import NestedDataset
from data_juicer.ops.filter.audio_duration_filter import AudioDurationFilter

paths = json.load(open(sys.argv[1]))
rows = NestedDataset.from_list([{"audios": [path]} for path in paths])
op = AudioDurationFilter(min_duration=float(sys.argv[2]), max_duration=float(sys.argv[3]))
op.num_proc = 2
began = time.perf_counter()
kept = op.run(rows)
seconds = time.perf_counter() - began
found = {"seconds": seconds, "kept": [row["audios"][0] for row in kept]}
json.dump(found, open(sys.argv[4], "w"))
"""


def write_files(folder: Path, num_files: int) -> list[Path]:
    """Bursts of noise between pauses; beyond the first 2,000, links to the same contents."""
    rng = np.random.default_rng(0)
    paths = []
    for number in range(num_files):
        path = folder / f"{number:06d}.wav"
        if number < DISTINCT:
            # Lengths stay away from the filter's bounds, which codecs round differently.
            wave = rng.normal(0, 0.1, round(rng.uniform(1, 8) * 10) * RATE_HZ // 10 + 333)
            wave[: rng.integers(0, RATE_HZ // 2)] = 0
            soundfile.write(path, wave.clip(-1, 1), RATE_HZ, subtype="PCM_16")
        else:
            os.link(paths[number % DISTINCT], path)
        paths.append(path)
    return paths


def scan(paths: list[Path]) -> pa.Table:
    """Our measures of these files, in order."""
    found = [measure(*decode(path.read_bytes(), mono=False), COLUMNS) for path in paths]
    return pa.Table.from_pylist(found)


def scan_in_two(paths: list[Path]) -> pa.Table:
    half = len(paths) // 2
    with ProcessPoolExecutor(2) as pool:
        return pa.concat_tables(pool.map(scan, [paths[:half], paths[half:]]))


def peer(python: str, paths: list[Path], folder: Path) -> tuple[float, list[str]]:
    (folder / "peer.py").write_text(PEER)
    (folder / "paths.json").write_text(json.dumps([str(path) for path in paths]))
    arguments = ["paths.json", str(KEPT_S[0]), str(KEPT_S[1]), "found.json"]
    subprocess.run(
        [python, "peer.py", *arguments], cwd=folder, check=True, stderr=subprocess.DEVNULL
    )
    found = json.loads((folder / "found.json").read_text())
    return found["seconds"], found["kept"]


def kept(paths: list[Path], durations: pa.ChunkedArray) -> list[str]:
    low, high = KEPT_S
    pairs = zip(paths, durations.to_pylist(), strict=True)
    return [str(path) for path, duration in pairs if low <= duration <= high]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--peer-python", help="of an environment with py-data-juicer")
    parser.add_argument("--peer-files", type=int, default=2_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, object] = {"files": options.files, "columns": COLUMNS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_files(folder, options.files)
        scan(paths[:64])
        for label, way in (("one process", scan), ("two processes", scan_in_two)):
            began, cpu = time.perf_counter(), time.process_time()
            found = way(paths)
            seconds = time.perf_counter() - began
            results[label] = {"seconds": seconds, "files_per_s": len(paths) / seconds}
            used = f", {len(paths) / (time.process_time() - cpu):,.0f} a CPU second"
            print(
                f"ours, {label}: {len(paths) / seconds:,.0f} files/s{used if way is scan else ''}"
            )
        if options.peer_python:
            some = paths[: options.peer_files]
            seconds, names = peer(options.peer_python, some, folder)
            equal = sorted(names) == sorted(kept(some, found["duration_s"].slice(0, len(some))))
            if not equal:
                raise SystemExit("The peer keeps other files than we do: no comparison.")
            rate = len(some) / seconds
            ours = len(paths) / results["two processes"]["seconds"]  # type: ignore[index]
            results["data-juicer"] = {"seconds": seconds, "files": len(some), "files_per_s": rate}
            results["ratio"] = ours / rate
            print(f"data-juicer, duration alone, two processes: {rate:,.1f} files/s")
            print(f"the same {len(names):,} of {len(some):,} files kept; ratio {ours / rate:,.0f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
