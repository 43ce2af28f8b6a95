"""Masks: frames of an episode set that training is not to see, without rewriting an episode.

A mask is spans of frames, each with a reason and, where there is one, the number that gave it and
the threshold. It is stored as a table with a row an episode that was judged, those without a masked
frame too, so that a mask says of itself which episodes it fits: they are told by id, length and
stamp. Episodes that were never judged, or have changed since, are refused and never read unmasked.
What touches no frame (tasks, splits, annotations, compaction) leaves a mask as good as it was.
Frames that were replaced by as many others under the same stamp are not told apart.

In memory a mask takes some 100 bytes an episode and 50 a span.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.episodes.episode_set import EpisodeSet, episode_sets
from datalake.episodes.masked_frames import MaskedFrames, merged
from datalake.errors import (
    ConfigError,
    ExistsError,
    InputError,
    NotFoundError,
    SchemaError,
    StoreError,
    nearest,
)
from datalake.lake import Lake, Lineage
from datalake.tables import Table

__all__ = [
    "MASK_ROWS",
    "MASK_SPANS",
    "MASK_SUFFIX",
    "Mask",
    "is_mask",
    "open_mask",
    "save_mask",
]

MASK_SUFFIX: Final = ".masks"
"""What follows a set's name in the name of its usual mask."""

_SPAN: Final = (
    # Frames of the episode, from 0; the end exclusive.
    pa.field("from_frame", pa.int64(), nullable=False),
    pa.field("to_frame", pa.int64(), nullable=False),
    pa.field("reason", pa.string(), nullable=False),
    # What was measured, and the bound that it is beyond; null where there is no number.
    pa.field("value", pa.float64()),
    pa.field("threshold", pa.float64()),
)

MASK_SPANS: Final = pa.schema([pa.field("episode_id", pa.string(), nullable=False), *_SPAN])
"""One row a span, in the order of the set's episodes and of the frames."""

MASK_ROWS: Final = pa.schema(
    [
        pa.field("episode_id", pa.string(), nullable=False),
        # Of the episode when it was judged.
        pa.field("length", pa.int64(), nullable=False),
        pa.field("stamp", pa.string()),
        pa.field("spans", pa.list_(pa.struct(_SPAN)), nullable=False),
    ]
)
"""The columns of a mask's table: one row an episode that was judged."""

_SET: Final = "datalake.mask.set"
_SET_VERSION: Final = "datalake.mask.set_version"
_REASONS: Final = "datalake.mask.reasons"
_PARAMETERS: Final = "datalake.mask.parameters"
_DIGEST: Final = "datalake.mask.digest"

_JUDGED: Final = ("episode_id", "length", "stamp")
_REASON: Final = re.compile(r"[a-z][a-z0-9_]*")
_NAMED: Final = 3

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Mask:
    """Frames of an episode set that training is not to see. Immutable and picklable.

    Made by `Mask.of`, loaded by `open_mask`.
    """

    name: str
    """As it is saved; empty if it is not."""
    set_name: str
    set_version: int
    """The version of the set that was judged."""
    reasons: tuple[str, ...]
    """What frames were judged for, found or not."""
    judged: pa.Table
    """The episodes that were judged: `episode_id`, `length` and `stamp`."""
    spans: pa.Table
    """`MASK_SPANS`. Spans of different reasons may overlap."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """What made it was given, as JSON values."""
    version: int | None = None
    """Of its table; None if it is not saved."""

    @classmethod
    def of(
        cls,
        episodes: EpisodeSet,
        spans: pa.Table,
        *,
        reasons: Sequence[str],
        parameters: Mapping[str, object] | None = None,
    ) -> Mask:
        """A mask of all episodes of a version of a set.

        Args:
            episodes: the version that was judged.
            spans: `episode_id`, `from_frame`, `to_frame` (exclusive) and `reason`; `value` and
                `threshold` where there are numbers; in any order.
            reasons: what frames were judged for, lower case: those of the spans and those that
                were looked for and not found.
            parameters: what decided it, as JSON values.

        Raises:
            SchemaError: a column is missing, is of another type or holds nulls.
            InputError: a span lies outside of its episode, is empty, is of an unknown episode or
                reason, or overlaps one of the same reason (names the first).
        """
        _check_reasons(reasons)
        judged = episodes.episodes.scan(list(_JUDGED)).read_all().combine_chunks()
        checked = _ordered(_as_spans(spans), judged, reasons, episodes.name)
        return cls(
            name="",
            set_name=episodes.name,
            set_version=episodes.version,
            reasons=tuple(reasons),
            judged=judged,
            spans=checked,
            parameters=dict(parameters or {}),
        )

    def only(self, reasons: Iterable[str]) -> Mask:
        """The mask of some of its reasons.

        Raises:
            NotFoundError: frames were not judged for one of them (names the nearest).
            InputError: there is none.
        """
        wanted = tuple(dict.fromkeys(reasons))
        if not wanted:
            raise InputError(
                "A mask without a reason masks nothing", fix="Name a reason, or leave the mask out"
            )
        for reason in wanted:
            if reason not in self.reasons:
                raise NotFoundError(
                    f"The mask has no reason {reason!r}",
                    where=self._where,
                    expected=" or ".join(self.reasons),
                    fix=nearest(reason, self.reasons),
                )
        chosen = pc.is_in(self.spans["reason"], value_set=pa.array(wanted))
        return replace(self, reasons=wanted, spans=self.spans.filter(chosen))

    def on(self, episodes: EpisodeSet) -> MaskedFrames:
        """The masked frames of a version of the set, as rows of its frames table.

        Raises:
            InputError: it is another set; or episodes of it were not judged, or are not what they
                were then (says how many, which first, and what differs).
        """
        if episodes.name != self.set_name:
            raise InputError(
                "The mask is one of another episode set",
                where=self._where,
                expected=f"a mask of {episodes.name}",
                found=f"one of {self.set_name}",
            )
        now = episodes.episodes.scan(list(_JUDGED)).read_all().combine_chunks()
        self._check_fresh(now, episodes.version)
        places = pc.index_in(self.spans["episode_id"], value_set=_whole(now["episode_id"]))
        # Spans of episodes that were deleted since have nothing to mask.
        here = places.is_valid().to_numpy()
        starts = episodes.index.starts[places.fill_null(0).to_numpy()][here]
        begins, ends = (
            starts + self.spans[name].to_numpy()[here] for name in ("from_frame", "to_frame")
        )
        return MaskedFrames(*merged(begins, ends), digest=self.digest)

    @cached_property
    def digest(self) -> str:
        """The sha256, in hexadecimal, of which frames of which episodes are masked.

        Equal digests mean the same frames, whatever the mask is called, for whatever reasons.
        """
        digest = hashlib.sha256(b"mask/1")
        ids, begins, ends = self._merged
        for episode_id, begin, end in sorted(zip(ids, begins, ends, strict=True)):
            digest.update(len(episode_id.encode()).to_bytes(8, "little") + episode_id.encode())
            digest.update(np.array([begin, end], "<i8").tobytes())
        return digest.hexdigest()

    @cached_property
    def num_frames(self) -> int:
        """Masked frames; one that is masked for two reasons counts once."""
        _, begins, ends = self._merged
        return sum(ends) - sum(begins)

    def by_reason(self) -> list[dict[str, object]]:
        """Of each reason its name, and how many spans, episodes and frames it masks."""
        lengths = pc.subtract(self.spans["to_frame"], self.spans["from_frame"])
        table = self.spans.select(["episode_id", "reason"]).append_column("frames", lengths)
        found = {}
        for reason in self.reasons:
            own = table.filter(pc.equal(table["reason"], reason))
            found[reason] = {
                "reason": reason,
                "num_spans": own.num_rows,
                "num_episodes": pc.count_distinct(own["episode_id"]).as_py(),
                "num_frames": pc.sum(own["frames"]).as_py() or 0,
            }
        return list(found.values())

    @property
    def _where(self) -> str:
        return self.name or f"a mask of {self.set_name}"

    @cached_property
    def _merged(self) -> tuple[list[str], list[int], list[int]]:
        """Ids, beginnings and ends of the masked frames, each frame once."""
        ids = _whole(self.judged["episode_id"])
        offsets = np.concatenate([[0], np.cumsum(self.judged["length"].to_numpy() + 1)])
        owners = pc.index_in(self.spans["episode_id"], value_set=ids).to_numpy()
        # A place of its own for each frame of each episode, a gap between episodes.
        begins, ends = merged(
            *(offsets[owners] + self.spans[name].to_numpy() for name in ("from_frame", "to_frame"))
        )
        owners = np.searchsorted(offsets, begins, side="right") - 1
        names = ids.take(pa.array(owners)).to_pylist()
        return names, (begins - offsets[owners]).tolist(), (ends - offsets[owners]).tolist()

    def _check_fresh(self, now: pa.Table, version: int) -> None:
        """Raise unless all of these episodes were judged, and are what they were."""
        known = pc.index_in(now["episode_id"], value_set=_whole(self.judged["episode_id"]))
        then = self.judged.take(known)
        new = known.is_null().to_numpy()
        longer = pc.fill_null(pc.not_equal(now["length"], then["length"]), False).to_numpy()
        stamps = (column.fill_null("") for column in (now["stamp"], then["stamp"]))
        other = pc.not_equal(*stamps).to_numpy() & ~new
        if not (new | longer | other).any():
            return
        ids = now["episode_id"]
        problems = []
        for what, which in (
            ("not judged", new),
            ("of another length", longer),
            ("made from another source", other & ~longer),
        ):
            places = np.flatnonzero(which)
            if len(places):
                named = [ids[place].as_py() for place in places[:_NAMED].tolist()]
                more = ", …" if len(places) > _NAMED else ""
                problems.append(f"{len(places):,} {what}: {', '.join(named)}{more}")
        if longer.any():
            place = int(np.flatnonzero(longer)[0])
            was, has = (table["length"][place].as_py() for table in (then, now))
            problems.append(f"{ids[place].as_py()} had {was} frames and has {has}")
        raise InputError(
            f"The mask does not fit the episodes of {self.set_name}, version {version}",
            where=self._where,
            expected=f"episodes as they were in version {self.set_version}, which was judged",
            found="; ".join(problems),
            fix=f"Make the mask again (curate mask {self.set_name}), or open version "
            f"{self.set_version}",
        )


def is_mask(table: Table) -> bool:
    """Whether a table holds a mask."""
    return _SET in table.info().properties


def save_mask(lake: Lake, name: str, mask: Mask, lineage: Lineage) -> int:
    """Save a mask under a name, and return the version of the table that this made.

    A mask of the same set under that name gets a new version; its earlier ones stay. All or
    nothing.

    Raises:
        ExistsError: something else has the name.
        InputError: the name is none.
        ConfigError: parameters are no JSON values.
        ConflictError: another writer saved under this name at the same moment.
    """
    properties = {**lineage.properties(), **_to_properties(mask)}
    if name in episode_sets(lake):
        _refuse(lake, name, "an episode set of that name")
    if name not in lake:
        created = Lineage("create", run_id=lineage.run_id)
        # Another process may be first.
        with suppress(ExistsError):
            owned = {_SET: mask.set_name}
            lake.create(name, MASK_ROWS, lineage=created, properties=owned)
    if name not in lake or not is_mask(lake[name]):
        _refuse(lake, name, "a table or selection of that name")
    table = lake[name]
    of = table.info().properties[_SET]
    if of != mask.set_name:
        _refuse(lake, name, f"a mask of {of}")
    return table.overwrite(_to_rows(mask), properties=properties).version


def open_mask(lake: Lake, name: str, version: int | None = None) -> Mask:
    """Load a mask, the latest version or an earlier one.

    Raises:
        NotFoundError: there is no such mask (names the nearest) or version, or it was never
            finished.
        SchemaError: its columns are not those of a mask.
        StoreError: the spans are not the ones that were saved.
    """
    if name not in lake:
        raise NotFoundError(
            f"There is no mask {name!r}",
            where=str(lake.location),
            fix=nearest(name, lake.tables()) or "Make one with: curate mask SET --as " + name,
        )
    table = lake[name].at(version)
    properties = table.info().properties
    if _SET not in properties:
        raise NotFoundError(f"The table {name} is no mask", where=table.uri)
    if _DIGEST not in properties:
        raise NotFoundError(
            "This version holds no finished mask",
            where=f"{name}, version {table.version}",
            found="one that something else than saving a mask made",
            fix="Make the mask again under this name, or open an earlier version",
        )
    judged, spans = _from_rows(table)
    mask = Mask(
        name=name,
        set_name=properties[_SET],
        set_version=int(properties[_SET_VERSION]),
        reasons=tuple(json.loads(properties[_REASONS])),
        judged=judged,
        spans=spans,
        parameters=json.loads(properties[_PARAMETERS]),
        version=table.version,
    )
    if mask.digest != properties[_DIGEST]:
        raise StoreError(
            "The spans of a mask are not the ones that were saved",
            where=f"{name}, version {table.version}",
            expected=f"digest {properties[_DIGEST]}",
            found=f"digest {mask.digest}",
            fix="Open an earlier version, or make the mask again",
        )
    return mask


def _refuse(lake: Lake, name: str, found: str) -> NoReturn:
    raise ExistsError(
        f"The name {name!r} is taken",
        where=str(lake.location),
        found=found,
        fix="Choose another name, or remove it with: datalake rm " + name,
    )


def _check_reasons(reasons: Sequence[str]) -> None:
    for reason in reasons:
        if not _REASON.fullmatch(reason) or list(reasons).count(reason) > 1:
            raise InputError(
                "The reasons of a mask cannot be these",
                expected="lower-case words such as idle or frozen_state, each once",
                found=", ".join(map(repr, reasons)),
            )
    if not reasons:
        raise InputError("A mask needs a reason", expected="one or more, such as idle")


def _as_spans(spans: pa.Table) -> pa.Table:
    """Spans with the columns of `MASK_SPANS`; what may be null may be left out."""
    columns = {}
    for wanted in MASK_SPANS:
        if wanted.name in spans.column_names:
            columns[wanted.name] = spans[wanted.name]
        elif wanted.nullable:
            columns[wanted.name] = pa.nulls(spans.num_rows, wanted.type)
    try:
        made = pa.table(columns).cast(MASK_SPANS)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise SchemaError(
            "These are no spans of a mask",
            expected=", ".join(f"{each.name} {each.type}" for each in MASK_SPANS),
            found=", ".join(f"{each.name} {each.type}" for each in spans.schema),
            fix=str(error),
        ) from error
    return made.combine_chunks()


def _ordered(spans: pa.Table, judged: pa.Table, reasons: Sequence[str], name: str) -> pa.Table:
    """Spans in the order of episodes, frames and reasons, each of them seen to be possible."""
    known = pc.index_in(spans["episode_id"], value_set=_whole(judged["episode_id"]))
    begins, ends = (spans[column].to_numpy() for column in ("from_frame", "to_frame"))
    place = known.fill_null(-1).to_numpy()
    lengths = np.append(judged["length"].to_numpy(), 0)[place]
    reason = pc.index_in(spans["reason"], value_set=pa.array(reasons, pa.string()))
    code = reason.fill_null(-1).to_numpy()
    order = np.lexsort((ends, begins, code, place))
    following = np.zeros(len(order), np.bool_)
    one, two = order[:-1], order[1:]
    together = (place[one] == place[two]) & (code[one] == code[two])
    following[two] = together & (ends[one] > begins[two])
    for wrong, what, expected in (
        (place < 0, "is of an episode that the set lacks", f"an episode of {name}"),
        (
            (place >= 0) & ((begins < 0) | (ends <= begins) | (ends > lengths)),
            "is none of its episode's",
            "0 <= from_frame < to_frame <= the episode's length",
        ),
        (code < 0, "has an unknown reason", " or ".join(reasons)),
        (following, "overlaps another of the same reason", "spans apart from each other"),
    ):
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            row = spans.slice(at, 1).to_pylist()[0]
            length = f" of {lengths[at]} frames" if place[at] >= 0 else ""
            raise InputError(
                f"A span of a mask {what}",
                where=f"{name}, {row['episode_id']}",
                expected=expected,
                found=f"frames {row['from_frame']} to {row['to_frame']}{length}, {row['reason']}; "
                f"{int(wrong.sum()):,} such",
            )
    return spans.take(pa.array(np.lexsort((code, ends, begins, place)))).combine_chunks()


def _to_properties(mask: Mask) -> dict[str, str]:
    try:
        parameters = json.dumps(dict(mask.parameters), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            "The parameters of a mask cannot be recorded",
            where=mask.set_name,
            expected="JSON values",
            found=str(error),
        ) from error
    return {
        _SET: mask.set_name,
        _SET_VERSION: str(mask.set_version),
        _REASONS: json.dumps(mask.reasons),
        _PARAMETERS: parameters,
        _DIGEST: mask.digest,
    }


def _to_rows(mask: Mask) -> pa.Table:
    ids = _whole(mask.judged["episode_id"])
    # Spans come in the order of the episodes.
    owners = pc.index_in(mask.spans["episode_id"], value_set=ids).to_numpy()
    offsets = np.searchsorted(owners, np.arange(len(ids) + 1)).astype(np.int32)
    fields = MASK_SPANS.names[1:]
    structs = pa.StructArray.from_arrays(
        [_whole(mask.spans[name]) for name in fields], fields=list(_SPAN)
    )
    spans = pa.ListArray.from_arrays(pa.array(offsets), structs, type=MASK_ROWS.field("spans").type)
    columns = [*(_whole(mask.judged[name]) for name in _JUDGED), spans]
    return pa.Table.from_arrays(columns, schema=MASK_ROWS)


def _from_rows(table: Table) -> tuple[pa.Table, pa.Table]:
    """The judged episodes and the spans."""
    missing = [name for name in MASK_ROWS.names if name not in table.schema.names]
    if missing:
        raise SchemaError(
            "A mask lacks columns", where=table.uri, expected=", ".join(MASK_ROWS.names),
            found="no " + ", ".join(missing),
        )  # fmt: skip
    rows = table.scan(MASK_ROWS.names).read_all().combine_chunks()
    lists = _whole(rows["spans"])
    owners = pc.list_parent_indices(lists)
    flat = pc.list_flatten(lists)
    ids = _whole(rows["episode_id"]).take(owners)
    columns = [ids, *(pc.struct_field(flat, name) for name in MASK_SPANS.names[1:])]
    spans = pa.table(dict(zip(MASK_SPANS.names, columns, strict=True))).cast(MASK_SPANS)
    judged = rows.select(list(_JUDGED)).cast(pa.schema([MASK_ROWS.field(n) for n in _JUDGED]))
    return judged, spans


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array."""
    if isinstance(column, pa.Array):
        return column
    return pa.concat_arrays(column.chunks or [pa.array([], column.type)])
