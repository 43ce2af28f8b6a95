"""The parts of the demo's corpus that need no download."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from random import Random

import numpy as np
import pytest
import soundfile
from demo_corpus import build, channel, plan, recordings, vocoders
from demo_corpus.debian import Package, PackageFolder
from demo_corpus.prompts import Prompt, english_sentence, numbers
from demo_corpus.recordings import SOURCES, Recording, Source

from datalake.audio import decode, inspect

PHONE = SOURCES["asterisk-en"]
GAME = SOURCES["fillets-nl"]


def voiced(rate_hz: int, duration_s: float = 1.2, level: float = 0.2) -> np.ndarray:
    time = np.arange(int(rate_hz * duration_s)) / rate_hz
    wave = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 12))
    return (level * wave / np.abs(wave).max()).astype(np.float32)


@pytest.fixture
def packages(tmp_path: Path) -> PackageFolder:
    """What unpacked packages look like: twelve prompts, a silence and a beep."""
    root = tmp_path / "packages"
    sounds = root / PHONE.package.name / "usr/share/asterisk/sounds/en_US"
    (sounds / "silence").mkdir(parents=True)
    for index in range(12):
        soundfile.write(sounds / f"prompt-{index}.wav", voiced(8000, 1 + index / 20), 8000)
    soundfile.write(sounds / "silence/1.wav", np.zeros(16000), 8000)
    soundfile.write(sounds / "beep.wav", voiced(8000), 8000)
    soundfile.write(sounds / "short.wav", voiced(8000, 0.5), 8000)
    return PackageFolder(root)


def test_only_speech_counts_as_a_recording(packages: PackageFolder) -> None:
    found = PHONE.recordings(packages)
    assert len(found) == 12
    assert {recording.speaker_id for recording in found} == {"allison-smith"}
    assert found == PHONE.recordings(packages)


@pytest.mark.parametrize(
    ("stem", "speaker"),
    [
        ("br-m-ahoj", "fillets-nl-small"),
        ("v-horydoly", "fillets-nl-big"),
        ("rand-0-4", "fillets-nl-other"),
    ],
)
def test_the_speaker_stands_in_the_name(stem: str, speaker: str) -> None:
    assert GAME.speaker_of(stem) == speaker


@pytest.mark.parametrize("source", [PHONE, GAME], ids=lambda source: source.name)
def test_both_labels_of_a_source_share_rate_coding_and_level(
    source: Source, tmp_path: Path
) -> None:
    path = tmp_path / f"human{source.suffix}"
    path.write_bytes(channel.encode(voiced(source.sample_rate_hz, level=0.1), source))
    human = Recording(path, "")
    made = channel.transmit(voiced(24000, 0.9, level=0.9), 24000, source, human)
    info, published = inspect(made, suffix=source.suffix), inspect(path.read_bytes())
    assert (info.codec, info.sample_rate_hz) == (published.codec, published.sample_rate_hz)
    assert info.duration_s == pytest.approx(0.9, abs=0.01)
    levels = [np.sqrt(np.mean(decode(data)[0] ** 2)) for data in (made, path.read_bytes())]
    assert levels[0] == pytest.approx(levels[1], rel=0.05)


def test_ogg_files_come_out_the_same_and_are_sound() -> None:
    file = io.BytesIO()
    soundfile.write(file, voiced(22050, 3), 22050, format="OGG", subtype="VORBIS")
    raw = file.getvalue()
    fixed = channel.with_fixed_serial(raw)
    assert fixed[14:18] == bytes(4)
    inspect(fixed, suffix=".ogg")  # checks every page's checksum
    np.testing.assert_array_equal(decode(fixed)[0], decode(raw)[0])
    # With its old serial put back it is the encoder's file, checksums included.
    assert channel.with_fixed_serial(channel.with_fixed_serial(raw)) == fixed
    assert channel.encode(voiced(22050), GAME) == channel.encode(voiced(22050), GAME)


@pytest.mark.parametrize("generator", [vocoders.GriffinLim, vocoders.LpcVocoder])
def test_a_vocoder_keeps_length_and_spectrum_and_not_the_samples(
    generator: type[vocoders.GriffinLim | vocoders.LpcVocoder], tmp_path: Path
) -> None:
    soundfile.write(tmp_path / "human.wav", voiced(16000), 16000)
    prompt = Prompt(seed=1, language="en", recording=Recording(tmp_path / "human.wav", ""))
    samples, rate_hz = generator().make(prompt)
    original = voiced(16000)
    assert rate_hz == 16000
    assert samples.shape == original.shape
    assert np.isfinite(samples).all()
    bands = [
        np.abs(np.fft.rfft(wave))[:9600].reshape(24, -1).sum(1) for wave in (samples, original)
    ]
    assert np.corrcoef(*np.log(np.array(bands) + 1))[0, 1] > 0.8
    assert np.corrcoef(samples, original)[0, 1] < 0.99
    again, _ = generator().make(prompt)
    np.testing.assert_array_equal(samples, again)


def test_prompts_follow_from_their_number() -> None:
    assert english_sentence(Random(3)) == english_sentence(Random(3))
    assert len({english_sentence(Random(seed)) for seed in range(200)}) > 190
    assert all(part.strip().isdigit() for part in numbers(Random(5)).split(","))


def test_the_test_is_unheard() -> None:
    heard = {generator for _, generator in plan.CORPUS.spoof}
    unheard = {generator for _, generator in plan.HELD_OUT.spoof}
    assert not heard & unheard
    assert heard | unheard == set(plan.GENERATORS)
    assert not set(plan.CORPUS.bonafide) & set(plan.HELD_OUT.bonafide)
    for each in (plan.CORPUS, plan.HELD_OUT):
        assert {source for source, _ in each.spoof} <= set(each.bonafide)


SMALL = plan.Plan("small", bonafide={"asterisk-en": 9}, spoof={("asterisk-en", "lpc_vocoder"): 5})


def _files(corpus: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(corpus)): path.read_bytes()
        for path in corpus.rglob("*")
        if path.is_file()
    }


def test_a_build_goes_on_where_it_stopped(packages: PackageFolder, tmp_path: Path) -> None:
    root = tmp_path / "packages"
    whole = build.build_corpus(SMALL, tmp_path / "whole", root, num_workers=2)
    manifest = (whole / "manifest.csv").read_text().splitlines()
    assert manifest[0] == "path,source,generator,label,speaker_id,language"
    assert len(manifest) == 1 + 9 + 5
    original = PHONE.recordings(packages)[0].path.read_bytes()
    assert (whole / "asterisk-en/bonafide/00000.wav").read_bytes() == original

    # One job was done, another was killed half way.
    broken = tmp_path / "broken" / "small"
    first, second = build.jobs_of(SMALL)
    (broken / ".jobs").mkdir(parents=True)
    build.run_job(first, broken, root)
    (broken / second.folder).mkdir(parents=True)
    (broken / second.folder / "00000.wav").write_bytes(b"half")
    (broken / f"{second.rows_file}.partial").write_text("half")
    seen: list[tuple[int, int]] = []
    build.build_corpus(
        SMALL, tmp_path / "broken", root, num_workers=1, on_progress=lambda *at: seen.append(at)
    )
    assert seen == [(14, 14)]
    assert _files(broken) == _files(whole)


def test_a_smaller_plan_forgets_what_is_not_in_it(packages: PackageFolder, tmp_path: Path) -> None:
    root = tmp_path / "packages"
    build.build_corpus(SMALL, tmp_path, root, num_workers=1)
    fewer = plan.Plan("small", bonafide={"asterisk-en": 9}, spoof={})
    corpus = build.build_corpus(fewer, tmp_path, root, num_workers=1)
    assert not list((corpus / "asterisk-en/lpc_vocoder").iterdir())
    assert len((corpus / "manifest.csv").read_text().splitlines()) == 1 + 9


def test_a_package_is_unpacked_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real archive through the real dpkg-deb; only apt is stood in for."""
    made = tmp_path / "made"
    (made / "DEBIAN").mkdir(parents=True)
    (made / "usr/share/doc/hello").mkdir(parents=True)
    (made / "usr/share/doc/hello/copyright").write_text("free")
    control = "Package: hello\nVersion: 1\nArchitecture: all\nMaintainer: me <me@localhost>\n"
    (made / "DEBIAN/control").write_text(control + "Description: a test\n")
    try:
        build_deb = ["dpkg-deb", "--build", str(made), str(tmp_path / "hello_1_all.deb")]
        subprocess.run(build_deb, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no dpkg-deb on this system")
    asked: list[tuple[str, ...]] = []

    def apt(
        self: PackageFolder, *command: str, cwd: Path | None = None, check: bool = True
    ) -> bool:
        asked.append(command)
        if command == ("download", "hello"):
            assert cwd is not None
            (cwd / "hello_1_all.deb").write_bytes((tmp_path / "hello_1_all.deb").read_bytes())
        return command != ("download", "bonjour")

    monkeypatch.setattr(PackageFolder, "_apt", apt)
    folder, package = PackageFolder(tmp_path / "packages"), Package(("bonjour", "hello"))
    folder.fetch([package], lambda _: None)
    assert asked == [("update",), ("download", "bonjour"), ("download", "hello")]
    assert folder.licence(package) == "free"
    assert folder.version(package) == "hello_1_all"
    folder.fetch([package], lambda _: None)
    assert len(asked) == 3


def test_recordings_of_all_sources_have_a_speaker_rule() -> None:
    assert set(SOURCES) == {*plan.CORPUS.bonafide, *plan.HELD_OUT.bonafide}
    assert all(isinstance(source, recordings.Source) for source in SOURCES.values())
