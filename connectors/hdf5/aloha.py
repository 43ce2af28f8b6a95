"""ALOHA and ACT: one HDF5 file an episode.

Provenance: T. Zhao et al., "Learning Fine-Grained Bimanual Manipulation with Low-Cost Hardware",
https://arxiv.org/abs/2304.13705; layout after its recorder and that of Mobile ALOHA.

Layout::

    episode_<i>.hdf5         attributes sim, compress
    /action                  (frames, 14); Mobile ALOHA also /base_action (frames, 2)
    /observations/qpos, qvel, effort
    /observations/images/<camera>   (frames, height, width, 3), or (frames, bytes) of padded JPEG
    /compress_len            (cameras, frames): bytes of each JPEG

Features: `action`, `observation.state` (qpos), `observation.velocity` (qvel), `observation.effort`,
`observation.images.<camera>`; every other array with a row a frame under its own name, those of
observations as `observation.<name>`.

Quirks: JPEG is stored as found, without the padding. Where one ends is read off the JPEG itself:
the rows of compress_len are in the order of the recorder's list of cameras, which the file does not
hold. The recorder hands its pictures to OpenCV, which takes the first channel for blue: whether the
colours of a JPEG are swapped depends on the recorder, and is not seen in the file. On the real
robot (`sim` false) an action was recorded one step after the observation that it answers, for which
ACT's loader takes the action before; nothing is moved here, and `sim` is in the metadata. No file
says its rate (50 unless fps says otherwise). The task is the one text in `language_raw` or
`instruction`, which some recorders write, else the folder's name, unless the option task gives it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from connectors.encoded_pictures import encoded_shape
from connectors.frame_arrays import FrameArray, NoFeatureError, Stored, feature_name
from connectors.hdf5.episode import Arrays, arrays_of, attributes, frames_of, left_out
from connectors.hdf5.files import Hdf5Files, find_hdf5, h5py_module, open_hdf5, reading
from connectors.hdf5.layouts import ALOHA, evidence, layout_of
from connectors.options import check_options
from connectors.pictures import AXES
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
from connectors.tree import stem
from datalake.connector import Evidence, OptionSpec
from datalake.errors import InputError
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

if TYPE_CHECKING:
    import h5py

__all__ = ["CONNECTOR", "Aloha", "AlohaCorpus"]

_FPS: Final = 50.0
_MUST: Final = ("action", "base_action", "observations/*")
# One text an episode: Mobile ALOHA's and ACT's with language, and RDT's.
_TEXTS: Final = ("language_raw", "instruction")
_STATES: Final = {"qpos": "state", "qvel": "velocity", "effort": "effort"}
_IMAGES: Final = "observations/images/"
_JPEG_BEGINS: Final = b"\xff\xd8\xff"
_JPEG_ENDS: Final = b"\xff\xd9"


class Aloha:
    """Connector for ALOHA and ACT."""

    name = ALOHA
    options: tuple[OptionSpec, ...] = (
        SOURCE,
        OptionSpec("embodiment", EMBODIMENT.help, "aloha"),
        OptionSpec("fps", FPS.help, f"{_FPS:g}"),
        OptionSpec("task", TASK.help, "the file's language_raw or instruction, else the folder"),
        OptionSpec("skip", "arrays to leave out, such as observations/effort", "none"),
    )

    def detect(self, root: Location) -> Evidence | None:
        """HDF5 files with /action and /observations."""
        return evidence(root, ALOHA)

    def open(self, root: Location, options: Mapping[str, str]) -> AlohaCorpus:
        """Open a folder of episodes, or one episode's file.

        Raises:
            InputError: there is none, or none that can be read.
            ConfigError: an option is unknown or wrong.
        """
        check_options(self.name, options, self.options)
        files = find_hdf5(root)
        skip = patterns_option(options, "skip")
        why = "there is no HDF5 file"
        for path in files.paths:
            try:
                with open_hdf5(files.tree, path) as file:
                    arrays = _arrays(file, path, skip)
            except RefusedError as error:
                why = error.refusal.detail
                continue
            return AlohaCorpus(
                source_of(root if files.is_folder else files.tree.root, options),
                files,
                options.get("embodiment", ALOHA),
                fps_option(options) or _FPS,
                tuple(array.feature for array in arrays.of_frames.values()),
                options.get("task"),
                skip,
                tuple(left_out(arrays, path)),
            )
        raise InputError(
            "No episode of ALOHA can be read",
            where=str(root),
            expected="HDF5 files with /action and /observations",
            found=why,
        )


CONNECTOR: Final = Aloha()


@dataclass(frozen=True)
class AlohaCorpus:
    """An `EpisodeCorpus` of one HDF5 file an episode. Listing it opens no file."""

    source: str
    files: Hdf5Files
    embodiment: str
    fps: float
    features: tuple[Feature, ...]
    task: str | None
    """None: the name of the file's folder."""
    skip: tuple[str, ...]
    notes: tuple[str, ...]
    """What of the first episode is left out, and why."""

    @property
    def root(self) -> Location:
        """The folder of the files."""
        return self.files.tree.root

    def videos(self) -> Iterator[VideoFile]:
        """None: pictures are arrays."""
        return iter(())

    def findings(self) -> Iterator[Finding]:
        """What is left out of the first episode."""
        for note in self.notes:
            yield Finding(Reason.UNSUPPORTED, Severity.WARNING, note)

    def episodes(self) -> Iterator[EpisodeRef]:
        """One a file, episode_2 before episode_10."""
        settings = f"{self.fps}|{self.task}|{'|'.join(self.skip)}"
        stamps = self.files.stamps()
        for number, path in enumerate(self.files.paths):
            size_bytes, stamp = stamps.get(path, (None, ""))
            yield EpisodeRef(
                f"{self.source}/{stem(path)}",
                number,
                path,
                None,
                f"{size_bytes}|{stamp}|{settings}",
                size_bytes or 0,
            )

    def read(self, refs: Sequence[EpisodeRef]) -> Iterator[EpisodeData | BadEpisode]:
        """Read episodes, a file each."""
        for ref in refs:
            try:
                data = self._read(ref)
            except RefusedError as error:
                yield BadEpisode(ref, error.refusal.reason, error.refusal.detail)
            else:
                yield data

    def _read(self, ref: EpisodeRef) -> EpisodeData:
        path = ref.origin
        with open_hdf5(self.files.tree, path) as file:
            arrays = _arrays(file, path, self.skip)
            frames = frames_of(arrays, self.features, self.fps, path)
            said = attributes(file)
            task = self.task or _text(file)
        folder = posixpath.basename(posixpath.dirname(self.root.join(path).uri))
        return EpisodeData(ref, frames, self.features, {0: task or folder}, metadata=said)


def _arrays(file: h5py.File, path: str, skip: Sequence[str]) -> Arrays:
    if (found := layout_of(file)) != ALOHA:
        raise RefusedError(
            Reason.UNSUPPORTED, f"{path} has the layout of {found or 'something else'}, not ALOHA's"
        )
    compress_len = ("compress_len", "*/compress_len")
    return arrays_of(
        file, _wrap, main="action", skip=(*skip, *compress_len, *_texts(file)), must=_MUST
    )


def _text(file: h5py.File) -> str | None:
    """What the episode is called in the file, where it is called anything."""
    for name in _texts(file):
        with reading(f"/{name}"):
            text: Any = np.asarray(file[name][()]).reshape(-1)[0]
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        if isinstance(text, str) and text.strip():
            return text.strip()
    return None


def _texts(file: h5py.File) -> list[str]:
    """The arrays that hold one value for the episode, where others have one a frame."""
    h5py = h5py_module()
    with reading("/"):
        found = {name: file.get(name) for name in _TEXTS}
        return [n for n, at in found.items() if isinstance(at, h5py.Dataset) and at.size == 1]


def _wrap(path: str, dataset: h5py.Dataset) -> FrameArray | JpegArray:
    if path.startswith(_IMAGES):
        camera = path.removeprefix(_IMAGES).replace("/", ".")
        name = f"observation.images.{camera}"
        if len(dataset.shape) < 3 and _holds_bytes(dataset):
            return JpegArray.of(path, dataset, name)
        return FrameArray.of(path, dataset, name=name, picture_name=name)
    head, _, below = path.partition("/")
    if head == "observations":
        name = _STATES.get(below) or below.replace("/", ".")
        return FrameArray.of(
            path, dataset, name=f"observation.{name}", picture_name=f"observation.images.{name}"
        )
    name = feature_name(path)
    return FrameArray.of(path, dataset, name=name, picture_name=name)


def _holds_bytes(dataset: h5py.Dataset) -> bool:
    """Rows of uint8, of one length or each of its own, or byte strings."""
    dtype = dataset.dtype
    if dtype.kind == "O":
        return (dtype.metadata or {}).get("vlen") in (np.dtype("uint8"), bytes)
    return dtype.kind == "S" or (dtype == np.uint8 and len(dataset.shape) == 2)


@dataclass(frozen=True)
class JpegArray:
    """An array whose rows are JPEG files, padded with zeros to one length where they have one."""

    path: str
    stored: Stored
    feature: Feature

    @classmethod
    def of(cls, path: str, stored: Stored, name: str) -> JpegArray:
        """The array, its pictures' size read from the first of them.

        Raises:
            NoFeatureError: the first row is no JPEG.
        """
        (first,) = _unpadded(stored, 0, 1)
        shape = encoded_shape(first)
        if shape is None or not first.startswith(_JPEG_BEGINS):
            raise NoFeatureError("its first row is no JPEG")
        return cls(path, stored, Feature(name, "image", shape, AXES))

    def column(self, rows: slice) -> pa.Array:
        """The files as they are stored, without the padding.

        Raises:
            RefusedError: a row is no whole JPEG.
        """
        encoded = _unpadded(self.stored, rows.start, rows.stop)
        for number, data in enumerate(encoded):
            if not (data.startswith(_JPEG_BEGINS) and data.endswith(_JPEG_ENDS)):
                what = "has no bytes" if not data else "is no whole JPEG"
                raise RefusedError(Reason.CORRUPT, f"{self.path}: the picture {number} {what}")
        return pa.array(encoded, pa.large_binary())


def _unpadded(stored: Stored, start: int, stop: int) -> list[bytes]:
    rows: Any = stored[start:stop]
    found = [row if isinstance(row, bytes) else np.asarray(row, np.uint8).tobytes() for row in rows]
    return [data.rstrip(b"\0") for data in found]
