"""ASVspoof 2021, logical access (LA) and deepfake (DF): evaluation sets only.

Provenance: X. Liu et al., "ASVspoof 2021: Towards spoofed and deepfake speech detection in the
wild", https://arxiv.org/abs/2210.02437. 16 kHz FLAC after transmission (LA) or lossy compression
(DF); from VCTK and, in DF, the Voice Conversion Challenges of 2018 and 2020.

Layout::

    ASVspoof2021_LA_eval/flac/LA_E_<number>.flac
    ASVspoof2021_LA_eval/ASVspoof2021.LA.cm.eval.trl.txt    one utterance a line
    ASVspoof2021_DF_eval/…                                  the same with DF
    keys/LA/CM/trial_metadata.txt                           a download of its own

A line of the keys has no header: `speaker utterance codec transmission attack label trim subset` in
LA, and `speaker utterance codec source attack label trim subset vocoder_class task team gender_pair
language` in DF, where `-` stands for nothing. All of them are kept; `codec`, `source` and
`language` become `protocol_codec`, `protocol_source` and `protocol_language`.

Quirks: without keys the corpus is a blind set, and labels are null. `subset` is progress, eval or
hidden; in the hidden subset silence was trimmed, so `trim` is a shortcut to look out for. The DF
audio comes in four archives that unpack into one folder. The path may be the folder that holds an
evaluation folder, one above, or the evaluation folder itself.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from connectors.options import check_options, choice
from connectors.speech.corpus import ProtocolCorpus
from connectors.speech.protocol_lines import read_fields
from connectors.speech.rows import Row, bad_row, extra_fields, labelled
from connectors.tree import Tree, stem
from datalake.connector import Evidence, OptionSpec
from datalake.errors import NotFoundError
from datalake.uri import Location, locate

__all__ = ["CONNECTOR", "ASVspoof2021"]

_COMMON: Final = ("attack", "label", "trim", "subset")
_LA_LINE: Final = ("speaker", "utterance", "codec", "transmission", *_COMMON)
_DF_SHORT: Final = ("speaker", "utterance", "codec", "source", *_COMMON)
_DF_LINE: Final = (*_DF_SHORT, "vocoder_class", "task", "team", "gender_pair", "language")
_LAYOUTS: Final = {"LA": (_LA_LINE,), "DF": (_DF_LINE, _DF_SHORT)}
_CANONICAL: Final = frozenset({"speaker", "utterance", "attack", "label"})
_EVAL_FOLDER: Final = re.compile(r"ASVspoof2021_(LA|DF)_eval", re.IGNORECASE)


class _Set(NamedTuple):
    """One evaluation set that is there."""

    partition: str
    folder: str
    keys: tuple[Tree, str] | None

    @property
    def source(self) -> str:
        return f"asvspoof2021_{self.partition.lower()}"


class ASVspoof2021:
    """Connector for ASVspoof 2021."""

    name = "asvspoof2021"
    options = (
        OptionSpec("partition", "LA or DF", "all that are there"),
        OptionSpec(
            "keys", "trial_metadata.txt or the unpacked folder of keys", "looked for near the audio"
        ),
    )

    def detect(self, root: Location) -> Evidence | None:
        """An evaluation folder by its name."""
        tree, found = _eval_folders(Tree(root))
        if not found:
            return None
        seen = []
        for partition, folder in found.items():
            keys = _find_keys(tree, partition, folder, None)
            seen.append(f"the folder {folder}, {'with' if keys else 'without'} keys")
        return Evidence(self.name, 0.95, tuple(seen))

    def open(self, root: Location, options: Mapping[str, str]) -> ProtocolCorpus:
        """Open the evaluation sets that are there.

        Raises:
            NotFoundError: no evaluation folder is there, or the option `keys` leads to none.
        """
        check_options(self.name, options, self.options)
        asked = choice(options, "partition", tuple(_LAYOUTS))
        tree, folders = _eval_folders(Tree(root))
        sets = tuple(
            _Set(partition, folder, _find_keys(tree, partition, folder, options.get("keys")))
            for partition, folder in folders.items()
            if asked in (None, partition)
        )
        if not sets:
            raise NotFoundError(
                "No evaluation set of ASVspoof 2021 is there",
                where=str(root),
                expected=f"a folder ASVspoof2021_{asked or 'LA'}_eval",
            )
        if "keys" in options and not any(each.keys for each in sets):
            raise NotFoundError(
                "The keys are not there",
                where=options["keys"],
                expected="trial_metadata.txt, or a folder that holds keys/LA/CM/trial_metadata.txt",
            )
        layouts = [_LAYOUTS[each.partition][0] for each in sets if each.keys]
        extra = tuple(
            dict.fromkeys(name for layout in layouts for name in layout if name not in _CANONICAL)
        )
        return ProtocolCorpus(
            source=sets[0].source if len(sets) == 1 else self.name,
            root=tree.root,
            read=partial(_read, tree, sets, extra),
            extra=extra_fields(extra),
            audio_folders=tuple(f"{each.folder}/flac" for each in sets),
        )


CONNECTOR: Final = ASVspoof2021()


def _eval_folders(tree: Tree) -> tuple[Tree, dict[str, str]]:
    """The evaluation folder of each partition, and the tree that their paths are relative to."""
    if match := _EVAL_FOLDER.fullmatch(tree.root.name):
        return tree.above() or tree, {match[1].upper(): tree.root.name}
    found: dict[str, str] = {}
    names = tree.folders()
    below = (f"{outer}/{name}" for outer in names[:100] for name in tree.folders(outer))
    for place in (*names, *below):
        if match := _EVAL_FOLDER.fullmatch(posixpath.basename(place)):
            found.setdefault(match[1].upper(), place)
    return tree, dict(sorted(found.items()))


def _find_keys(
    tree: Tree, partition: str, folder: str, option: str | None
) -> tuple[Tree, str] | None:
    """The tree and path of a partition's trial metadata; None if it is nowhere near."""
    if option is None:
        above = posixpath.dirname(folder)
        bases = [tree.root.join(base) if base else tree.root for base in (folder, above, "")]
    elif "://" in option or posixpath.isabs(option):
        bases = [locate(option, tree.root.options)]
    else:
        bases = [tree.root.join(option)]
    for base in bases:
        if base.name.lower().endswith(".txt"):
            places, here = [base.name], Tree(base).above() or tree
        else:
            inner = (f"keys/{partition}/CM/", f"{partition}/CM/", "keys/CM/", "CM/", "")
            places, here = [f"{prefix}trial_metadata.txt" for prefix in inner], Tree(base)
        for place in places:
            path = here.find(place)
            # The keys of both sets have the same file name.
            if path and any(f"{partition}_E_" in line for line in here.first_lines(path)):
                return here, path
    return None


def _read(tree: Tree, sets: tuple[_Set, ...], extra: tuple[str, ...]) -> Iterator[Row]:
    for each in sets:
        yield from _read_blind(tree, each) if each.keys is None else _read_keys(each, extra)


def _read_keys(each: _Set, extra: tuple[str, ...]) -> Iterator[Row]:
    assert each.keys is not None
    tree, path = each.keys
    for number, line in read_fields(tree, path, _LAYOUTS[each.partition]):
        if isinstance(line, str):
            yield bad_row(each.source, path, number, line)
            continue
        known = {name: None if value == "-" else value for name, value in line.items()}
        yield labelled(
            Row(
                line["utterance"],
                f"{each.folder}/flac/{line['utterance']}.flac",
                each.source,
                generator=line["attack"],
                label=line["label"],
                speaker_id=known["speaker"],
                language="en" if known.get("language") is None else None,
                split="eval",
                origin=f"{path}:{number}",
                extra=tuple(known.get(name) for name in extra),
            )
        )


def _read_blind(tree: Tree, each: _Set) -> Iterator[Row]:
    """Rows without labels, from the files that are there."""
    for path in tree.audio_paths([f"{each.folder}/flac"]):
        utterance = stem(posixpath.basename(path))
        yield Row(utterance, path, each.source, language="en", split="eval")
