"""Fake-or-Real (FoR): utterances of commercial and open TTS systems, and real speech.

Provenance: R. Reimao and V. Tzerpos, "FoR: A dataset for synthetic speech detection",
https://doi.org/10.1109/SPED.2019.8906599. English; WAV and, in `for-original`, MP3.

Layout::

    for-original/{training,validation,testing}/{real,fake}/*
    for-norm/ for-2sec/ for-rerec/                             the same, processed

Quirks: no protocol; which system made a file is not said, so the generator is `unknown`. The four
versions hold the same utterances, normalised, cut to two seconds, or recorded again: mixing them
makes near-duplicates, and `variant` tells them apart. Mirrors nest the folder in itself
(`for-norm/for-norm`) and call two of them `for-2seconds` and `for-rerecorded`. Some files have no
bytes or are broken MP3. File names repeat across versions and splits, so a file's id is its path
from the version on. Splits are stored as train, dev and eval. The path may be the folder that
holds the versions, or a version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from connectors.options import check_options
from connectors.speech.corpus import ProtocolCorpus
from connectors.speech.rows import Row, extra_fields, labelled
from connectors.tree import Tree, stem
from datalake.connector import Evidence, OptionSpec
from datalake.errors import NotFoundError
from datalake.uri import Location

__all__ = ["CONNECTOR", "FakeOrReal"]

_VARIANT: Final = re.compile(r"for-(original|norm|2sec\w*|rerec\w*)", re.IGNORECASE)
_SPLITS: Final = {"training": "train", "validation": "dev", "testing": "eval"}
_LABELS: Final = ("real", "fake")


class _Part(NamedTuple):
    """The files of one version, split and label."""

    variant: str
    split: str
    label: str
    folder: str


class FakeOrReal:
    """Connector for Fake-or-Real."""

    name = "fake_or_real"
    options: tuple[OptionSpec, ...] = ()

    def detect(self, root: Location) -> Evidence | None:
        """The folders of a version."""
        _, parts = _parts(Tree(root))
        if not parts:
            return None
        return Evidence(self.name, 0.9, tuple(f"the folder {part.folder}" for part in parts[:4]))

    def open(self, root: Location, options: Mapping[str, str]) -> ProtocolCorpus:
        """Open the versions that are there.

        Raises:
            NotFoundError: none is there.
        """
        check_options(self.name, options, self.options)
        tree, parts = _parts(Tree(root))
        if not parts:
            raise NotFoundError(
                "No version of Fake-or-Real is there",
                where=str(root),
                expected="folders such as for-norm/training/real",
            )
        return ProtocolCorpus(
            source=self.name,
            root=tree.root,
            read=partial(_read, tree, parts),
            extra=extra_fields(["variant"]),
            audio_folders=tuple(part.folder for part in parts),
        )


CONNECTOR: Final = FakeOrReal()


def _parts(tree: Tree) -> tuple[Tree, tuple[_Part, ...]]:
    """The parts that are there, and the tree that their folders are relative to."""
    names = tree.folders()
    if _VARIANT.fullmatch(tree.root.name) and (above := tree.above()):
        tree, names = above, [tree.root.name]
    found = []
    for name in names:
        if not _VARIANT.fullmatch(name):
            continue
        nested = tree.find(f"{name}/{name}")
        found += [
            _Part(name.lower(), split, label, folder)
            for split in _SPLITS
            for label in _LABELS
            if (folder := tree.find(f"{nested or name}/{split}/{label}"))
        ]
    return tree, tuple(found)


def _read(tree: Tree, parts: tuple[_Part, ...]) -> Iterator[Row]:
    for part in parts:
        for path in tree.audio_paths([part.folder]):
            within = stem(path[len(part.folder) + 1 :])
            yield labelled(
                Row(
                    f"{part.variant}/{part.split}/{part.label}/{within}",
                    path,
                    FakeOrReal.name,
                    label=part.label,
                    language="en",
                    split=_SPLITS[part.split],
                    extra=(part.variant,),
                )
            )
