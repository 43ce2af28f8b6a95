"""The leakage audit: what stands on both sides of a line that a test is to respect.

Public corpora are made of one another: the same speakers, sentences and recordings come back under
other names, coded and synthesised anew. A test that shares them with the training measures memory.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.audit.base_corpora import base_of
from curation.audit.near_vectors import NearVectors, SidedVectors
from curation.audit.recordings import MOST_BITS_APART, RecordingIndex, best_match
from curation.engine import spilling_engine
from curation.neighbors.unit_vectors import dims_of, rows_at_once, unit_vectors
from curation.quality.audio_fingerprint import Words, words_of
from datalake.errors import InputError, SchemaError, StoreError
from datalake.lake import Selection
from datalake.tables import Table

__all__ = ["KINDS", "Leak", "LeakageAudit", "Side", "audit_leakage", "normalized_text"]

KINDS: Final = {
    "utterance": "rows with one utt_id",
    "bytes": "files with the same bytes (sha256)",
    "recording": "the same recording, coded or synthesised anew (fingerprint)",
    "embedding": "rows whose embeddings point the same way",
    "base_utterance": "utterances of a well-known corpus, by their names",
    "base_speaker": "speakers of a well-known corpus, by the utterances' names",
    "base_corpus": "corpora that both sides were made from",
    "speaker": "speaker_id",
    "text": "transcripts, without case and punctuation",
    "generator": "generator",
}
"""What two sides can share, the gravest first. The first three are utterances themselves."""

_TEXT_COLUMNS: Final = ("text", "transcript", "transcription", "sentence", "normalized_text")
_NAMES: Final = ("utt_id", "path")
_EXAMPLES: Final = 5
_CHUNK_ROWS: Final = 4096

IntArray = npt.NDArray[np.int64]
Values: TypeAlias = Callable[[pa.RecordBatch], list[list[str]]]
"""From rows to the values that each of them has."""


@dataclass(frozen=True)
class Side:
    """Rows on one side of the line."""

    name: str
    table: Table
    selection: Selection | None = None
    """None: all rows of the table."""


@dataclass(frozen=True)
class Leak:
    """What two sides have in common, of one kind."""

    kind: str
    left: str
    right: str
    num_values: int
    """Different values that stand on both sides; of recordings and embeddings, pairs of rows."""
    num_left_rows: int
    """Rows of the left side that have one of them."""
    num_right_rows: int
    examples: tuple[str, ...]
    """Up to five of the values, those of the most rows first."""

    @property
    def is_utterance(self) -> bool:
        """Whether utterances themselves are shared, so that scores are worthless."""
        return self.kind in ("utterance", "bytes", "recording")


@dataclass(frozen=True)
class LeakageAudit:
    """What an audit found."""

    sides: Mapping[str, int]
    """Rows of each side."""
    leaks: tuple[Leak, ...]
    """In the order of `KINDS`, then the most rows first."""
    not_checked: Mapping[str, str]
    """Kinds that could not be checked, and why."""


def audit_leakage(
    sides: Sequence[Side] | Table,
    *,
    by: str = "source",
    bases: Mapping[str, Sequence[str]] | None = None,
    text: str | None = None,
    fingerprint: str = "fingerprint",
    most_bits_apart: float = MOST_BITS_APART,
    embedding: str | None = None,
    least_cosine: float = 0.95,
) -> LeakageAudit:
    """Find what sides share, each pair of sides for itself.

    Keys are grouped by an engine that spills to disk; fingerprints are indexed in memory
    (`RecordingIndex`) and read again, pair by pair, to be compared; embeddings of every row are
    compared with as many as 128 MB hold. Beside that, 8 bytes a row.

    Args:
        sides: two sides or more, such as training and test; or one table, whose rows are parted by
            a column.
        by: for one table, the column whose values are the sides: `source`, `domain`, `split`.
        bases: for a source, the names of the corpora that it was made from, where names do not say.
        text: the column of transcripts; None for the first of text, transcript, transcription,
            sentence and normalized_text that is there.
        fingerprint: the column of fingerprints (`curation.quality.audio_fingerprint`).
        most_bits_apart: up to which share of different bits two rows hold one recording.
        embedding: a column of embeddings to compare, too: of speakers, say (`curate embed`).
        least_cosine: from which cosine on two of them are near. What is near depends on what made
            them: look at the pairs.

    Raises:
        SchemaError: a column that was named is missing.
        InputError: there are fewer than two sides, or two of one name.
        StoreError: a table cannot be read.
    """
    rows = _Rows.of(sides, by)
    kinds, not_checked = _kinds(rows, text, fingerprint, bases or {})
    leaks: list[Leak] = []
    for kind, (columns, values) in kinds.items():
        leaks += _shared(kind, rows, columns, values)
    if "recording" not in not_checked:
        found = _recordings(rows, fingerprint, most_bits_apart)
        leaks += found[0]
        if found[1] < 1:
            not_checked["recording"] = (
                f"of all fingerprint words {found[1]:.0%} are indexed: some short clips are missed"
            )
    if embedding is not None:
        near, share = _near(rows, embedding, least_cosine)
        leaks += near
        if share < 1:
            not_checked["embedding"] = (
                f"of the rows of each left side {share:.0%} were compared with the others"
            )
    order = list(KINDS)
    leaks.sort(
        key=lambda leak: (
            order.index(leak.kind), -leak.num_left_rows - leak.num_right_rows, leak.left, leak.right
        )
    )  # fmt: skip
    return LeakageAudit(rows.count(), tuple(leaks), not_checked)


def normalized_text(text: str) -> str:
    """A transcript without case, punctuation and repeated spaces (Unicode NFKC)."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[^\w\s]|_", "", folded).split())


@dataclass(frozen=True)
class _Rows:
    """The rows of all sides, streamed."""

    sides: tuple[Side, ...]
    by: str | None

    @classmethod
    def of(cls, sides: Sequence[Side] | Table, by: str) -> _Rows:
        if isinstance(sides, Sequence):
            if len({side.name for side in sides}) < max(len(sides), 2):
                raise InputError(
                    "A leakage audit compares sides",
                    expected="two or more, each with a name of its own",
                    found=", ".join(side.name for side in sides) or "none",
                )
            rows, needed = cls(tuple(sides), None), ["utt_id"]
        else:
            rows, needed = cls((Side("", sides),), by), ["utt_id", by]
        for side in rows.sides:
            side.table.scan(needed, limit=0)  # names what is missing, and what is nearest
        return rows

    def have(self, column: str) -> bool:
        """Whether all sides have the column."""
        return all(column in side.table.schema.names for side in self.sides)

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Rows with these columns, and the side of each."""
        for side in self.sides:
            parting = [self.by] if self.by else []
            read = list(dict.fromkeys(["utt_id", *parting, *columns]))
            chosen = (
                side.selection.rows["utt_id"].combine_chunks()
                if side.selection is not None
                else None
            )
            for batch in side.table.scan(read, with_row_index=True):
                part = batch
                if chosen is not None:
                    part = batch.filter(pc.is_in(batch["utt_id"], value_set=chosen))
                if self.by:
                    part = part.filter(part[self.by].is_valid())
                    names = part[self.by].cast(pa.string())
                else:
                    names = pa.array([side.name] * part.num_rows, pa.string())
                if part.num_rows:
                    yield part, names

    def table_of(self, side: str) -> Table:
        """The table that a side's rows are in."""
        return next(each.table for each in self.sides if self.by or each.name == side)

    def count(self) -> dict[str, int]:
        """How many rows each side has."""
        counts: dict[str, int] = {}
        for _, names in self.batches([]):
            for pair in pc.value_counts(names).to_pylist():
                counts[pair["values"]] = counts.get(pair["values"], 0) + pair["counts"]
        return dict(sorted(counts.items()))


def _kinds(
    rows: _Rows, text: str | None, fingerprint: str, bases: Mapping[str, Sequence[str]]
) -> tuple[dict[str, tuple[list[str], Values]], dict[str, str]]:
    """How to get the values of each kind that can be checked; why not, of the others."""
    if text is not None and not rows.have(text):
        raise SchemaError(
            "There is no such column of transcripts", expected=text, where=rows.sides[0].table.uri
        )
    texts = text or next((name for name in _TEXT_COLUMNS if rows.have(name)), None)
    kinds: dict[str, tuple[list[str], Values]] = {}
    missing: dict[str, str] = {}

    def column(kind: str, name: str | None, change: Callable[[str], str] = str) -> None:
        if name is None or not rows.have(name):
            missing[kind] = f"there is no column {name or ' or '.join(_TEXT_COLUMNS)}"
        elif name != rows.by:
            kinds[kind] = ([name], lambda batch: _each(batch[name], change))

    column("utterance", "utt_id")
    column("bytes", "sha256")
    column("speaker", "speaker_id")
    column("text", texts, normalized_text)
    column("generator", "generator")
    if not rows.have(fingerprint):
        missing["recording"] = f"there is no column {fingerprint}"
    names = [name for name in _NAMES if rows.have(name)]
    for part in ("utterance", "speaker"):
        kinds[f"base_{part}"] = (names, _of_base(names, part))
    sources = ["source"] if rows.have("source") else []

    def corpora(batch: pa.RecordBatch) -> list[list[str]]:
        told: Sequence[str | None] = (
            batch["source"].to_pylist() if sources else [None] * batch.num_rows
        )
        found = _of_base(names, "corpus")(batch)
        return [
            sorted({*own, *bases.get(source or "", ())})
            for own, source in zip(found, told, strict=True)
        ]

    kinds["base_corpus"] = ([*names, *sources], corpora)
    return kinds, missing


def _each(column: pa.Array, change: Callable[[str], str]) -> list[list[str]]:
    return [[] if not value else [change(str(value))] for value in column.to_pylist()]


def _of_base(names: Sequence[str], part: str) -> Values:
    def values(batch: pa.RecordBatch) -> list[list[str]]:
        columns = [batch[name].to_pylist() for name in names]
        bases = (base_of(row) for row in zip(*columns, strict=True))
        return [[getattr(base, part)] if base else [] for base in bases]

    return values


def _shared(kind: str, rows: _Rows, columns: Sequence[str], values: Values) -> list[Leak]:
    """What pairs of sides share of one kind."""
    with spilling_engine() as engine:
        engine.register("stream", pa.RecordBatchReader.from_batches(
            _PAIRS, _pairs(rows, columns, values)
        ))  # fmt: skip
        try:
            engine.execute(
                """CREATE TEMP TABLE counted AS
                   SELECT value, side, count(*) AS n FROM stream WHERE value <> '' GROUP BY ALL"""
            )
        except Exception as error:
            raise StoreError(
                "The keys of a table could not be read to their end",
                where=rows.sides[0].table.uri,
                found=str(error).partition("\n")[0],
            ) from error
        found = engine.execute(
            f"""WITH shared AS (SELECT value FROM counted GROUP BY value HAVING count(*) > 1),
                     kept AS (SELECT * FROM counted SEMI JOIN shared USING (value))
                SELECT a.side, b.side, count(*), sum(a.n)::BIGINT, sum(b.n)::BIGINT,
                       list(a.value ORDER BY a.n + b.n DESC, a.value)[:{_EXAMPLES}]
                FROM kept a JOIN kept b ON a.value = b.value AND a.side < b.side
                GROUP BY a.side, b.side"""
        ).fetchall()
    return [
        Leak(kind, left, right, num_values, num_left, num_right, tuple(examples))
        for left, right, num_values, num_left, num_right, examples in found
    ]


_PAIRS: Final = pa.schema([("value", pa.string()), ("side", pa.string())])


def _pairs(rows: _Rows, columns: Sequence[str], values: Values) -> Iterator[pa.RecordBatch]:
    for batch, sides in rows.batches(columns):
        for start in range(0, batch.num_rows, _CHUNK_ROWS):
            found = values(batch.slice(start, _CHUNK_ROWS))
            repeats = pa.array(np.repeat(np.arange(len(found)), [len(each) for each in found]))
            flat = pa.array(itertools.chain.from_iterable(found), pa.string())
            side = sides.slice(start, _CHUNK_ROWS).take(repeats)
            yield pa.RecordBatch.from_arrays([flat, side], schema=_PAIRS)


def _recordings(rows: _Rows, column: str, most_bits_apart: float) -> tuple[list[Leak], float]:
    """Pairs of rows that hold one recording, and the share of words that was indexed."""
    num_words = sum(
        (pc.sum(pc.binary_length(batch[column])).as_py() or 0) // 4
        for batch, _ in rows.batches([column])
    )
    index = RecordingIndex(num_words)
    numbers: dict[str, int] = {}
    side_of: list[IntArray] = [np.empty(0, np.int64)]
    place_of: list[IntArray] = [np.empty(0, np.int64)]
    for batch, sides in rows.batches([column]):
        for stored in batch[column]:
            index.add(words_of(stored))
        coded = sides.dictionary_encode()
        local = [numbers.setdefault(name, len(numbers)) for name in coded.dictionary.to_pylist()]
        side_of.append(np.array(local, np.int64)[coded.indices.to_numpy()])
        place_of.append(batch["row_index"].to_numpy().astype(np.int64))
    names, side, place = list(numbers), np.concatenate(side_of), np.concatenate(place_of)
    tables = [rows.table_of(name) for name in names]

    def prints_of(wanted: IntArray) -> dict[int, tuple[Words, str]]:
        prints: dict[int, tuple[Words, str]] = {}
        for number, table in enumerate(tables):
            here = wanted[side[wanted] == number]
            taken = table.take(place[here], ["utt_id", column])
            for row, stored, utt_id in zip(here, taken[column], taken["utt_id"], strict=True):
                prints[int(row)] = (words_of(stored), str(utt_id))
        return prints

    found: dict[tuple[str, str], list[Any]] = {}
    pairs = itertools.groupby(index.candidates(side), key=lambda each: each[:2])
    for chunk in _chunks(pairs):
        prints = prints_of(np.unique([pair for pair, _ in chunk]))
        for (left, right), offsets in chunk:
            (one, one_id), (other, other_id) = prints[left], prints[right]
            apart = min(best_match(one, other, offset)[0] for offset in offsets)
            if apart <= most_bits_apart:
                ends = sorted(
                    [(names[side[left]], left, one_id), (names[side[right]], right, other_id)]
                )
                at = found.setdefault((ends[0][0], ends[1][0]), [0, set(), set(), []])
                at[0] += 1
                at[1].add(ends[0][1])
                at[2].add(ends[1][1])
                at[3] = sorted([*at[3], (apart, f"{ends[0][2]} = {ends[1][2]}")])[:_EXAMPLES]
    leaks = [
        Leak("recording", *pair, num, len(left), len(right), tuple(text for _, text in examples))
        for pair, (num, left, right, examples) in found.items()
    ]
    return leaks, index.share_indexed


def _near(rows: _Rows, column: str, least_cosine: float) -> tuple[list[Leak], float]:
    """What sides have near each other, and the share of rows that was compared with all others."""
    for side in rows.sides:
        side.table.scan([column], limit=0)  # names what is missing, and what is nearest
    dims = {dims_of(side.table, column, None) for side in rows.sides}
    if len(dims) > 1:
        raise SchemaError(
            f"The vectors of the column {column} differ in size",
            where=", ".join(side.name for side in rows.sides),
            expected="those of one embedder on all sides",
            found=" and ".join(map(str, sorted(dims))),
        )
    (size,) = dims
    numbers = {name: number for number, name in enumerate(rows.count())}

    def vectors() -> Iterator[SidedVectors]:
        for batch, sides in rows.batches([column]):
            for start in range(0, batch.num_rows, rows_at_once(size)):
                some = batch.slice(start, rows_at_once(size))
                names = sides.slice(start, some.num_rows).to_pylist()
                units, fault = unit_vectors(some[column], size, column)
                good = np.flatnonzero(fault == "")
                yield SidedVectors(
                    some["utt_id"].take(pa.array(good)).to_pylist(),
                    np.array([numbers[names[at]] for at in good.tolist()], np.int64),
                    units[good],
                )

    held = NearVectors(sum(rows.count().values()), size)
    for some in vectors():
        held.add(some)
    names = list(numbers)
    leaks = [
        Leak(
            "embedding", names[left], names[right], near.num_pairs, len(near.left),
            len(near.right), tuple(f"{one} = {other}" for _, one, other in near.examples),
        )
        for (left, right), near in held.near(vectors(), least_cosine).items()
    ]  # fmt: skip
    return leaks, held.share_held


def _chunks(
    pairs: Iterator[tuple[tuple[int, int], Iterator[tuple[int, int, int]]]],
) -> Iterator[list[tuple[tuple[int, int], list[int]]]]:
    """Pairs with their offsets, so many at a time that their fingerprints fit in memory."""
    chunk: list[tuple[tuple[int, int], list[int]]] = []
    for pair, meetings in pairs:
        chunk.append((pair, [offset for _, _, offset in meetings]))
        if len(chunk) == _CHUNK_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
