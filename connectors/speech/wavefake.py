"""WaveFake: vocoded copies of LJ Speech and JSUT.

Provenance: J. Frank and L. Schönherr, "WaveFake: A data set to facilitate audio deepfake
detection", https://arxiv.org/abs/2111.02813. 16-bit WAV, 22.05 kHz (LJ Speech) and 24 kHz (JSUT).

Layout::

    generated_audio/<corpus>_<vocoder>/*.wav      such as ljspeech_melgan/LJ001-0001_gen.wav

Quirks: no protocol. The folder is the generator, the underlying corpus included, as the same
vocoder trained on another voice is another system. The same ids repeat in every folder, so a
file's id includes its folder. Spoof only: the bona fide counterparts are LJ Speech and JSUT
themselves. Both are of one speaker, who becomes the speaker id. The path may be the folder that
holds `generated_audio`, or that folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from connectors.options import check_options
from connectors.speech.corpus import ProtocolCorpus
from connectors.speech.rows import Row, labelled
from connectors.tree import Tree, find_root, stem
from datalake.connector import Evidence, OptionSpec
from datalake.errors import NotFoundError
from datalake.schema import SPOOF
from datalake.uri import Location

__all__ = ["CONNECTOR", "WaveFake"]

_GENERATOR: Final = re.compile(
    r"(?:(ljspeech|jsut)_(?:.*gan|waveglow|melgan_large)|common_voices.*)", re.IGNORECASE
)
_LANGUAGES: Final = {"ljspeech": "en", "jsut": "ja"}


class _Generator(NamedTuple):
    name: str
    folder: str
    voice: str | None


class WaveFake:
    """Connector for WaveFake."""

    name = "wavefake"
    options: tuple[OptionSpec, ...] = ()

    def detect(self, root: Location) -> Evidence | None:
        """Folders named after a corpus and a vocoder."""
        tree = find_root(root, _is_root)
        if tree is None:
            return None
        found = tuple(f"the folder {generator.folder}" for generator in _generators(tree))
        return Evidence(self.name, 0.9 if len(found) > 1 else 0.7, found)

    def open(self, root: Location, options: Mapping[str, str]) -> ProtocolCorpus:
        """Open the corpus.

        Raises:
            NotFoundError: no folder is named as a generator of WaveFake is.
        """
        check_options(self.name, options, self.options)
        tree = find_root(root, _is_root)
        if tree is None:
            raise NotFoundError(
                "No generator of WaveFake is there",
                where=str(root),
                expected="folders such as generated_audio/ljspeech_melgan",
            )
        generators = tuple(_generators(tree))
        return ProtocolCorpus(
            source=self.name,
            root=tree.root,
            read=partial(_read, tree, generators),
            audio_folders=tuple(generator.folder for generator in generators),
        )


CONNECTOR: Final = WaveFake()


def _is_root(tree: Tree) -> bool:
    return any(True for _ in _generators(tree))


def _generators(tree: Tree) -> Iterator[_Generator]:
    """The generators whose folders are here or in `generated_audio`."""
    inner = tree.find("generated_audio")
    for name in tree.folders(inner or ""):
        if match := _GENERATOR.fullmatch(name):
            yield _Generator(name, f"{inner}/{name}" if inner else name, match[1])


def _read(tree: Tree, generators: tuple[_Generator, ...]) -> Iterator[Row]:
    for generator in generators:
        voice = generator.voice.lower() if generator.voice else None
        for path in tree.audio_paths([generator.folder]):
            within = stem(path[len(generator.folder) + 1 :])
            yield labelled(
                Row(
                    f"{generator.name}/{within}",
                    path,
                    WaveFake.name,
                    generator=generator.name,
                    label=SPOOF,
                    speaker_id=voice,
                    language=_LANGUAGES.get(voice or "", "en"),
                )
            )
