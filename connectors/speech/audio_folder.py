"""Folders of audio without a protocol: labels come from folder names or from a pattern.

Provenance: anybody's own collection.

Layout: audio files at any depth. The folder nearest to a file whose name is a spelling of bona fide
or spoof (`real`, `fake`, `bona-fide`, `spoof`, `genuine`, …) gives the label, and the folder below
that of a spoof its generator: `fake/hifigan/0001.wav`. With `pattern`, the path without its suffix
is matched against a template such as `{label}/{generator}/{speaker_id}/{name}` or a regular
expression with named groups; groups that are no canonical column become columns of their own.

Quirks: a file without a label folder has no label. Folders that contradict each other
(`fake/real/a.wav`) and paths that the pattern does not match make a refused row.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from connectors.options import check_options, group
from connectors.speech.corpus import ProtocolCorpus
from connectors.speech.labels import BadLabelError, label_of
from connectors.speech.rows import Row, extra_fields, labelled
from connectors.tree import Tree, is_audio, stem
from datalake.connector import Evidence, OptionSpec
from datalake.errors import ConfigError, InputError
from datalake.quarantine import Reason
from datalake.schema import SPOOF
from datalake.uri import Location

__all__ = ["CONNECTOR", "AudioFolder"]

_SETTABLE: Final = ("source", "generator", "label", "speaker_id", "language", "split")
_COLUMNS: Final = ("file_id", *_SETTABLE)
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


class AudioFolder:
    """Connector for folders of audio."""

    name = "audio_folder"
    options = (
        OptionSpec(
            "pattern",
            "a template such as {label}/{generator}/{name}, or a regular expression with named"
            " groups, for the path without its suffix",
        ),
        OptionSpec("set.<name>", "a value for every row, such as set.language=en"),
    )

    def detect(self, root: Location) -> Evidence | None:
        """A folder that holds audio, within three levels."""
        tree = Tree(root)
        example = _first_audio(tree, "", 3)
        if example is None:
            return None
        seen = f"audio files, such as {example}"
        row = _from_folders(Row(stem(example), example, root.name))
        if row.label is None:
            return Evidence(self.name, 0.2, (seen,))
        return Evidence(self.name, 0.3, (seen, f"a folder that is a label: {row.label!r}"))

    def open(self, root: Location, options: Mapping[str, str]) -> ProtocolCorpus:
        """Open the folder.

        Raises:
            InputError: it is no folder, or the pattern cannot be used.
        """
        check_options(self.name, options, self.options)
        constants = group(options, "set", _SETTABLE)
        tree = Tree(root)
        if not tree.names():
            raise InputError(
                "The path is no folder, or an empty one", where=str(root), expected="audio files"
            )
        pattern = _compile(options["pattern"]) if "pattern" in options else None
        names = pattern.groupindex if pattern else ()
        extra = [name for name in names if name not in (*_COLUMNS, "name")]
        source = constants.get("source", root.name)
        return ProtocolCorpus(
            source=source,
            root=root,
            read=partial(_read, tree, source, pattern, tuple(extra), constants),
            extra=extra_fields(extra),
        )


CONNECTOR: Final = AudioFolder()


def _read(
    tree: Tree,
    source: str,
    pattern: re.Pattern[str] | None,
    extra: tuple[str, ...],
    constants: Mapping[str, Any],
) -> Iterator[Row]:
    for path in tree.audio_paths():
        row = Row(stem(path), path, source)
        row = _from_folders(row) if pattern is None else _from_pattern(row, pattern, extra)
        yield row if row.refused else labelled(row._replace(**constants))


def _from_folders(row: Row) -> Row:
    try:
        found = _label_folder(row.path)
    except BadLabelError as error:
        return row._replace(refused=Reason.BAD_LABEL.value, refused_detail=str(error))
    if found is None:
        return row
    label, generator = found
    return row._replace(label=label, generator=generator)


def _label_folder(path: str) -> tuple[str, str | None] | None:
    """The label folder on the way to a file, and the folder below it if that is a generator's.

    Raises:
        BadLabelError: two folders on the way say different things.
    """
    folders = path.split("/")[:-1]
    found: tuple[str, str | None] | None = None
    for index, folder in enumerate(folders):
        try:
            label = label_of(folder)
        except BadLabelError:
            continue
        if found is not None and label_of(found[0]) != label:
            raise BadLabelError(f"the folders {found[0]!r} and {folder!r} contradict each other")
        below = folders[index + 1] if index + 1 < len(folders) else None
        found = (folder, below if label == SPOOF else None)
    return found


def _from_pattern(row: Row, pattern: re.Pattern[str], extra: tuple[str, ...]) -> Row:
    match = pattern.fullmatch(stem(row.path))
    if match is None:
        return row._replace(
            refused=Reason.BAD_ROW.value,
            refused_detail=f"the path does not match the pattern {pattern.pattern}",
        )
    groups = match.groupdict()
    known: dict[str, Any] = {
        name: groups[name] for name in _COLUMNS if groups.get(name) is not None
    }
    return row._replace(**known, extra=tuple(groups[name] for name in extra))


def _compile(pattern: str) -> re.Pattern[str]:
    """A regular expression from a template or from one as it is."""
    text = pattern
    if "(?P<" not in pattern:
        pieces = _PLACEHOLDER.split(pattern)
        # Literal text and names take turns.
        text = "".join(
            f"(?P<{piece}>[^/]+)" if index % 2 else re.escape(piece)
            for index, piece in enumerate(pieces)
        )
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise ConfigError(
            "The pattern cannot be used",
            found=f"{pattern}: {error}",
            expected="a template such as {label}/{generator}/{name}, each name once",
        ) from error
    if not compiled.groupindex:
        raise ConfigError(
            "The pattern names nothing",
            found=pattern,
            expected="a template such as {label}/{generator}/{name}",
        )
    return compiled


def _first_audio(tree: Tree, folder: str, depth: int) -> str | None:
    """The first audio file within `depth` levels; looks at the first folders only."""
    names = tree.names(folder)
    for name, is_folder in names.items():
        path = posixpath.join(folder, name)
        if not is_folder and is_audio(path):
            return path
    if depth:
        for name in [name for name, is_folder in names.items() if is_folder][:20]:
            if found := _first_audio(tree, posixpath.join(folder, name), depth - 1):
                return found
    return None
