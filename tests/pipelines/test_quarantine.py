"""A folder with every kind of broken file: what is refused, why, and what is said."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from datalake.cli import console
from datalake.cli.app import app
from datalake.lake import open_lake
from datalake.pipelines import ingest
from datalake.quarantine import Reason
from tests.audio.clips import CLIPS
from tests.pipelines.corpora import ManifestCorpus, quarantined, rows_of, wav


def _float_wav(value: float) -> bytes:
    samples = np.zeros(400, np.float32)
    samples[7] = value
    target = io.BytesIO()
    soundfile.write(target, samples, 16_000, format="WAV", subtype="FLOAT")
    return target.getvalue()


def _header(offset: int, code: str, value: int) -> bytes:
    data = bytearray(wav(1))
    struct.pack_into(code, data, offset, value)
    return bytes(data)


def _damaged(data: bytes) -> bytes:
    middle = len(data) // 2
    return (
        data[:middle]
        + bytes(byte ^ 0xFF for byte in data[middle : middle + 64])
        + data[middle + 64 :]
    )


_LONG = io.BytesIO()
soundfile.write(_LONG, np.zeros(3700 * 10, np.int16), 10, format="WAV")

FILES: dict[str, tuple[bytes, Reason]] = {
    "no_bytes.wav": (b"", Reason.EMPTY),
    "no_samples.wav": (wav(1, 0), Reason.EMPTY),
    "text.wav": (b"This is a text and no audio.\n" * 10, Reason.NOT_AUDIO),
    "page.flac": (b"<!DOCTYPE html><html><body>404</body></html>", Reason.NOT_AUDIO),
    "archive.wav": (b"PK\x03\x04" + bytes(200), Reason.NOT_AUDIO),
    "zeros.wav": (bytes(500), Reason.NOT_AUDIO),
    "flac_called.wav": (CLIPS["flac_s16"].data(), Reason.WRONG_EXTENSION),
    "wav_called.flac": (wav(1), Reason.WRONG_EXTENSION),
    "mp3_called.ogg": (CLIPS["mp3"].data(), Reason.WRONG_EXTENSION),
    "cut.wav": (wav(1)[:-300], Reason.TRUNCATED),
    "cut_header.wav": (wav(1)[:30], Reason.TRUNCATED),
    "cut.flac": (CLIPS["flac_s16"].data()[:-2000], Reason.TRUNCATED),
    "cut.ogg": (CLIPS["vorbis"].data()[:-1000], Reason.TRUNCATED),
    "cut.mp3": (CLIPS["mp3"].data()[:-150], Reason.TRUNCATED),
    "cut.m4a": (CLIPS["m4a"].data()[:-500], Reason.TRUNCATED),
    "flipped.flac": (_damaged(CLIPS["flac_s16"].data()), Reason.CORRUPT),
    "flipped.ogg": (_damaged(CLIPS["vorbis"].data()), Reason.CORRUPT),
    "nan.wav": (_float_wav(float("nan")), Reason.NON_FINITE),
    "infinite.wav": (_float_wav(float("inf")), Reason.NON_FINITE),
    "no_rate.wav": (_header(24, "<I", 0), Reason.BAD_HEADER),
    "no_channels.wav": (_header(22, "<H", 0), Reason.BAD_HEADER),
    "blip.wav": (wav(1, 20), Reason.TOO_SHORT),
    "day.wav": (_LONG.getvalue(), Reason.TOO_LONG),
}


@pytest.fixture
def zoo(tmp_path: Path) -> ManifestCorpus:
    """Good files, each broken file above, and what is wrong in a protocol."""
    corpus = ManifestCorpus(tmp_path / "zoo")
    corpus.fill(10)
    for name, (data, _) in FILES.items():
        corpus.add(f"broken/{name}", data)
    corpus.add("broken/gone.wav", None)
    corpus.add("broken/twin.wav", wav(2), id="clips/0002.wav")
    corpus.add("broken/label.wav", wav(3), label="perhaps")
    corpus.put("broken/unclaimed.wav", wav(4))
    corpus.add("broken/folder.wav", None)
    (corpus.root / "broken/folder.wav").mkdir()
    corpus.write()
    return corpus


def test_each_broken_file_is_refused_for_its_own_reason(
    tmp_path: Path, zoo: ManifestCorpus
) -> None:
    lake = open_lake(tmp_path / "lake")
    report = ingest(
        lake, zoo.root, "corpus", executor="local", max_bad_fraction=1.0, min_duration_s=0.01
    )

    found = {path.removeprefix("broken/"): reason for path, reason, _ in quarantined(lake)}
    assert found == {
        **{name: reason.value for name, (_, reason) in FILES.items()},
        "gone.wav": "no_file",
        "twin.wav": "duplicate_id",
        "label.wav": "bad_label",
        "unclaimed.wav": "no_protocol_row",
        "folder.wav": "no_file",
    }
    assert all(detail for _, _, detail in quarantined(lake))
    assert len(rows_of(lake["corpus"])) == report.num_added == 10
    assert report.num_refused == report.num_in_quarantine == len(found)
    assert report.exit_code == 3


def test_what_the_command_says_and_how_it_exits(
    tmp_path: Path, zoo: ManifestCorpus, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*options: str) -> tuple[int, str, str]:
        args = ["ingest", str(zoo.root), "corpus", "--lake", str(tmp_path / "lake")]
        args += ["--executor", "local", "--min-duration", "0.01"]
        with pytest.raises(SystemExit) as leaving:
            console.run(app, "datalake", [*args, *options])
        code = leaving.value.code
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    code, out, err = command()
    assert (code, out) == (1, "")
    assert "--max-bad-fraction" in err
    assert "Traceback" not in err

    code, out, err = command("--max-bad-fraction", "1", "--json")
    report = json.loads(out)
    assert code == report["exit_code"] == 3
    assert report["refused"]["wrong_extension"] == 3
    assert report["num_added"] == 10
    assert "manifest" in err  # what it was recognised by

    code, out, err = command("--max-bad-fraction", "1", "--quiet")
    assert code == 3
    assert "done before" in out
    assert err == ""
