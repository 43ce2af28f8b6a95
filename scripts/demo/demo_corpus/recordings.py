"""The human speech: telephone prompts and game dialogues, by professionals and volunteers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import soundfile

from demo_corpus.debian import Package, PackageFolder

__all__ = ["SOURCES", "Recording", "Source"]

_MIN_DURATION_S: Final = 0.8
_NOT_SPEECH: Final = re.compile(r"/silence/|/(beep|beeperr|.*2tone|tt-monkeys)\.wav$")


@dataclass(frozen=True)
class Recording:
    """One file of human speech."""

    path: Path
    speaker_id: str


@dataclass(frozen=True)
class Source:
    """Human speech of one origin, with the technical conditions that all of it shares."""

    name: str
    package: Package
    pattern: str
    language: str
    sample_rate_hz: int
    suffix: str
    """Of the files: `.wav` (16-bit PCM) or `.ogg` (Vorbis)."""
    speaker_of: Callable[[str], str]
    """From a file's stem to the speaker."""

    def recordings(self, packages: PackageFolder) -> list[Recording]:
        """All that is speech of at least 0.8 s, in the order of a hash of the path.

        The order mixes speakers and topics, so that the first n are a sample.
        """
        root = packages.path(self.package)
        paths = [path for path in root.glob(self.pattern) if not _NOT_SPEECH.search(str(path))]
        paths.sort(key=lambda path: hashlib.md5(str(path.relative_to(root)).encode()).digest())
        return [
            Recording(path, self.speaker_of(path.stem))
            for path in paths
            if soundfile.info(path).duration >= _MIN_DURATION_S
        ]


def _asterisk(language: str, speaker: str) -> Source:
    """Prompts of a telephone exchange; one speaker, 8 kHz."""
    return Source(
        name=f"asterisk-{language}",
        package=Package((f"asterisk-core-sounds-{language}-wav",)),
        pattern="usr/share/asterisk/sounds/**/*.wav",
        language=language,
        sample_rate_hz=8000,
        suffix=".wav",
        speaker_of=lambda _: speaker,
    )


def _fillets(language: str) -> Source:
    """Dialogues of a game: a male and a female lead and some minor parts, 22.05 kHz, Vorbis."""
    return Source(
        name=f"fillets-{language}",
        package=Package((f"fillets-ng-data-{language}",)),
        pattern="usr/share/games/fillets-ng/sound/**/*.ogg",
        language=language,
        sample_rate_hz=22050,
        suffix=".ogg",
        speaker_of=lambda stem: f"fillets-{language}-{_part(stem)}",
    )


def _part(stem: str) -> str:
    """Who speaks, by the letter in a file's name: -m- the small fish, -v- the big one."""
    found = re.search(r"(?:^|-)([mv])-", stem)
    return {"m": "small", "v": "big"}[found.group(1)] if found else "other"


SOURCES: Final = {
    source.name: source
    for source in (
        _asterisk("en", "allison-smith"),
        _asterisk("es", "allison-smith"),
        _asterisk("fr", "june-wallack"),
        _asterisk("it", "carlo-flora"),
        _asterisk("ru", "ivrvoice-ru"),
        _fillets("nl"),
        _fillets("cs"),
    )
}
"""By name. Which of them are for training and which for the test is `plan`'s business."""
