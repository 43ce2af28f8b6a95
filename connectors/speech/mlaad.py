"""MLAAD, the multi-language audio anti-spoofing dataset, versions 3 to 9.

Provenance: N. Müller et al., "MLAAD: The multi-language audio anti-spoofing dataset",
https://arxiv.org/abs/2401.09512. Made by over a hundred TTS models in dozens of languages; new
versions add models.

Layout::

    fake/<language>/<model>/meta.csv
    fake/<language>/<model>/*.wav

Each meta.csv has a header and is separated by pipes: `path|original_file|language|
is_original_language|duration|training_data|model_name|architecture|transcript` and, in newer
versions, `|reference_speaker`.

Quirks: quotes in transcripts are plain text. `path` is relative to wherever the authors' copy lay,
so only its last part counts. Spoof only: the bona fide counterpart is M-AILABS, a download of its
own. File names repeat across models. The columns `path` and `duration` are kept as
`protocol_path` and `duration`. The path may be the folder that holds `fake`, `fake`, or one above.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final

from connectors.options import check_options
from connectors.speech.corpus import ProtocolCorpus
from connectors.speech.records import RecordFile
from connectors.speech.rows import Row, bad_row, extra_fields, labelled
from connectors.tree import Tree, find_root, stem
from datalake.connector import Evidence, OptionSpec
from datalake.errors import NotFoundError
from datalake.schema import SPOOF
from datalake.uri import Location

__all__ = ["CONNECTOR", "MLAAD"]

_HEADER: Final = "path|original_file|language|"
_CANONICAL: Final = frozenset({"language", "model_name"})


class MLAAD:
    """Connector for MLAAD."""

    name = "mlaad"
    options: tuple[OptionSpec, ...] = ()

    def detect(self, root: Location) -> Evidence | None:
        """A meta.csv of a model, with this corpus's header."""
        tree = find_root(_outer(root), _is_root)
        if tree is None:
            return None
        first = next(_metas(tree))
        return Evidence(self.name, 0.95, (f"{first} with the header {_HEADER}…",))

    def open(self, root: Location, options: Mapping[str, str]) -> ProtocolCorpus:
        """Open the corpus; reads the header of each model.

        Raises:
            NotFoundError: no model's meta.csv is there.
        """
        check_options(self.name, options, self.options)
        tree = find_root(_outer(root), _is_root)
        if tree is None:
            raise NotFoundError(
                "No model of MLAAD is there",
                where=str(root),
                expected=f"fake/<language>/<model>/meta.csv with the header {_HEADER}…",
            )
        columns = dict.fromkeys(
            name for meta in _metas(tree) for name in _record_file(tree, meta).columns
        )
        extra = tuple(name for name in columns if name not in _CANONICAL)
        return ProtocolCorpus(
            source=self.name,
            root=tree.root,
            read=partial(_read, tree, extra),
            extra=extra_fields(extra),
            audio_folders=(tree.find("fake") or "fake",),
        )


CONNECTOR: Final = MLAAD()


def _outer(location: Location) -> Location:
    above = Tree(location).above() if location.name.lower() == "fake" else None
    return above.root if above else location


def _is_root(tree: Tree) -> bool:
    return any(
        tree.first_lines(meta)[:1] and tree.first_lines(meta)[0].startswith(_HEADER)
        for meta in islice(_metas(tree), 1)
    )


def _metas(tree: Tree) -> Iterator[str]:
    """The meta.csv of every model, in a stable order."""
    fake = tree.find("fake")
    if fake is None:
        return
    for language in tree.folders(fake):
        for model in tree.folders(f"{fake}/{language}"):
            folder = f"{fake}/{language}/{model}"
            if "meta.csv" in tree.names(folder):
                yield f"{folder}/meta.csv"


def _record_file(tree: Tree, meta: str) -> RecordFile:
    return RecordFile(tree.root.join(meta), quoted=False)


def _read(tree: Tree, extra: tuple[str, ...]) -> Iterator[Row]:
    source = MLAAD.name
    for meta in _metas(tree):
        folder = posixpath.dirname(meta)
        _, language, model = folder.split("/")
        for number, line in _record_file(tree, meta).records():
            if isinstance(line, str):
                yield bad_row(source, meta, number, line)
                continue
            name = posixpath.basename(line["path"] or "")
            if not name:
                yield bad_row(source, meta, number, "no path")
                continue
            path = f"{folder}/{name}"
            yield labelled(
                Row(
                    stem(path),
                    path,
                    source,
                    generator=line.get("model_name") or model,
                    label=SPOOF,
                    language=line.get("language") or language,
                    origin=f"{meta}:{number}",
                    extra=tuple(line.get(column) for column in extra),
                )
            )
