"""Make a corpus with every kind of broken file, ingest it, and see what becomes of each.

    python scripts/quarantine_zoo.py DIR

Makes DIR/zoo (files, and a manifest that names them) and DIR/folder (the same files alone), ingests
both into DIR/lake, and prints which file was refused and why. Odd files that are good are among
them. Exits 1 if a verdict is not the one that is due.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import soundfile

from datalake.cli import console
from datalake.lake import Lake, open_lake
from datalake.pipelines import ingest
from datalake.quarantine import QUARANTINE_SUFFIX, Reason

RATE_HZ = 16_000
SHORTEST_S = 0.01
"""What the zoo is ingested with."""


Put = Callable[[Path], object]


@dataclass(frozen=True)
class Animal:
    """Something at a path, a row of the manifest that names it, or both."""

    name: str
    """The path below the corpus. Also the id in the manifest, if its row gives no other."""
    what: bytes | Put | None
    """The bytes of a file, or what puts something else there; None: nothing is there."""
    due: Reason | None = None
    """Why it is refused beside a manifest; None: it is good."""
    due_alone: Reason | None = None
    """Why it is refused where there is no manifest; None: it is good."""
    row: dict[str, str] | None = field(default_factory=dict)
    """What its row says unlike others; None: it has no row."""


def _bad(name: str, what: bytes | Put, reason: Reason) -> Animal:
    return Animal(name, what, reason, reason)


@cache
def _samples(num_channels: int = 1, num_samples: int = 8_000) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(7)
    tone = np.sin(2 * np.pi * 220 / RATE_HZ * np.arange(num_samples))[:, None]
    noise = rng.uniform(-1, 1, (num_samples, num_channels))
    samples: npt.NDArray[np.float32] = (0.3 * tone + 0.1 * noise).astype(np.float32)
    return samples


def _file(container: str, subtype: str, samples: npt.NDArray[np.generic] | None = None) -> bytes:
    target = io.BytesIO()
    data = _samples() if samples is None else samples
    soundfile.write(target, data, RATE_HZ, format=container, subtype=subtype)
    return target.getvalue()


def _wav(subtype: str = "PCM_16", samples: npt.NDArray[np.generic] | None = None) -> bytes:
    return _file("WAV", subtype, samples)


def _m4a() -> bytes:
    target = io.BytesIO()
    with av.open(target, "w", format="ipod") as output:
        track = output.add_stream("aac", rate=RATE_HZ, layout="mono")
        frame = av.AudioFrame.from_ndarray(_samples().T.copy(), format="fltp", layout="mono")
        frame.sample_rate = RATE_HZ
        output.mux(track.encode(frame))
        output.mux(track.encode(None))
    return target.getvalue()


def _with(data: bytes, offset: int, code: str, value: int) -> bytes:
    """The bytes with a number of their header changed."""
    changed = bytearray(data)
    struct.pack_into(code, changed, offset, value)
    return bytes(changed)


def _flipped(data: bytes, num_bytes: int = 1) -> bytes:
    """The bytes with some in the middle turned over."""
    middle = len(data) // 2
    turned = bytes(byte ^ 0xFF for byte in data[middle : middle + num_bytes])
    return data[:middle] + turned + data[middle + num_bytes :]


def _float_wav(odd_one: float) -> bytes:
    samples = _samples().copy()
    samples[7] = odd_one
    return _wav("FLOAT", samples)


def _lfs_pointer() -> bytes:
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:%b\nsize 32044\n" % (b"0" * 64)


def _good_ones() -> Iterator[Animal]:
    yield Animal("good/16_bit.wav", _wav())
    yield Animal("good/8_bit.wav", _wav("PCM_U8"))
    yield Animal("good/24_bit.wav", _wav("PCM_24"))
    yield Animal("good/32_bit.wav", _wav("PCM_32"))
    yield Animal("good/float.wav", _wav("FLOAT"))
    yield Animal("good/double.wav", _wav("DOUBLE"))
    yield Animal("good/a_law.wav", _wav("ALAW"))
    yield Animal("good/mu_law.wav", _wav("ULAW"))
    yield Animal("good/stereo.wav", _wav(samples=_samples(2)))
    yield Animal("good/six_channels.wav", _wav(samples=_samples(6)))
    yield Animal("good/loud.wav", _wav("FLOAT", _samples() * 9))
    yield Animal("good/silent.wav", _wav(samples=_samples() * 0))
    yield Animal("good/capitals.WAV", _wav())
    yield Animal("good/plain.flac", _file("FLAC", "PCM_16"))
    yield Animal("good/vorbis.ogg", _file("OGG", "VORBIS"))
    yield Animal("good/opus.opus", _file("OGG", "OPUS"))
    yield Animal("good/layer_three.mp3", _file("MP3", "MPEG_LAYER_III"))
    yield Animal("good/aac.m4a", _m4a())
    yield Animal("good/späße 音 🎧.wav", _wav())
    yield Animal("good/a, 'b' and \"c\".wav", _wav())
    yield Animal("good/a\nnew line.wav", _wav())
    yield Animal("good/100%_#?*.wav", _wav())
    yield Animal(f"good/{'long' * 62}.wav", _wav())  # 252 bytes


def _broken_ones() -> Iterator[Animal]:
    wav, flac = _wav(), _file("FLAC", "PCM_16")
    ogg, mp3, m4a = _file("OGG", "VORBIS"), _file("MP3", "MPEG_LAYER_III"), _m4a()
    noise = np.random.default_rng(2).bytes(5000)
    yield _bad("bytes/none.wav", b"", Reason.EMPTY)
    yield _bad("bytes/no_samples.wav", _wav(samples=_samples()[:0]), Reason.EMPTY)
    yield _bad("bytes/text.wav", b"This is a text.\n" * 99, Reason.NOT_AUDIO)
    yield _bad("bytes/page.flac", b"<!DOCTYPE html><html>404</html>", Reason.NOT_AUDIO)
    yield _bad("bytes/pointer.wav", _lfs_pointer(), Reason.NOT_AUDIO)
    yield _bad("bytes/archive.wav", b"PK\x03\x04" + noise, Reason.NOT_AUDIO)
    yield _bad("bytes/noise.mp3", noise, Reason.NOT_AUDIO)
    yield _bad("bytes/zeros.wav", bytes(5000), Reason.NOT_AUDIO)
    yield _bad("bytes/is_mp3.wav", mp3, Reason.WRONG_EXTENSION)
    yield _bad("bytes/is_wav.flac", wav, Reason.WRONG_EXTENSION)
    yield _bad("bytes/is_ogg.mp3", ogg, Reason.WRONG_EXTENSION)
    yield _bad("bytes/cut_in_header.wav", wav[:30], Reason.TRUNCATED)
    yield _bad("bytes/cut_in_data.wav", wav[:9000], Reason.TRUNCATED)
    yield _bad("bytes/one_byte_short.wav", wav[:-1], Reason.TRUNCATED)
    three_hours = 3 * 3600 * RATE_HZ * 2
    yield _bad("bytes/three_hours.wav", _with(wav, 40, "<I", three_hours), Reason.TRUNCATED)
    yield _bad("bytes/cut_flac.flac", flac[: len(flac) // 2], Reason.TRUNCATED)
    yield _bad("bytes/cut_ogg.ogg", ogg[: len(ogg) // 2], Reason.TRUNCATED)
    yield _bad("bytes/cut_mp3.mp3", mp3[:-150], Reason.TRUNCATED)
    yield _bad("bytes/cut_m4a.m4a", m4a[: len(m4a) // 2], Reason.TRUNCATED)
    yield _bad("bytes/flipped_flac.flac", _flipped(flac), Reason.CORRUPT)
    yield _bad("bytes/flipped_ogg.ogg", _flipped(ogg), Reason.CORRUPT)
    yield _bad("bytes/nan.wav", _float_wav(float("nan")), Reason.NON_FINITE)
    yield _bad("bytes/infinite.wav", _float_wav(float("inf")), Reason.NON_FINITE)
    yield _bad("bytes/no_rate.wav", _with(wav, 24, "<I", 0), Reason.BAD_HEADER)
    yield _bad("bytes/no_channels.wav", _with(wav, 22, "<H", 0), Reason.BAD_HEADER)
    yield _bad("bytes/blip.wav", _wav(samples=_samples()[:20]), Reason.TOO_SHORT)
    # A sample a second: few bytes that last for hours.
    yield _bad("bytes/hours.wav", _with(_wav("PCM_U8"), 24, "<I", 1), Reason.TOO_LONG)


def _odd_ones() -> Iterator[Animal]:
    """What is no file, and what the manifest says wrong."""
    wav = _wav()
    yield _bad("odd/dangling.wav", lambda path: path.symlink_to("nowhere"), Reason.UNREADABLE)
    yield _bad("odd/pipe.wav", os.mkfifo, Reason.UNREADABLE)
    # Without a manifest it is a folder like any other.
    yield Animal("odd/folder.wav", Path.mkdir, Reason.NO_FILE)
    # Not UTF-8, so no manifest can name it.
    latin = os.fsdecode(b"odd/caf\xe9.wav")
    yield Animal(latin, wav, Reason.NO_PROTOCOL_ROW, Reason.UNREADABLE, row=None)
    yield Animal("odd/fake/real/torn.wav", wav, None, Reason.BAD_LABEL)
    yield Animal("rows/gone.wav", None, Reason.NO_FILE)
    yield Animal("rows/unclaimed.wav", wav, Reason.NO_PROTOCOL_ROW, row=None)
    yield Animal("rows/twin.wav", wav, Reason.DUPLICATE_ID, row={"id": "good/16_bit.wav"})
    yield Animal("rows/label.wav", wav, Reason.BAD_LABEL, row={"label": "perhaps"})
    # Its row has no other columns, so nothing names the file.
    yield Animal("rows/short.wav", wav, Reason.NO_PROTOCOL_ROW, row=None)


def animals() -> list[Animal]:
    """All of them, the good ones first."""
    return [*_good_ones(), *_broken_ones(), *_odd_ones()]


def make_files(root: Path, zoo: Iterable[Animal]) -> None:
    """Put the animals below `root`."""
    for animal in zoo:
        path = root / animal.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(animal.what, bytes):
            path.write_bytes(animal.what)
        elif animal.what is not None:
            animal.what(path)


def make_manifest(root: Path, zoo: Iterable[Animal], *, short_row: bool) -> None:
    """Write the manifest that names them; `short_row` adds a row with too few columns."""
    rows = [["path", "id", "label", "speaker"]]
    for animal in zoo:
        if animal.row is not None:
            row = {"id": animal.name, "label": "bonafide", **animal.row}
            rows.append([animal.name, row["id"], row["label"], "nobody"])
    if short_row:
        rows.append(["rows/short.wav"])
    with (root / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def due_beside_manifest(zoo: Iterable[Animal]) -> dict[str, str]:
    """The reason that is due to each refused path of a corpus with a manifest."""
    due = {_stored(animal.name): animal.due.value for animal in zoo if animal.due is not None}
    return {**due, "manifest.csv": Reason.BAD_ROW.value}


def due_alone(zoo: Iterable[Animal]) -> dict[str, str]:
    """The reason that is due to each refused path of a folder without a manifest."""
    return {
        _stored(animal.name): animal.due_alone.value
        for animal in zoo
        if animal.due_alone is not None
    }


def _stored(name: str) -> str:
    """A path as tables hold it: bytes that are no UTF-8 as escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def verdicts(lake: Lake, table: str) -> dict[str, tuple[str, str]]:
    """Reason and detail by refused path, as the quarantine has them."""
    refused = lake[table + QUARANTINE_SUFFIX].scan(["path", "reason", "detail"]).read_all()
    return {row["path"]: (row["reason"], row["detail"]) for row in refused.to_pylist()}


def main() -> int:
    """Make the zoo, ingest it twice, and print what became of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder that is not there yet")
    folder: Path = parser.parse_args().folder
    if folder.exists():
        parser.error(f"{folder} is there already: name a new folder")
    zoo = animals()
    for name in ("zoo", "folder"):
        make_files(folder / name, zoo)
    make_manifest(folder / "zoo", zoo, short_row=True)
    lake = open_lake(folder / "lake")
    num_wrong = 0
    for name, connector, due in (
        ("zoo", "manifest", due_beside_manifest(zoo)),
        ("folder", "audio_folder", due_alone(zoo)),
    ):
        report = ingest(
            lake,
            folder / name,
            name,
            connector=connector,
            executor="local",
            max_bad_fraction=1.0,
            min_duration_s=SHORTEST_S,
        )
        found = verdicts(lake, name)
        rows = [
            {
                "path": path,
                "due": due.get(path, "good"),
                "found": found.get(path, ("good", ""))[0],
                "detail": found.get(path, ("", ""))[1],
            }
            for path in sorted({*due, *found})
        ]
        console.print_table(rows)
        num_wrong += sum(row["due"] != row["found"] for row in rows)
        print(f"\n{name}: {report.num_added} good, {report.num_refused} refused\n")
    print(f"{num_wrong} verdicts are not the ones that are due" if num_wrong else "as it is due")
    print(f"See them again with: datalake quarantine zoo --lake {folder / 'lake'}")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
