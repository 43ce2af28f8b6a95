"""UMI and diffusion policy: a replay buffer in Zarr, with all episodes one after the other.

Provenance: C. Chi et al., "Diffusion Policy", https://arxiv.org/abs/2303.04137, and "Universal
Manipulation Interface", https://arxiv.org/abs/2402.10329; layout after their replay buffer.

Layout::

    dataset.zarr.zip, or a folder such as pusht_cchi_v7_replay.zarr
    /meta/episode_ends       the frame after each episode's last, ascending
    /data/<key>              all frames of all episodes

UMI has robot<i>_eef_pos, robot<i>_eef_rot_axis_angle, robot<i>_gripper_width,
robot<i>_demo_start_pose, robot<i>_demo_end_pose and camera<i>_rgb; Push-T has img, state, action,
keypoint and n_contacts.

Features: `action`; every other array as `observation.<key>`, pictures as
`observation.images.<key>`.

Quirks: cameras of UMI are JPEG XL, a chunk a frame. They are decoded and stored as PNG of the same
pixels, since few tools read JPEG XL; `pictures=keep` stores its bytes as found, at a tenth of the
size. Push-T's pictures are floats that hold whole numbers from 0 to 255 and become PNG too. UMI has
no action: its trainer makes it of the poses. The rate is nowhere in the file and must be given
(`fps=10` for Push-T; UMI's cameras run at about 60). So is the task, which is left empty unless
given. A chunk that is not there is a fault, where Zarr would make it up, unless `absent=fill`.
"""

from __future__ import annotations

import hashlib
import math
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.frame_arrays import FrameArray, FrameColumn, NoFeatureError, time_columns
from connectors.options import check_options, choice
from connectors.refused import RefusedError
from connectors.robot_options import (
    EMBODIMENT,
    FPS,
    SOURCE,
    TASK,
    fps_option,
    patterns_option,
    source_of,
)
from connectors.tree import Tree
from connectors.zarr_store import ZarrGroup, open_zarr, reading_zarr
from datalake.connector import Evidence, OptionSpec
from datalake.errors import ConfigError, InputError, LakeError, MissingPackageError
from datalake.quarantine import Reason
from datalake.recording import (
    BadEpisode,
    EpisodeData,
    EpisodeRef,
    Feature,
    Finding,
    Severity,
    VideoFile,
)
from datalake.uri import Location

__all__ = ["CONNECTOR", "Umi", "UmiCorpus"]

_ENDS: Final = "meta/episode_ends"
_JXL: Final = "imagecodecs_jpegxl"
_JXL_BEGINS: Final = (b"\xff\x0a", b"\x00\x00\x00\x0cJXL ")
_MOST_ZIPS: Final = 20


class Umi:
    """Connector for replay buffers in Zarr."""

    name = "umi"
    options: tuple[OptionSpec, ...] = (
        SOURCE,
        OptionSpec("embodiment", EMBODIMENT.help, "umi where the arrays are UMI's"),
        OptionSpec("fps", FPS.help),
        OptionSpec("task", TASK.help),
        OptionSpec("skip", "arrays to leave out, such as keypoint,camera1_rgb", "none"),
        OptionSpec("pictures", "keep: store JPEG XL as found rather than as PNG", "png"),
        OptionSpec("absent", "fill: take a chunk that is not there for the fill value", "refuse"),
    )

    def detect(self, root: Location) -> Evidence | None:
        """A Zarr group with meta/episode_ends and data, in a folder or a zip file."""
        found = _find(root)
        if not found:
            return None
        if len(found) > 1:
            names = ", ".join(place.name for place in found)
            return Evidence(self.name, 0.4, (f"several datasets, of which to give one: {names}",))
        return Evidence(self.name, 0.9, (f"{_ENDS} and data in {found[0].name}",))

    def open(self, root: Location, options: Mapping[str, str]) -> UmiCorpus:
        """Open a replay buffer, or the one in the folder.

        Raises:
            InputError: there is none, or several; it cannot be read.
            ConfigError: an option is unknown or wrong, or fps is not given.
        """
        check_options(self.name, options, self.options)
        place = _only(root)
        fps = fps_option(options)
        settings = _Settings(
            fps or math.nan,
            options.get("task", ""),
            patterns_option(options, "skip"),
            choice(options, "pictures", ("png", "keep")) == "keep",
            choice(options, "absent", ("refuse", "fill")) == "fill",
        )
        with open_zarr(place) as opened:
            try:
                ends = _episode_ends(opened)
                buffer = _buffer(opened, settings)
            except RefusedError as error:
                raise InputError(
                    "The replay buffer cannot be read",
                    where=str(place),
                    found=error.refusal.detail,
                ) from error
        if fps is None:
            raise ConfigError(
                "The format does not say its frame rate",
                where=str(place),
                fix="Give it: --option fps=10 for Push-T, fps=60 for UMI's cameras",
            )
        return UmiCorpus(
            source_of(place, options),
            place,
            options.get("embodiment") or _embodiment(buffer.arrays),
            tuple(array.feature for array in buffer.arrays.values()),
            tuple(int(end) for end in ends),
            settings,
            (
                *((Reason.UNSUPPORTED, note) for note in buffer.notes),
                *((Reason.METADATA_MISMATCH, note) for note in _left_over(buffer, ends)),
            ),
        )


CONNECTOR: Final = Umi()


class _Settings(NamedTuple):
    """What a user's options say."""

    fps: float
    task: str
    skip: tuple[str, ...]
    keeps_jxl: bool
    fills_absent: bool


class _Rows(NamedTuple):
    """An episode's rows of every array."""

    start: int
    stop: int


class _Buffer(NamedTuple):
    """The arrays of an opened replay buffer."""

    arrays: dict[str, FrameColumn]
    """By feature."""
    lengths: dict[str, int]
    """Rows of each array, by feature."""
    notes: list[str]
    """What is left out, and why."""


@dataclass(frozen=True)
class UmiCorpus:
    """An `EpisodeCorpus` of a replay buffer."""

    source: str
    place: Location
    """The Zarr group: a folder or a zip file."""
    embodiment: str | None
    features: tuple[Feature, ...]
    ends: tuple[int, ...]
    """The frame after each episode's last."""
    settings: _Settings
    notes: tuple[tuple[Reason, str], ...]

    @property
    def root(self) -> Location:
        """The folder that holds the group."""
        above = Tree(self.place).above()
        return above.root if above else self.place

    @property
    def fps(self) -> float:
        """As the user gave it."""
        return self.settings.fps

    def videos(self) -> Iterator[VideoFile]:
        """None: pictures are arrays."""
        return iter(())

    def findings(self) -> Iterator[Finding]:
        """Arrays that are left out, or go on after the last episode."""
        for reason, note in self.notes:
            yield Finding(reason, Severity.WARNING, note, origin=self.place.name)

    def episodes(self) -> Iterator[EpisodeRef]:
        """The episodes, as meta/episode_ends divides the frames."""
        size_bytes, stamp = _size_and_stamp(self.place)
        num_frames = max(1, max(self.ends, default=1))
        for number, rows in enumerate(self._rows()):
            length = rows.stop - rows.start
            refusal = None
            if length < 0:
                detail = f"{_ENDS} goes back from {rows.start} to {rows.stop}"
                refusal = (Reason.METADATA_MISMATCH, detail)
            elif length == 0:
                refusal = (Reason.EMPTY, "the episode has no frames")
            yield EpisodeRef(
                f"{self.source}/{number:06d}",
                number,
                f"{self.place.name}:{rows.start}-{rows.stop}",
                max(0, length),
                f"{stamp}|{'|'.join(map(str, self.settings))}",
                size_bytes * max(0, length) // num_frames,
                refusal=refusal,
                hint=rows,
            )

    def _rows(self) -> Iterator[_Rows]:
        return map(_Rows, (0, *self.ends[:-1]), self.ends)

    def read(self, refs: Sequence[EpisodeRef]) -> Iterator[EpisodeData | BadEpisode]:
        """Read episodes; the group is opened once."""
        if not refs:
            return
        with open_zarr(self.place) as opened:
            try:
                buffer = _buffer(opened, self.settings)
            except RefusedError as error:
                for ref in refs:
                    yield BadEpisode(ref, error.refusal.reason, error.refusal.detail)
                return
            for ref in refs:
                try:
                    frames = self._frames(opened, buffer, ref.hint)
                except RefusedError as error:
                    yield BadEpisode(ref, error.refusal.reason, error.refusal.detail)
                else:
                    yield EpisodeData(ref, frames, self.features, {0: self.settings.task})

    def _frames(self, opened: ZarrGroup, buffer: _Buffer, rows: _Rows) -> pa.Table:
        columns: dict[str, pa.Array] = {}
        for feature in self.features:
            array = buffer.arrays.get(feature.name)
            if array is None or array.feature != feature:
                raise RefusedError(
                    Reason.SHAPE_CHANGED, f"{feature.name} is not as it was when it was opened"
                )
            if rows.stop > buffer.lengths[feature.name]:
                raise RefusedError(
                    Reason.LENGTH_MISMATCH,
                    f"{array.path} has {buffer.lengths[feature.name]} rows, the episode ends at "
                    f"{rows.stop}",
                )
            with reading_zarr(array.path):
                columns[feature.name] = array.column(slice(rows.start, rows.stop))
                absent = opened.absent_chunks()
            if absent and not self.settings.fills_absent:
                raise RefusedError(
                    Reason.NOT_FOUND,
                    f"{len(absent)} chunks of {array.path} are not there, such as {min(absent)} "
                    "(absent=fill takes them for the fill value)",
                )
        return pa.table({**time_columns(rows.stop - rows.start, self.fps), **columns})


def _find(root: Location) -> list[Location]:
    """The replay buffers at a path: itself, or those in the folder."""
    if _is_buffer(root):
        return [root]
    tree = Tree(root)
    names = [
        name
        for name, is_folder in tree.names().items()
        if name.lower().endswith(".zarr" if is_folder else ".zarr.zip")
    ]
    return [place for name in names[:_MOST_ZIPS] if _is_buffer(place := root.join(name))]


def _only(root: Location) -> Location:
    found = _find(root)
    if len(found) == 1:
        return found[0]
    raise InputError(
        "The path does not hold exactly one replay buffer",
        where=str(root),
        expected=f"a Zarr group with {_ENDS} and data, in a folder or a zip file",
        found=", ".join(place.name for place in found) or "none",
        fix="Give the .zarr folder or the .zarr.zip file itself as the path" if found else "",
    )


def _is_buffer(place: Location) -> bool:
    tree = Tree(place)
    names = tree.names()
    if names:
        return bool(
            names.get("meta") and names.get("data") and tree.names("meta").get("episode_ends")
        )
    if not place.name.lower().endswith(".zip"):
        return False
    try:
        with open_zarr(place) as opened, reading_zarr(place.name):
            return _ENDS in opened.group and "data" in opened.group
    except MissingPackageError:
        raise
    except (LakeError, RefusedError):
        return False


def _episode_ends(opened: ZarrGroup) -> npt.NDArray[Any]:
    with reading_zarr(_ENDS):
        if _ENDS not in opened.group:
            raise RefusedError(Reason.EMPTY_METADATA, f"there is no {_ENDS}")
        ends = np.asarray(opened.array(_ENDS)[:])
        absent = opened.absent_chunks()
    if absent:
        raise RefusedError(Reason.NOT_FOUND, f"chunks of {_ENDS} are not there")
    if ends.ndim != 1 or ends.dtype.kind not in "iu" or not len(ends):
        raise RefusedError(
            Reason.EMPTY_METADATA,
            f"{_ENDS} is {ends.dtype} of shape {ends.shape}, not some numbers",
        )
    return ends


def _left_over(buffer: _Buffer, ends: npt.NDArray[Any]) -> Iterator[str]:
    for name, length in buffer.lengths.items():
        if length > (last := max(0, int(ends.max()))):
            path = buffer.arrays[name].path
            yield f"{path} has {length - last} frames after the last episode, which are left out"


def _buffer(opened: ZarrGroup, settings: _Settings) -> _Buffer:
    import zarr

    buffer = _Buffer({}, {}, [])
    with reading_zarr("data"):
        if not isinstance(opened.group["data"], zarr.Group):
            raise RefusedError(Reason.EMPTY_METADATA, "data is no group")
        members = opened.members("data")
    for key, found in members.items():
        if key in settings.skip:
            continue
        path = f"data/{key}"
        if not isinstance(found, zarr.Array) or not found.shape or not found.shape[0]:
            why = "it is no array with rows" if found is not None else "nothing says what it is"
            buffer.notes.append(f"{path} is left out: {why}")
            continue
        try:
            with reading_zarr(path):
                member = opened.array(path)
                array = _frame_array(opened, path, key, member, settings)
                opened.absent_chunks()  # Of the first row, which may have been looked at.
        except NoFeatureError as error:
            buffer.notes.append(f"{path} is left out: {error}")
            continue
        buffer.arrays[array.feature.name] = array
        buffer.lengths[array.feature.name] = member.shape[0]
    if not buffer.arrays:
        raise RefusedError(Reason.EMPTY, "data has no array that a frame could hold")
    return buffer


def _frame_array(
    opened: ZarrGroup, path: str, key: str, member: Any, settings: _Settings
) -> FrameColumn:
    picture_name = f"observation.images.{key}"
    name = "action" if key == "action" else f"observation.{key}"
    array = FrameArray.of(path, member, name=name, picture_name=picture_name)
    if settings.keeps_jxl and array.feature.dtype == "image" and _is_jxl(member):
        return _JxlArray(path, opened, member, array.feature)
    return array


def _is_jxl(member: Any) -> bool:
    """Whether each chunk is one frame in JPEG XL and nothing else."""
    codec = getattr(member.metadata, "compressor", None)
    filters = getattr(member.metadata, "filters", None)
    return (
        getattr(codec, "codec_id", None) == _JXL
        and not filters
        and member.chunks == (1, *member.shape[1:])
    )


@dataclass(frozen=True)
class _JxlArray:
    """Pictures whose chunks are files of JPEG XL."""

    path: str
    opened: ZarrGroup
    stored: Any
    feature: Feature

    def column(self, rows: slice) -> pa.Array:
        """The files as they are stored."""
        zeros = (0,) * (len(self.stored.shape) - 1)
        encoded = []
        for row in range(rows.start, rows.stop):
            key = f"{self.path}/{self.stored.metadata.encode_chunk_key((row, *zeros))}"
            data = self.opened.encoded(key)
            if data is None or not data.startswith(_JXL_BEGINS):
                what = "is not there" if data is None else "is no JPEG XL"
                reason = Reason.NOT_FOUND if data is None else Reason.CORRUPT
                raise RefusedError(reason, f"the chunk {key} {what}")
            encoded.append(data)
        return pa.array(encoded, pa.large_binary())


def _embodiment(arrays: Mapping[str, FrameColumn]) -> str | None:
    if "observation.robot0_gripper_width" not in arrays:
        return None
    return "umi_bimanual" if "observation.robot1_gripper_width" in arrays else "umi"


def _size_and_stamp(place: Location) -> tuple[int, str]:
    """The bytes of all files of the group, and a text that changes with any of them."""
    tree = Tree(place)
    if not tree.names():
        above = tree.above()
        facts = above.stamps().get(place.name) if above else None
        return (facts[0] or 0, f"{facts[0]}|{facts[1]}") if facts else (0, "gone")
    total, digest = 0, hashlib.md5(usedforsecurity=False)
    folders = [""]
    while folders:
        folder = folders.pop()
        for name, (size_bytes, stamp) in sorted(tree.stamps(folder).items()):
            total += size_bytes or 0
            digest.update(f"{folder}/{name}|{size_bytes}|{stamp}\n".encode())
        folders += [posixpath.join(folder, name) for name in tree.folders(folder)]
    return total, digest.hexdigest()
