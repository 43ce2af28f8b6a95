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
given. A chunk that is not there is a fault in a folder, where Zarr would make it up, unless
`absent=fill`. A zip file is whole or cannot be opened, and Zarr leaves out chunks that hold nothing
but the fill value: there they are filled, unless `absent=refuse`.
"""

from __future__ import annotations

import hashlib
import math
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from connectors.frame_arrays import FrameColumn, time_columns
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
from connectors.umi.buffer import ENDS, Buffer, Settings, episode_ends, left_over, open_buffer
from connectors.umi.store import ZarrGroup, open_zarr, reading_zarr
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
        OptionSpec(
            "absent",
            "fill or refuse: take a chunk that is not there for the fill value, or not",
            "refuse in a folder, fill in a zip file",
        ),
    )

    def detect(self, root: Location) -> Evidence | None:
        """A Zarr group with meta/episode_ends and data, in a folder or a zip file."""
        found = _find(root)
        if not found:
            return None
        if len(found) > 1:
            names = ", ".join(place.name for place in found)
            return Evidence(self.name, 0.4, (f"several datasets, of which to give one: {names}",))
        return Evidence(self.name, 0.9, (f"{ENDS} and data in {found[0].name}",))

    def open(self, root: Location, options: Mapping[str, str]) -> UmiCorpus:
        """Open a replay buffer, or the one in the folder.

        Raises:
            InputError: there is none, or several; it cannot be read.
            ConfigError: an option is unknown or wrong, or fps is not given.
        """
        check_options(self.name, options, self.options)
        place = _only(root)
        fps = fps_option(options)
        settings = Settings(
            fps or math.nan,
            options.get("task", ""),
            patterns_option(options, "skip"),
            choice(options, "pictures", ("png", "keep")) == "keep",
            choice(options, "absent", ("refuse", "fill")) == "fill"
            or ("absent" not in options and place.name.lower().endswith(".zip")),
        )
        with open_zarr(place) as opened:
            try:
                ends = episode_ends(opened)
                buffer = open_buffer(opened, settings)
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
                *((Reason.METADATA_MISMATCH, note) for note in left_over(buffer, ends)),
            ),
        )


CONNECTOR: Final = Umi()


class _Rows(NamedTuple):
    """An episode's rows of every array."""

    start: int
    stop: int


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
    settings: Settings
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
                detail = f"{ENDS} goes back from {rows.start} to {rows.stop}"
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
                buffer = open_buffer(opened, self.settings)
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

    def _frames(self, opened: ZarrGroup, buffer: Buffer, rows: _Rows) -> pa.Table:
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
        expected=f"a Zarr group with {ENDS} and data, in a folder or a zip file",
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
            return ENDS in opened.group and "data" in opened.group
    except MissingPackageError:
        raise
    except (LakeError, RefusedError):
        return False


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
