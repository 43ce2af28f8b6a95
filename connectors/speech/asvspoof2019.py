"""ASVspoof 2019, logical access (LA) and physical access (PA).

Provenance: X. Wang et al., "ASVspoof 2019: A large-scale public database of synthesized, converted
and replayed speech", https://arxiv.org/abs/1911.01601. 16 kHz FLAC, English, made from VCTK: its
speakers appear in other corpora too.

Layout::

    LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm.{train.trn,dev.trl,eval.trl}.txt
    LA/ASVspoof2019_LA_{train,dev,eval}/flac/LA_{T,D,E}_<number>.flac
    PA/…                                     the same with PA

A protocol line is `speaker utterance environment attack label`, without a header. `environment` is
`-` in LA. The generator is the attack: A01 to A19 in LA, a replay configuration (AA to CC) in PA.

Quirks: the audio folders of dev and eval also hold enrolment recordings that only the speaker
verification protocols name, so a file without a row is no fault. A split whose audio folder is not
there was not downloaded and is left out. The path may be the folder that holds `LA` and `PA`, one
of the two, or a folder within it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from connectors.options import check_options, choice
from connectors.speech.corpus import ProtocolCorpus
from connectors.speech.protocol_lines import read_fields
from connectors.speech.rows import Row, bad_row, extra_fields, labelled
from connectors.tree import Tree
from datalake.connector import Evidence, OptionSpec
from datalake.errors import InputError, NotFoundError
from datalake.uri import Location

__all__ = ["CONNECTOR", "ASVspoof2019"]

_PARTITIONS: Final = ("LA", "PA")
_LINE: Final = ("speaker", "utterance", "environment", "attack", "label")
_WITHIN: Final = re.compile(r"asvspoof2019_(la|pa)_\w+", re.IGNORECASE)
_PROTOCOL: Final = re.compile(
    r"ASVspoof2019\.(?:LA|PA)\.cm\.(?:train|dev|eval)\.tr[nl]\.txt", re.IGNORECASE
)
_SPLITS: Final = ("train", "dev", "eval")


class _Split(NamedTuple):
    source: str
    split: str
    protocol: str
    audio: str


class ASVspoof2019:
    """Connector for ASVspoof 2019."""

    name = "asvspoof2019"
    options = (OptionSpec("partition", "LA or PA", "all that are there"),)

    def detect(self, root: Location) -> Evidence | None:
        """The folder of countermeasure protocols of either partition."""
        found = _partitions(_outer(Tree(root)))
        if not found:
            return None
        return Evidence(
            self.name, 0.95, tuple(f"the protocols in {place}" for place in found.values())
        )

    def open(self, root: Location, options: Mapping[str, str]) -> ProtocolCorpus:
        """Open the partitions that are there.

        Raises:
            NotFoundError: no protocol is there, or not that of the partition asked for.
            InputError: no audio folder of any protocol is there.
        """
        check_options(self.name, options, self.options)
        asked = choice(options, "partition", _PARTITIONS)
        tree = _outer(Tree(root))
        partitions = {
            name: place for name, place in _partitions(tree).items() if asked in (None, name)
        }
        if not partitions:
            raise NotFoundError(
                "No protocols of ASVspoof 2019 are there",
                where=str(root),
                expected=f"a folder ASVspoof2019_{asked or 'LA'}_cm_protocols",
            )
        splits = [
            split for name, place in partitions.items() for split in _splits(tree, name, place)
        ]
        if not splits:
            raise InputError(
                "There are protocols and no audio",
                where=str(tree.root),
                expected=f"a folder such as ASVspoof2019_{next(iter(partitions))}_train/flac",
            )
        extra = ("environment",) if "PA" in partitions else ()
        sources = {split.source for split in splits}
        return ProtocolCorpus(
            source=sources.pop() if len(sources) == 1 else self.name,
            root=tree.root,
            read=partial(_read, tree, tuple(splits), extra),
            extra=extra_fields(extra),
            claims_every_file=False,
            audio_folders=tuple(split.audio for split in splits),
        )


CONNECTOR: Final = ASVspoof2019()


def _outer(tree: Tree) -> Tree:
    """The tree itself, or the one above if this is a folder within a partition."""
    above = tree.above() if _WITHIN.fullmatch(tree.root.name) else None
    return above or tree


def _partitions(tree: Tree) -> dict[str, str]:
    """The folder of protocols of each partition, here or one level below."""
    found: dict[str, str] = {}
    for base in ["", *(f"{name}/" for name in tree.folders()[:100])]:
        for name in tree.folders(base.rstrip("/")):
            for partition in _PARTITIONS:
                if name.lower() == f"asvspoof2019_{partition}_cm_protocols".lower():
                    found.setdefault(partition, base + name)
        if found and not base:
            break
    return found


def _splits(tree: Tree, partition: str, place: str) -> Iterator[_Split]:
    """The splits whose protocol and audio folder are both there, in the order train, dev, eval."""
    base = place.rpartition("/")[0]
    prefix = f"{base}/" if base else ""
    protocols = {
        name.split(".")[3].lower(): f"{place}/{name}"
        for name in tree.file_names(_PROTOCOL.fullmatch, place)
    }
    for split in _SPLITS:
        audio = tree.find(f"{prefix}ASVspoof2019_{partition}_{split}/flac")
        if audio and split in protocols:
            source = f"asvspoof2019_{partition.lower()}"
            yield _Split(source, split, protocols[split], audio)


def _read(tree: Tree, splits: tuple[_Split, ...], extra: tuple[str, ...]) -> Iterator[Row]:
    for source, split, protocol, audio in splits:
        for number, line in read_fields(tree, protocol, [_LINE]):
            if isinstance(line, str):
                yield bad_row(source, protocol, number, line)
                continue
            yield labelled(
                Row(
                    line["utterance"],
                    f"{audio}/{line['utterance']}.flac",
                    source,
                    generator=line["attack"],
                    label=line["label"],
                    speaker_id=line["speaker"],
                    language="en",
                    split=split,
                    origin=f"{protocol}:{number}",
                    extra=tuple(line.get(name) for name in extra),
                )
            )
