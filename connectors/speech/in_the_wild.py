"""In-the-Wild: public figures, real and faked, found on the web.

Provenance: N. Müller et al., "Does audio deepfake detection generalize?",
https://arxiv.org/abs/2203.16263. 16 kHz WAV, English, 54 speakers.

Layout::

    release_in_the_wild/meta.csv      header `file,speaker,label`
    release_in_the_wild/<number>.wav

Quirks: bona fide is spelled `bona-fide`. What made a spoof is not said, so its generator is
`unknown`, and there is no split: the set is meant for testing. The path may be the folder or the
one above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from connectors.options import check_options
from connectors.speech.corpus import ProtocolCorpus
from connectors.speech.records import RecordFile
from connectors.speech.rows import Row, bad_row, labelled
from connectors.tree import Tree, find_root, stem
from datalake.connector import Evidence, OptionSpec
from datalake.errors import NotFoundError
from datalake.uri import Location

__all__ = ["CONNECTOR", "InTheWild"]

_META: Final = "meta.csv"
_HEADER: Final = "file,speaker,label"


class InTheWild:
    """Connector for In-the-Wild."""

    name = "in_the_wild"
    options: tuple[OptionSpec, ...] = ()

    def detect(self, root: Location) -> Evidence | None:
        """A meta.csv with this corpus's header."""
        tree = find_root(root, _is_root)
        if tree is None:
            return None
        named = tree.root.name.lower() == "release_in_the_wild"
        seen = f"{tree.root.name}/{_META} with the header {_HEADER}"
        return Evidence(self.name, 0.95 if named else 0.9, (seen,))

    def open(self, root: Location, options: Mapping[str, str]) -> ProtocolCorpus:
        """Open the corpus.

        Raises:
            NotFoundError: there is no meta.csv with this corpus's header.
        """
        check_options(self.name, options, self.options)
        tree = find_root(root, _is_root)
        if tree is None:
            raise NotFoundError(
                "In-the-Wild's protocol is not there",
                where=str(root),
                expected=f"{_META} with the header {_HEADER}",
            )
        return ProtocolCorpus(self.name, tree.root, partial(_read, tree.root))


CONNECTOR: Final = InTheWild()


def _is_root(tree: Tree) -> bool:
    return bool(tree.find(_META)) and tree.first_lines(_META) == [_HEADER]


def _read(root: Location) -> Iterator[Row]:
    source = InTheWild.name
    for number, line in RecordFile(root.join(_META)).records():
        if isinstance(line, str):
            yield bad_row(source, _META, number, line)
            continue
        path = line["file"] or ""
        if not path:
            yield bad_row(source, _META, number, "no file")
            continue
        yield labelled(
            Row(
                stem(path),
                path,
                source,
                label=line["label"],
                speaker_id=line["speaker"] or None,
                language="en",
                origin=f"{_META}:{number}",
            )
        )
