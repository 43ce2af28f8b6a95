"""What can be packed of an episode set or a table: items and what they cost. Reads no media.

An item is an episode, a window of one, a piece of an overlong one, or a row of any other table.
With a mask it is a run of unmasked frames, or a window or piece of that, in place of an episode.
Its tokens are a head (its text), tokens that come once, and tokens a repetition: a frame of an
episode, a token of sound, a frame of a video. So overlong items are cut where repetitions meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes import EpisodeSet, episode_sets, open_episodes
from datalake.episodes.masks import Mask, open_mask
from datalake.errors import InputError, NotFoundError, nearest
from datalake.lake import Lake
from datalake.packing import Block, Layout, Modality, Pieces, Span, TokenCosts, fit
from datalake.pipelines.packing.settings import PackSettings
from datalake.recording import Feature
from datalake.schema import MEDIA_KEY, is_media
from datalake.tables import Table

__all__ = ["Source", "open_masks", "read_source"]

_IDS = ("utt_id", "item_id", "id")
_TEXTS = ("text", "transcript", "caption", "instruction")


@dataclass(frozen=True)
class Source:
    """A source and its items. Some 16 bytes an item, and 100 an episode or row."""

    name: str
    inputs: dict[str, int]
    """The versions of the tables that it is read from."""
    format: str
    """Of its tables."""
    frames: Table | None
    """The frames table; None if this is no episode set."""
    features: tuple[Feature, ...]
    ids: pa.StringArray
    """Of the episodes or rows, (parents,)."""
    rows: npt.NDArray[np.int64]
    """Where each begins in its table, (parents,)."""
    heads: npt.NDArray[np.int64]
    """Tokens of each one's text, (parents,)."""
    layout_of: npt.NDArray[np.int32]
    """The layout of each, (parents,)."""
    layouts: tuple[Layout, ...]
    parents: npt.NDArray[np.int32]
    """The episode or row that each item is of, (items,)."""
    starts: npt.NDArray[np.int32]
    """Its first frame or repetition there, (items,)."""
    repeats: npt.NDArray[np.int32]
    """Its frames or repetitions, (items,)."""
    num_left_out: int = 0
    """Episodes (or runs of them) without a window, rows without a token."""
    num_cut: int = 0
    """Items that were cut short."""
    lost: int = 0
    """Frames or repetitions that they lost."""

    @property
    def num_items(self) -> int:
        """Items."""
        return len(self.parents)

    def tokens(self) -> npt.NDArray[np.int64]:
        """Of each item, (items,)."""
        each = np.array([layout.frame_tokens for layout in self.layouts] or [0])
        fixed = np.array([layout.fixed_tokens for layout in self.layouts] or [0])
        layout = self.layout_of[self.parents]
        tokens: npt.NDArray[np.int64] = (
            self.heads[self.parents] + fixed[layout] + each[layout] * self.repeats
        )
        return tokens

    def by_modality(self, items: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
        """Tokens of each modality of items, (items, modalities)."""
        parents = self.parents if items is None else self.parents[items]
        repeats = self.repeats if items is None else self.repeats[items]
        counts = np.zeros((len(parents), len(Modality)), np.int64)
        counts[:, Modality.TEXT] = self.heads[parents]
        layout = self.layout_of[parents]
        for number, made in enumerate(self.layouts):
            of_layout = layout == number
            fixed = made.totals(0)
            for modality, tokens in made.totals(1).items():
                once = fixed.get(modality, 0)
                counts[of_layout, modality] += once + (tokens - once) * repeats[of_layout]
        return counts


def open_masks(lake: Lake, names: Sequence[str], sources: Sequence[str]) -> dict[str, Mask]:
    """The masks of sources, by the source.

    Raises:
        NotFoundError: there is no such mask.
        InputError: it is of none of these, or one of them has two.
    """
    found: dict[str, Mask] = {}
    for name in names:
        mask = open_mask(lake, name)
        if mask.set_name not in sources or mask.set_name in found:
            raise InputError(
                f"The mask {name!r} cannot be used",
                expected="at most one mask of each episode set that is packed: "
                + ", ".join(sources),
                found=f"one of {mask.set_name}"
                + (", which has one" if mask.set_name in found else ""),
            )
        found[mask.set_name] = mask
    return found


def read_source(
    lake: Lake, name: str, version: int | None, settings: PackSettings, mask: Mask | None = None
) -> Source:
    """The items of an episode set, or of any other table.

    Raises:
        NotFoundError: there is neither of that name, or no such version.
        InputError: nothing of the table can be packed, an item is too long and shall raise, or the
            mask does not fit the episodes.
    """
    if name in episode_sets(lake):
        return _of_episodes(open_episodes(lake, name, version), settings, mask)
    if name not in lake:
        raise NotFoundError(
            f"There is no episode set or table {name!r}",
            where=str(lake.location),
            fix=nearest(name, [*episode_sets(lake), *lake.tables()]),
        )
    return _of_table(name, lake[name].at(version), settings)


def _of_episodes(episodes: EpisodeSet, settings: PackSettings, mask: Mask | None) -> Source:
    index = episodes.index
    settings.costs.check_cameras(episodes.features)
    if settings.unit == "frames":
        layouts: tuple[Layout, ...] = (Layout((Block((Span(Modality.OTHER, 1),)),)),)
        layout_of = np.zeros(len(index.lengths), np.int32)
        heads = np.zeros(len(index.lengths), np.int64)
    else:
        heads, layout_of, layouts = _costed(episodes, settings)
    inputs = {
        f"{episodes.name}.{part}": table.version
        for part, table in (("episodes", episodes.episodes), ("frames", episodes.frames))
    }
    # What is packed of which episode: all of it, or the runs that a mask leaves.
    owners, lengths = np.arange(len(index.lengths)), index.lengths
    begins = np.zeros(len(owners), np.int64)
    if mask is not None:
        masked = mask.on(episodes)
        owners, begins, ends = masked.runs(index.starts[:-1], index.starts[1:])
        begins, lengths = begins - index.starts[owners], ends - begins
        if mask.version is not None:
            inputs[mask.name] = mask.version
    ids = index.episode_ids.take(pa.array(owners))
    cut = _Cut(settings, heads[owners], layout_of[owners], layouts, ids)
    pieces = cut.windows(lengths) if settings.parts == "windows" else cut.whole(lengths)
    return Source(
        name=episodes.name,
        inputs=inputs,
        format=episodes.episodes.format,
        frames=episodes.frames,
        features=episodes.features,
        ids=index.episode_ids,
        rows=index.starts[:-1],
        heads=heads,
        layout_of=layout_of,
        layouts=layouts,
        parents=owners[pieces.items].astype(np.int32),
        starts=(begins[pieces.items] + pieces.starts).astype(np.int32),
        repeats=pieces.lengths,
        num_left_out=cut.num_left_out,
        num_cut=len(pieces.cut_items),
        lost=int(pieces.cut_lengths.sum()),
    )


def _costed(
    episodes: EpisodeSet, settings: PackSettings
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], tuple[Layout, ...]]:
    """Of each episode the tokens of its text and its layout; and the layouts.

    Episodes of several robots have different features, so each is costed by its own.
    """
    costs = settings.costs
    heads: list[int] = []
    layout_of: list[int] = []
    layouts: dict[Layout, int] = {}
    known: dict[str, int] = {}
    texts: dict[str | None, int] = {}
    for batch in episodes.episodes.scan(["task", "features"]):
        for task in batch.column("task").to_pylist():
            if task not in texts:
                texts[task] = costs.of_text(task)
            heads.append(texts[task])
        for row in batch.column("features").to_pylist():
            key = repr(row)
            if key not in known:
                features = [Feature.from_row(feature) for feature in row or ()]
                layout = _layout(features or episodes.features, costs, settings)
                known[key] = layouts.setdefault(layout, len(layouts))
            layout_of.append(known[key])
    return np.array(heads, np.int64), np.array(layout_of, np.int32), tuple(layouts)


def _layout(features: Sequence[Feature], costs: TokenCosts, settings: PackSettings) -> Layout:
    if settings.parts == "windows":
        return costs.of_window(features, history=settings.history, chunk=settings.chunk)
    return costs.of_episode(features)


class _Cut:
    """Cuts episodes or rows into items that fit."""

    def __init__(
        self,
        settings: PackSettings,
        heads: npt.NDArray[np.int64],
        layout_of: npt.NDArray[np.int32],
        layouts: Sequence[Layout],
        ids: pa.StringArray,
    ) -> None:
        self.num_left_out = 0
        self._settings = settings
        self._ids = ids
        fixed = np.array([layout.fixed_tokens for layout in layouts] or [0])
        each = np.array([layout.frame_tokens for layout in layouts] or [0])
        # Tokens an item has besides those of its repetitions, and those of one.
        self._once = heads + fixed[layout_of]
        self._each = each[layout_of]

    def whole(self, lengths: npt.NDArray[np.int64]) -> Pieces:
        """Items of one episode or row each, or pieces of those that do not fit.

        Raises:
            InputError: an item is too long and shall raise, or not even one frame fits.
        """
        budget = self._settings.budget
        packed = np.flatnonzero(self._once + self._each * lengths > 0)
        self.num_left_out = len(lengths) - len(packed)
        once, each, given = self._once[packed], self._each[packed], lengths[packed]
        room = np.maximum(0, budget - once) // np.maximum(each, 1)
        # What takes no tokens does not limit an item.
        most = np.where(each > 0, room, np.where(once <= budget, np.maximum(given, 1), 0))
        too_long = (given > most) | (once > budget)
        if self._settings.overlong == "raise" and too_long.any():
            self._refuse(int(packed[np.argmax(too_long)]), lengths, int(too_long.sum()))
        hopeless = too_long & (most < 1)
        if hopeless.any():
            self._refuse(int(packed[np.argmax(hopeless)]), lengths, int(hopeless.sum()), one=True)
        has_repeats = given > 0
        pieces = fit(np.maximum(given, 1), np.maximum(most, 1), self._settings.overlong)
        return Pieces(
            packed[pieces.items],
            pieces.starts,
            np.where(has_repeats[pieces.items], pieces.lengths, 0).astype(np.int32),
            packed[pieces.cut_items],
            pieces.cut_lengths,
        )

    def windows(self, lengths: npt.NDArray[np.int64]) -> Pieces:
        """Windows of each episode that has room for one: length - horizon + 1 of them at stride 1.

        Raises:
            InputError: a window does not fit into a sequence.
        """
        settings = self._settings
        numbers = np.maximum(0, lengths - settings.horizon + 1)
        numbers = -(-numbers // settings.stride)
        self.num_left_out = int(np.count_nonzero(numbers == 0))
        too_long = (self._once + self._each * settings.horizon > settings.budget) & (numbers > 0)
        if too_long.any():
            self._refuse(int(np.argmax(too_long)), lengths, int(numbers[too_long].sum()))
        parents = np.repeat(np.arange(len(lengths)), numbers)
        ends = np.cumsum(numbers)
        place = np.arange(len(parents)) - np.repeat(ends - numbers, numbers)
        none = np.empty(0, np.int64)
        return Pieces(
            parents,
            (place * settings.stride).astype(np.int32),
            np.full(len(parents), settings.horizon, np.int32),
            none,
            none,
        )

    def _refuse(
        self, number: int, lengths: npt.NDArray[np.int64], num: int, *, one: bool = False
    ) -> None:
        settings = self._settings
        length = settings.horizon if settings.parts == "windows" else int(lengths[number])
        needed = int(self._once[number] + self._each[number] * (1 if one else length))
        what = "A window of " if settings.parts == "windows" else ""
        if one:
            what = "One frame of " if self._each[number] else "The text of "
        raise InputError(
            f"{what}{self._ids[number].as_py()} is longer than a sequence",
            expected=f"at most {settings.budget:,} {settings.unit}",
            found=f"{needed:,} ({num:,} such items)",
            fix="Raise --budget, lower a --cost"
            + ("" if one or settings.parts == "windows" else ", or choose --overlong split"),
        )


def _of_table(name: str, table: Table, settings: PackSettings) -> Source:
    """The rows of a table that is no episode set: texts first, then pictures, then sound or video.

    Raises:
        InputError: frames are counted, or the table has nothing that costs a token.
    """
    if settings.unit == "frames":
        raise InputError(
            f"The table {name} has no frames", fix="Count tokens (--unit tokens), or leave it out"
        )
    costs, names = settings.costs, table.schema.names
    kinds = {f.name: f.metadata[MEDIA_KEY].decode() for f in table.schema if is_media(f)}
    texts = [column for column in names if column in _TEXTS]
    pictures = [column for column, kind in kinds.items() if kind == "image"]
    timed = [column for column, kind in kinds.items() if kind in {"audio", "video"}]
    measure = {"audio": "duration_s", "video": "num_frames"}
    if len(timed) > 1 or any(measure[kinds[column]] not in names for column in timed):
        raise InputError(
            f"The sound of {name} cannot be costed",
            expected="one column of sound with duration_s, or one of video with num_frames",
            found=", ".join(timed),
        )
    if not (texts or pictures or timed):
        raise InputError(
            f"The table {name} has nothing to pack",
            expected=f"text ({', '.join(_TEXTS)}), pictures, sound or video",
            found=", ".join(names),
        )
    id_column = next((column for column in _IDS if column in names), None)
    numbers = [measure[kinds[column]] for column in timed]
    ids: list[str] = []
    heads: list[int] = []
    lengths: list[int] = []
    for row in _rows(table, [*([id_column] if id_column else []), *texts, *numbers]):
        given = row[id_column] if id_column else None
        ids.append(str(len(ids) if given is None else given))
        heads.append(sum(costs.of_text(row[column]) for column in texts))
        lengths.append(_length(row[numbers[0]], kinds[timed[0]], costs) if timed else 0)
    blocks = [Block((Span(Modality.IMAGE, costs.image),), len(pictures))] if pictures else []
    if timed:
        sound = kinds[timed[0]] == "audio"
        per_repeat = Span(Modality.AUDIO, 1) if sound else Span(Modality.VIDEO, costs.video_frame)
        blocks.append(Block((per_repeat,)))
    layouts = (Layout(tuple(blocks)),)
    layout_of = np.zeros(len(ids), np.int32)
    stored = pa.array(ids, pa.string())
    head_array = np.array(heads, np.int64)
    # Rows are no episodes: there are no windows of them.
    cut = _Cut(settings, head_array, layout_of, layouts, stored)
    pieces = cut.whole(np.array(lengths, np.int64))
    return Source(
        name=name,
        inputs={name: table.version},
        format=table.format,
        frames=None,
        features=(),
        ids=stored,
        rows=np.arange(len(ids)),
        heads=head_array,
        layout_of=layout_of,
        layouts=layouts,
        parents=pieces.items.astype(np.int32),
        starts=pieces.starts,
        repeats=pieces.lengths,
        num_left_out=cut.num_left_out,
        num_cut=len(pieces.cut_items),
        lost=int(pieces.cut_lengths.sum()),
    )


def _rows(table: Table, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    if not columns:
        yield from ({} for _ in range(table.count_rows()))
        return
    for batch in table.scan(columns):
        yield from batch.to_pylist()


def _length(value: object, kind: str, costs: TokenCosts) -> int:
    """Repetitions: tokens of sound, frames of video; none where the row does not say."""
    if not isinstance(value, int | float) or not value > 0:
        return 0
    return costs.of_audio(float(value)) if kind == "audio" else int(value)
