"""Ingest of one-second WAV files on Ray against a plain loop that does the same with Lance alone.

    python benchmarks/ingest.py --files 20000 --rounds 3
    python benchmarks/ingest.py --memory 20000 200000

All read each file, hash it, parse its header and write rows of the same schema, audio uncompressed,
to a new Lance table. The plain loop comes in two kinds: one appends a batch at a time; the other
hands Lance a stream, which uses a second core but commits nothing before the end. Ray is up before
the clock starts, its workers included; what that takes is printed apart. Rounds are interleaved.
With `--memory`, the peak of resident memory is measured for each number of files.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import soundfile

from datalake.lake import open_lake
from datalake.pipelines import RunReport, ingest
from datalake.pipelines.ray_executor import RayExecutor
from datalake.schema import is_media

RATE_HZ = 16_000
BATCH_ROWS = 1024


def make_files(folder: Path, num_files: int) -> None:
    """One-second WAV files of noise, the same on every run, a thousand a folder."""
    noise = np.random.default_rng(0).integers(-8000, 8000, 4 * RATE_HZ).astype(np.int16)
    for index in range(num_files):
        path = folder / ("real" if index % 2 else "fake/g1") / f"{index // 1000:03d}"
        path.mkdir(parents=True, exist_ok=True)
        start = (index * 7919) % (3 * RATE_HZ)
        soundfile.write(path / f"{index:06d}.wav", noise[start : start + RATE_HZ], RATE_HZ)


def plain_batches(folder: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as the obvious program makes them."""
    rows: list[dict[str, object]] = []
    for path in sorted(folder.rglob("*.wav")):
        data = path.read_bytes()
        info = soundfile.info(path)
        relative = path.relative_to(folder)
        label = "bonafide" if relative.parts[0] == "real" else "spoof"
        rows.append(
            {
                "utt_id": f"{folder.name}/{relative.with_suffix('')}",
                "source": folder.name,
                "generator": None if label == "bonafide" else relative.parts[1],
                "label": label,
                "domain": folder.name,
                "duration_s": info.frames / info.samplerate,
                "sample_rate_hz": info.samplerate,
                "num_channels": info.channels,
                "codec": info.subtype,
                "sha256": hashlib.sha256(data).hexdigest(),
                "audio": data,
                "path": str(relative),
            }
        )
        if len(rows) == BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema)


def plain_appends(folder: Path, target: Path, schema: pa.Schema) -> float:
    """The obvious program: read a batch, append it, and so on. Returns seconds."""
    import lance

    started = time.perf_counter()
    lance.write_dataset(schema.empty_table(), target, data_storage_version="2.2")
    for batch in plain_batches(folder, schema):
        lance.write_dataset(pa.Table.from_batches([batch]), target, mode="append")
    return time.perf_counter() - started


def plain_stream(folder: Path, target: Path, schema: pa.Schema) -> float:
    """A cleverer one: Lance's threads write while Python reads; no row is safe before the end."""
    import lance

    started = time.perf_counter()
    batches = plain_batches(folder, schema)
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    lance.write_dataset(reader, target, data_storage_version="2.2")
    return time.perf_counter() - started


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The table's schema, media uncompressed, as the lake stores it."""
    return pa.schema(
        [
            field.with_metadata({b"lance-encoding:compression": b"none"})
            if is_media(field)
            else field
            for field in schema
        ]
    )


def ours(folder: Path, target: Path, executor: RayExecutor) -> tuple[float, RunReport]:
    """The ingest into a new lake. Returns seconds, the plan included, and the report."""
    lake = open_lake(target)
    started = time.perf_counter()
    report = ingest(lake, folder, "corpus", connector="audio_folder", executor=executor)
    return time.perf_counter() - started, report


class PeakMemory:
    """Peak resident memory of this process and of the largest Ray worker, while the block runs."""

    def __init__(self) -> None:
        self.driver_bytes = 0
        self.worker_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._ended.wait(0.25):
            driver = me.memory_info().rss
            workers = 0
            for child in me.children(recursive=True):
                try:
                    if child.name().startswith("ray::"):
                        workers = max(workers, child.memory_info().rss)
                except psutil.Error:
                    continue
            self.driver_bytes = max(self.driver_bytes, driver)
            self.worker_bytes = max(self.worker_bytes, workers)


def compare(num_files: int, num_rounds: int, folder: Path) -> None:
    """Rounds of all three, interleaved."""
    corpus, warm = folder / f"speech{num_files}", folder / "warm"
    make_files(corpus, num_files)
    make_files(warm, 200)
    started = time.perf_counter()
    seconds: dict[str, list[float]] = {"ingest": [], "appends": [], "stream": []}
    with RayExecutor() as executor:
        up = time.perf_counter()
        ours(warm, folder / "warm_lake", executor)
        first = time.perf_counter() - up
        print(f"start-up: Ray {up - started:.1f} s, first small ingest {first:.1f} s")
        for index in range(num_rounds):
            took, report = ours(corpus, folder / "lake", executor)
            table = open_lake(folder / "lake")["corpus"]
            assert table.count_rows() == num_files
            schema = stored_schema(table.schema)
            seconds["ingest"].append(took)
            seconds["appends"].append(plain_appends(corpus, folder / "appends", schema))
            seconds["stream"].append(plain_stream(corpus, folder / "stream", schema))
            rates = ", ".join(f"{name} {took[-1]:.2f} s" for name, took in seconds.items())
            print(
                f"round {index + 1}: {rates} (plan {report.plan_s:.2f}, work {report.work_s:.2f})",
                flush=True,
            )
            for name in ("lake", "appends", "stream"):
                shutil.rmtree(folder / name)
    for name in ("appends", "stream"):
        pairs = zip(seconds[name], seconds["ingest"], strict=True)
        ratios = [plain / mine for plain, mine in pairs]
        print(
            f"{num_files:,} files: {statistics.median(ratios):.2f} times the plain loop that"
            f" {name} ({min(ratios):.2f} to {max(ratios):.2f} in {num_rounds} rounds)"
        )


def measure_memory(counts: list[int], folder: Path) -> None:
    """Peak memory for each number of files, each on a Ray of its own."""
    for num_files in counts:
        corpus = folder / f"speech{num_files}"
        make_files(corpus, num_files)
        with RayExecutor() as executor, PeakMemory() as peak:
            seconds, _ = ours(corpus, folder / "ours", executor)
        print(
            f"{num_files:>9,} files: driver {peak.driver_bytes / 2**20:,.0f} MiB,"
            f" largest worker {peak.worker_bytes / 2**20:,.0f} MiB, {seconds:.0f} s",
            flush=True,
        )
        shutil.rmtree(folder / "ours")
        shutil.rmtree(corpus)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, nargs="+", metavar="FILES")
    parser.add_argument(
        "--folder", type=Path, help="where files and tables go (default: temporary)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-ingest-", dir=options.folder) as name:
        if options.memory:
            measure_memory(options.memory, Path(name))
        else:
            compare(options.files, options.rounds, Path(name))


if __name__ == "__main__":
    main()
