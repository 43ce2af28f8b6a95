"""Manifests: a CSV, TSV, JSON Lines or Parquet file with one row an audio file.

Provenance: anybody's own lists, and corpora that come with one.

Layout: a folder with one manifest in it, or the manifest itself. A folder's manifest claims every
audio file below the folder; a manifest given as a file does not. Columns are found by their usual
names (`path`, `file`, `wav`, … `label`, `target`, … `speaker`, `generator`, `attack`, `source`,
`corpus`, …); options say otherwise: `column.path=wav` names a manifest's column,
`set.language=en` gives a constant, `label.spoof=0` a spelling of its own. All further columns are
kept as text.

Quirks: paths may be relative to the manifest, absolute, or uris, and the first row decides which;
for the latter two the root is the folder that all have in common. A byte order mark, quoted fields
with line ends in them, UTF-16, and the delimiters `,` `;` `|` and tab are read. Short and long rows
and bytes that are not UTF-8 are refused rows with their line. 0 and 1 are no label unless an option
says which is which: corpora disagree.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from connectors.options import check_options, group
from connectors.speech.corpus import ProtocolCorpus
from connectors.speech.records import RecordFile, is_record_file
from connectors.speech.rows import Row, bad_row, extra_fields, labelled
from connectors.tree import Tree, is_audio, stem
from datalake.connector import Evidence, OptionSpec
from datalake.errors import ConfigError, InputError, LakeError, SchemaError, nearest
from datalake.schema import BONAFIDE, SPOOF
from datalake.uri import Location, locate

__all__ = ["CONNECTOR", "Manifest"]

_SETTABLE: Final = ("source", "generator", "label", "speaker_id", "language", "split")
_COLUMNS: Final = ("path", "file_id", *_SETTABLE)

# Usual names of each column, the likeliest first; case, spaces, - and _ do not count.
_USUAL: Final = {
    "path": (
        *("path", "filepath", "audiopath", "wavpath", "relativepath", "filename", "file"),
        *("audiofile", "audiofilepath", "wav", "audio", "audiofilename", "location", "uri", "url"),
    ),
    "file_id": ("fileid", "id", "uttid", "utterance", "utteranceid", "utt", "name"),
    "source": ("source", "corpus", "dataset", "database", "sourcecorpus", "datasetname"),
    "generator": (
        *("generator", "attack", "attackid", "model", "modelname", "system", "systemid"),
        *("vocoder", "tts", "method", "algorithm"),
    ),
    "label": ("label", "target", "class", "labels", "isbonafide", "groundtruth", "key"),
    "speaker_id": ("speakerid", "speaker", "spk", "spkid", "clientid", "speakername"),
    "language": ("language", "lang", "locale"),
    "split": ("split", "subset", "partition", "set", "fold"),
}
_PLAIN_STEMS: Final = frozenset({"manifest", "meta", "metadata", "index", "protocol", "labels"})
_CONFIDENCE: Final = {"label": 0.15, "generator": 0.1, "speaker_id": 0.05, "source": 0.05}


class Manifest:
    """Connector for manifests."""

    name = "manifest"
    options = (
        OptionSpec(
            "column.<name>",
            f"the manifest's column that holds <name>: {', '.join(_COLUMNS)}",
        ),
        OptionSpec("set.<name>", f"a value for every row: {', '.join(_SETTABLE)}"),
        OptionSpec("label.<name>", "spellings of bonafide or spoof, such as label.spoof=0,fake"),
        OptionSpec("root", "the folder that paths are relative to", "the manifest's folder"),
    )

    def detect(self, root: Location) -> Evidence | None:
        """A manifest whose header has a column of paths."""
        found = _find_manifests(root)
        if not found:
            return None
        manifest, columns = found[0]
        if len(found) > 1:
            names = ", ".join(other.name for other, _ in found)
            return Evidence(self.name, 0.4, (f"several manifests, of which to give one: {names}",))
        known = [name for name in _COLUMNS if name in columns]
        seen = ", ".join(f"{columns[name]} ({name})" for name in known)
        confidence = round(0.5 + sum(_CONFIDENCE.get(name, 0) for name in known), 2)
        return Evidence(self.name, confidence, (f"the manifest {manifest.name}", f"columns {seen}"))

    def open(self, root: Location, options: Mapping[str, str]) -> ProtocolCorpus:
        """Open the manifest, or the one in the folder.

        Raises:
            SchemaError: it has no column of paths, or a column that an option names is not there.
            InputError: the folder holds none, or several; an option is wrong.
        """
        check_options(self.name, options, self.options)
        asked = group(options, "column", _COLUMNS)
        constants = group(options, "set", _SETTABLE)
        spellings = _spellings(group(options, "label", (BONAFIDE, SPOOF)))
        is_file = _is_file(root)
        manifest = RecordFile(root) if is_file else _only_manifest(root, asked)
        columns = _choose_columns(manifest, asked, constants)
        folder = posixpath.basename(posixpath.dirname(manifest.location.uri))
        _check_numbers(manifest, columns, spellings)
        given = locate(options["root"], root.options) if "root" in options else None
        base = given or _root_of(manifest, columns["path"])
        extra = tuple(name for name in manifest.columns if name not in columns.values())
        plan = _Plan(manifest, given, base, columns, constants, spellings, folder, extra)
        plain = stem(manifest.name).lower() in _PLAIN_STEMS
        return ProtocolCorpus(
            source=constants.get("source", folder if plain else f"{folder}_{stem(manifest.name)}"),
            root=base,
            read=partial(_read, plan),
            extra=extra_fields(extra),
            claims_every_file=not is_file,
        )


CONNECTOR: Final = Manifest()


@dataclass(frozen=True)
class _Plan:
    """How to read one manifest's rows."""

    manifest: RecordFile
    given_root: Location | None
    """What the paths are written relative to; None: the manifest's folder."""
    root: Location
    """Of the corpus: above all files."""
    columns: Mapping[str, str]
    """The manifest's column of each canonical one that it has."""
    constants: Mapping[str, Any]
    spellings: Mapping[str, str]
    folder: str
    """The source where no column and no option gives one."""
    extra: tuple[str, ...]


def _read(plan: _Plan) -> Iterator[Row]:
    """The rows of a manifest, one at a time."""
    name = plan.manifest.name
    optional = [(column, plan.columns[column]) for column in _COLUMNS[1:] if column in plan.columns]
    for number, record in plan.manifest.records():
        if isinstance(record, str):
            yield bad_row(plan.folder, name, number, record)
            continue
        written = (record[plan.columns["path"]] or "").strip()
        if not written:
            yield bad_row(plan.folder, name, number, "no path")
            continue
        address = _resolve(plan.manifest.location, written, plan.given_root)
        prefix = plan.root.uri.rstrip("/") + "/"
        if not address.startswith(prefix):
            yield bad_row(
                plan.folder, name, number, f"{written} lies outside {plan.root}: give option root"
            )
            continue
        path = address[len(prefix) :]
        values: dict[str, Any] = {
            column: value.strip() for column, of in optional if (value := record[of])
        }
        values = {"file_id": stem(path), "source": plan.folder, **values, **plan.constants}
        row = Row(path=path, **values)._replace(
            origin=f"{name}:{number}", extra=tuple(record[column] or None for column in plan.extra)
        )
        yield labelled(row, plan.spellings)


def _resolve(manifest: Location, written: str, root: Location | None) -> str:
    """The full address of a path as a manifest writes it, relative to `root` or to its folder."""
    if "/" not in written:
        written = written.replace("\\", "/")
    if "://" in written:
        return locate(written, manifest.options).uri
    base = posixpath.dirname(manifest.uri) if root is None else root.uri
    scheme, sep, rest = posixpath.join(base, written).rpartition("://")
    return scheme + sep + posixpath.normpath(rest)


def _root_of(manifest: RecordFile, column: str) -> Location:
    """The manifest's folder, or what all paths have in common if the first leads out of it.

    Raises:
        InputError: the paths have no folder in common.
    """
    location = manifest.location
    folder = Location(posixpath.dirname(location.uri), location.options)
    addresses = (
        _resolve(location, path.strip(), None)
        for _, record in manifest.records()
        if not isinstance(record, str) and (path := record[column])
    )
    first = next(addresses, None)
    if first is None or first.startswith(folder.uri + "/"):
        return folder
    shared = posixpath.dirname(first)
    for address in addresses:
        while shared and not address.startswith(shared + "/"):
            shared = posixpath.dirname(shared).rstrip("/")
    if not shared or shared.endswith(":"):
        raise InputError(
            "The paths of the manifest have no folder in common",
            where=str(location),
            fix="Split the manifest, or give the folder with --option root=",
        )
    return Location(shared, location.options)


def _is_file(root: Location) -> bool:
    """Whether the path is a manifest, and not a folder that is named like one."""
    return is_record_file(root.name) and not Tree(root).names()


def _find_manifests(root: Location) -> list[tuple[RecordFile, dict[str, str]]]:
    """The manifests at a path, with their columns; those without a column of paths are none."""
    tree = Tree(root)
    names = [""] if _is_file(root) else tree.file_names(is_record_file)
    found = []
    for name in names:
        manifest = RecordFile(root.join(name) if name else root)
        try:
            columns = _usual_columns(manifest.columns)
            path = columns.get("path")
            sample = (
                next((value for value in manifest.first_values(path) if value), "") if path else ""
            )
        except LakeError:
            continue
        if is_audio(sample):
            found.append((manifest, columns))
    return found


def _only_manifest(root: Location, asked: Mapping[str, str]) -> RecordFile:
    places = Tree(root).file_names(is_record_file)
    if len(places) > 1 and "path" not in asked:
        places = [manifest.name for manifest, _ in _find_manifests(root)] or places
    if len(places) != 1:
        raise InputError(
            "The folder does not hold exactly one manifest",
            where=str(root),
            expected="one file of .csv, .tsv, .jsonl or .parquet",
            found=", ".join(places) or "none",
            fix="Give the manifest itself as the path",
        )
    return RecordFile(root.join(places[0]))


def _usual_columns(names: tuple[str, ...]) -> dict[str, str]:
    """The manifest's column for each canonical one whose usual names it has; each used once."""
    plain: dict[str, str] = {}
    for name in names:
        plain.setdefault(name.lower().replace("_", "").replace("-", "").replace(" ", ""), name)
    chosen: dict[str, str] = {}
    for column, usual in _USUAL.items():
        free = (plain[name] for name in usual if name in plain)
        if found := next((name for name in free if name not in chosen.values()), None):
            chosen[column] = found
    return chosen


def _choose_columns(
    manifest: RecordFile, asked: Mapping[str, str], constants: Mapping[str, str]
) -> dict[str, str]:
    """The manifest's column for each canonical one: as asked, else as usual.

    Raises:
        SchemaError: a column that was asked for is not there, or none is a column of paths.
    """
    names = manifest.columns
    for column, name in asked.items():
        if name not in names:
            raise SchemaError(
                f"The manifest has no column {name!r}",
                where=str(manifest.location),
                found=f"the columns {', '.join(names)}",
                fix=f"{nearest(name, names)}; give it as --option column.{column}=NAME",
            )
    free = tuple(name for name in names if name not in asked.values())
    usual = {
        column: name
        for column, name in _usual_columns(free).items()
        if column not in asked and column not in constants
    }
    columns = {**usual, **asked}
    if "path" not in columns:
        raise SchemaError(
            "The manifest has no column of paths that is known",
            where=str(manifest.location),
            found=f"the columns {', '.join(names)}",
            expected=f"one of {', '.join(_USUAL['path'][:6])}, …",
            fix=f"{nearest('path', names)}; give it as --option column.path=NAME",
        )
    return columns


def _spellings(asked: Mapping[str, str]) -> dict[str, str]:
    """The label of each spelling that options give, in lower case."""
    own: dict[str, str] = {}
    for label, words in asked.items():
        for word in words.split(","):
            if own.setdefault(word.strip().lower(), label) != label:
                raise ConfigError(f"The spelling {word.strip()!r} is given to both labels")
    return own


def _check_numbers(
    manifest: RecordFile, columns: Mapping[str, str], spellings: Mapping[str, str]
) -> None:
    """Refuse a column of numbers as labels before any row is read, unless options explain it."""
    if spellings or "label" not in columns:
        return
    values = {value.strip().lower() for value in manifest.first_values(columns["label"]) if value}
    if values and values <= {"0", "1", "-1", "0.0", "1.0", "true", "false"}:
        raise InputError(
            f"The labels in column {columns['label']!r} are numbers, and corpora disagree on them",
            where=str(manifest.location),
            found=", ".join(sorted(values)),
            fix="Say which is which: --option label.bonafide=1 --option label.spoof=0",
        )
