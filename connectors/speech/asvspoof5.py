"""ASVspoof 5, track 1: crowdsourced speech, 32 attacks, adversarial attacks and codecs.

Provenance: X. Wang et al., "ASVspoof 5: Design, collection and validation of resources for
spoofing, deepfake, and adversarial attack detection using crowdsourced speech",
https://arxiv.org/abs/2502.08857. 16 kHz FLAC, English, from the LibriVox readings of Multilingual
LibriSpeech.

Layout::

    ASVspoof5.{train,dev.track_1,eval.track_1}.tsv     in the root or a folder of protocols
    flac_T/ flac_D/ flac_E_eval/                       <utterance>.flac

Quirks: the `.tsv` files have no header and are separated by spaces, not tabs: `speaker utterance
gender codec codec_q codec_seed attack_condition attack label` and a tenth column that is always
`-`. A bona fide row's attack is `bonafide`. The earlier `*.metadata.txt` has six columns, `speaker
utterance gender attack_condition attack label`. Reading either with a header line loses the first
utterance of each split. Where both are there the newer is read. A split whose audio folder is not
there was not downloaded and is left out. The path may be the root, one above, or a folder in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from connectors.options import check_options
from connectors.speech.corpus import ProtocolCorpus
from connectors.speech.protocol_lines import read_fields
from connectors.speech.rows import Row, bad_row, extra_fields, labelled
from connectors.tree import Tree, find_root
from datalake.connector import Evidence, OptionSpec
from datalake.errors import InputError, NotFoundError
from datalake.uri import Location

__all__ = ["CONNECTOR", "ASVspoof5"]

_EXTRA: Final = ("gender", "codec", "codec_q", "codec_seed", "attack_condition")
_LINE: Final = ("speaker", "utterance", *_EXTRA, "attack", "label", "unused")
_OLD_LINE: Final = ("speaker", "utterance", "gender", "attack_condition", "attack", "label")
_PROTOCOL: Final = re.compile(
    r"ASVspoof5\.(?:train|dev|eval)(?:\.track_1)?(?:\.metadata)?\.(?:tsv|txt)", re.IGNORECASE
)
_AUDIO: Final = {"train": "flac_T", "dev": "flac_D", "eval": "flac_E_eval"}
_WITHIN: Final = frozenset(folder.lower() for folder in _AUDIO.values())


class _Split(NamedTuple):
    split: str
    protocol: str
    audio: str


class ASVspoof5:
    """Connector for ASVspoof 5."""

    name = "asvspoof5"
    options: tuple[OptionSpec, ...] = ()

    def detect(self, root: Location) -> Evidence | None:
        """A protocol by its name."""
        tree = _find(root)
        if tree is None:
            return None
        return Evidence(
            self.name, 0.95, tuple(f"the protocol {path}" for path in _protocols(tree).values())
        )

    def open(self, root: Location, options: Mapping[str, str]) -> ProtocolCorpus:
        """Open the splits that are there.

        Raises:
            NotFoundError: no protocol is there.
            InputError: no audio folder of any protocol is there.
        """
        check_options(self.name, options, self.options)
        tree = _find(root)
        if tree is None:
            raise NotFoundError(
                "No protocol of ASVspoof 5 is there",
                where=str(root),
                expected="ASVspoof5.train.tsv, ASVspoof5.dev.track_1.tsv or the like",
            )
        protocols = _protocols(tree)
        splits = tuple(
            _Split(split, protocols[split], audio)
            for split, folder in _AUDIO.items()
            if split in protocols and (audio := tree.find(folder))
        )
        if not splits:
            raise InputError(
                "There are protocols and no audio",
                where=str(tree.root),
                expected=f"a folder {', '.join(_AUDIO[split] for split in protocols)}",
            )
        return ProtocolCorpus(
            source=self.name,
            root=tree.root,
            read=partial(_read, tree, splits),
            extra=extra_fields(_EXTRA),
            audio_folders=tuple(split.audio for split in splits),
        )


CONNECTOR: Final = ASVspoof5()


def _find(location: Location) -> Tree | None:
    if location.name.lower() in _WITHIN and (above := Tree(location).above()):
        location = above.root
    return find_root(location, lambda tree: bool(_protocols(tree)))


def _protocols(tree: Tree) -> dict[str, str]:
    """The protocol of each split, in the root or in a folder of protocols; newer ones win."""
    places = [""] + [name for name in tree.folders() if "protocol" in name.lower()]
    found: dict[str, str] = {}
    for place in places:
        for name in tree.file_names(_PROTOCOL.fullmatch, place):
            split = name.split(".")[1].lower()
            if split not in found or name.lower().endswith(".tsv"):
                found[split] = f"{place}/{name}" if place else name
    return found


def _read(tree: Tree, splits: tuple[_Split, ...]) -> Iterator[Row]:
    source = ASVspoof5.name
    for split, protocol, audio in splits:
        for number, line in read_fields(tree, protocol, [_LINE, _OLD_LINE]):
            if isinstance(line, str):
                yield bad_row(source, protocol, number, line)
                continue
            known = {name: value for name, value in line.items() if value != "-"}
            yield labelled(
                Row(
                    line["utterance"],
                    f"{audio}/{line['utterance']}.flac",
                    source,
                    generator=line["attack"],
                    label=line["label"],
                    speaker_id=known.get("speaker"),
                    language="en",
                    split=split,
                    origin=f"{protocol}:{number}",
                    extra=tuple(known.get(name) for name in _EXTRA),
                )
            )
