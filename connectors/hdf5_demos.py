"""Demonstrations below `/data` of HDF5 files, the layout that robomimic began and LIBERO keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from connectors.frame_arrays import FrameArray, feature_name
from connectors.hdf5_episode import Arrays, arrays_of, attributes, frames_of, left_out
from connectors.hdf5_files import Hdf5Files, h5py_module, natural, open_hdf5, reading
from connectors.hdf5_layouts import layout_of
from connectors.refused import RefusedError
from connectors.tree import stem
from datalake.errors import ConfigError, InputError
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

__all__ = ["DemoCorpus", "DemoSettings", "FileFacts", "open_demos"]

_MUST: Final = ("actions", "states", "rewards", "dones", "robot_states", "obs/*", "next_obs/*")
_OWN_NAMES: Final = {"actions": "action", "rewards": "next.reward", "dones": "next.done"}
_SPLITS: Final = ("train", "valid", "validation", "val", "test")
# Long texts that say how the simulator was built.
_MODEL_FILE: Final = "model_file"


class FileFacts(NamedTuple):
    """What a file says of all its demonstrations."""

    fps: float | None
    embodiment: str | None
    task: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class DemoSettings:
    """What a format, and a user's options, say of how demonstrations are read."""

    layout: str
    """As `layout_of` calls it."""
    facts: Callable[[Mapping[str, Any]], FileFacts]
    """Understands the attributes of `/data`. A function of a module, so that it can be pickled."""
    skip: tuple[str, ...]
    """Patterns of arrays that are left out."""
    task: str | None = None
    """In place of what the file says."""
    fps: float | None = None
    embodiment: str | None = None
    keep_model: bool = False
    flipped: bool = False
    """Whether pictures are turned upright."""

    @property
    def stamp(self) -> str:
        """Changes when the same file would be read otherwise."""
        return "|".join(map(str, (*self.skip, self.task, self.fps, self.keep_model, self.flipped)))


class _Place(NamedTuple):
    """Where a demonstration is."""

    path: str
    demo: str


@dataclass(frozen=True)
class DemoCorpus:
    """An `EpisodeCorpus` of demonstrations in HDF5 files."""

    source: str
    files: Hdf5Files
    embodiment: str | None
    fps: float
    features: tuple[Feature, ...]
    settings: DemoSettings
    notes: tuple[str, ...]
    """What of the first demonstration is left out, and why."""

    @property
    def root(self) -> Location:
        """The folder of the files."""
        return self.files.tree.root

    def videos(self) -> Iterator[VideoFile]:
        """None: pictures are arrays."""
        return iter(())

    def findings(self) -> Iterator[Finding]:
        """Totals and filter keys that contradict the demonstrations, and what is left out."""
        for note in self.notes:
            yield Finding(Reason.UNSUPPORTED, Severity.WARNING, note)
        for path in self.files.paths:
            try:
                with open_hdf5(self.files.tree, path) as file:
                    yield from _file_findings(file, path)
            except RefusedError:
                continue  # `episodes` says so.

    def episodes(self) -> Iterator[EpisodeRef]:
        """The demonstrations, file by file, in numeric order; a file that cannot be read is one."""
        number = 0
        stamps = self.files.stamps()
        for path in self.files.paths:
            size_bytes, stamp = stamps.get(path, (None, ""))
            template = EpisodeRef(
                f"{self.source}/{stem(path)}" if self.files.is_folder else self.source,
                0,
                path,
                None,
                f"{size_bytes}|{stamp}|{self.settings.stamp}",
                size_bytes or 0,
            )
            for ref in self._of_file(path, template):
                yield replace(ref, episode_index=number)
                number += 1

    def _of_file(self, path: str, template: EpisodeRef) -> list[EpisodeRef]:
        try:
            with open_hdf5(self.files.tree, path) as file:
                self._check(file, path)
                lengths = {demo: _length(file["data"], demo) for demo in demo_names(file)}
        except RefusedError as error:
            whole = template.episode_id if self.files.is_folder else f"{self.source}/{stem(path)}"
            refusal = (error.refusal.reason, error.refusal.detail)
            return [replace(template, episode_id=whole, refusal=refusal)]
        num_frames = max(1, sum(length or 0 for length in lengths.values()))
        return [
            replace(
                template,
                episode_id=f"{template.episode_id}/{demo}",
                origin=f"{path}:/data/{demo}",
                length=length,
                num_bytes=template.num_bytes * (length or 0) // num_frames,
                hint=_Place(path, demo),
            )
            for demo, length in lengths.items()
        ]

    def _check(self, file: h5py.File, path: str) -> None:
        if (found := layout_of(file)) != self.settings.layout:
            raise RefusedError(
                Reason.UNSUPPORTED,
                f"{path} has the layout of {found or 'something else'}, not of "
                f"{self.settings.layout}",
            )
        facts = self.settings.facts(attributes(file["data"]))
        if self.settings.fps is None and facts.fps not in (None, self.fps):
            raise RefusedError(
                Reason.METADATA_MISMATCH,
                f"{path} has {facts.fps} frames a second, the dataset's first file {self.fps}",
            )

    def read(self, refs: Sequence[EpisodeRef]) -> Iterator[EpisodeData | BadEpisode]:
        """Read demonstrations; a file is opened once for those that follow each other."""
        for path, group in groupby(refs, lambda ref: ref.hint.path):
            with ExitStack() as stack:
                try:
                    file = stack.enter_context(open_hdf5(self.files.tree, path))
                    common = attributes(_data_group(file), (_MODEL_FILE,))
                    splits = _splits(file)
                except RefusedError as error:
                    for ref in group:
                        yield BadEpisode(ref, error.refusal.reason, error.refusal.detail)
                    continue
                for ref in group:
                    try:
                        data = self._read(file, ref, common, splits)
                    except RefusedError as error:
                        yield BadEpisode(ref, error.refusal.reason, error.refusal.detail)
                    else:
                        yield data

    def _read(
        self,
        file: h5py.File,
        ref: EpisodeRef,
        common: Mapping[str, Any],
        splits: Mapping[str, frozenset[str]],
    ) -> EpisodeData:
        demo = ref.hint.demo
        group = _demo_group(file, demo)
        arrays = arrays_of_demo(group, self.settings, common)
        own = attributes(group, () if self.settings.keep_model else (_MODEL_FILE,))
        facts = self.settings.facts(common)
        said = own.get("ep_meta")  # RoboCasa's words for the episode
        words = said.get("lang") if isinstance(said, dict) else None
        task = self.settings.task or words or facts.task
        filters = sorted(name for name, demos in splits.items() if demo in demos)
        named = [name for name in filters if name in _SPLITS]
        success = own.pop("success", None)
        metadata = {**facts.metadata, **own, **({"filter_keys": filters} if filters else {})}
        frames: pa.Table = frames_of(arrays, self.features, self.fps, group.name)
        return EpisodeData(
            ref,
            frames,
            self.features,
            {0: task or ""},
            bool(success) if success is not None else None,
            named[0] if len(named) == 1 else None,
            metadata,
        )


def open_demos(
    source: str, files: Hdf5Files, settings: DemoSettings, *, default_fps: float | None = None
) -> DemoCorpus:
    """Open the files, of which the first demonstration that can be read declares the features.

    Raises:
        InputError: no demonstration can be read.
        ConfigError: neither the file, nor the format, nor an option gives a frame rate.
    """
    why = "there is no HDF5 file"
    for path in files.paths:
        try:
            with open_hdf5(files.tree, path) as file:
                if layout_of(file) != settings.layout:
                    why = f"{path} has another layout"
                    continue
                common = attributes(file["data"], (_MODEL_FILE,))
                why = f"{path} has no demonstration"
                for demo in demo_names(file):
                    try:
                        group = _demo_group(file, demo)
                        arrays = arrays_of_demo(group, settings, common)
                    except RefusedError as error:
                        why = error.refusal.detail
                        continue
                    return _corpus(source, files, settings, common, arrays, group.name, default_fps)
        except RefusedError as error:
            why = error.refusal.detail
    raise InputError(
        f"No demonstration of {settings.layout} can be read",
        where=str(files.tree.root),
        expected="HDF5 files with groups /data/demo_0, …, each with an array actions",
        found=why,
    )


def _corpus(
    source: str,
    files: Hdf5Files,
    settings: DemoSettings,
    common: Mapping[str, Any],
    arrays: Arrays,
    where: str,
    default_fps: float | None,
) -> DemoCorpus:
    facts = settings.facts(common)
    fps = settings.fps or facts.fps or default_fps
    if fps is None:
        raise ConfigError(
            "The dataset does not say its frame rate",
            where=str(files.tree.root.join(files.paths[0])),
            expected="env_kwargs.control_freq in the attribute env_args of /data",
            fix="Give it: --option fps=20",
        )
    return DemoCorpus(
        source,
        files,
        settings.embodiment or facts.embodiment,
        fps,
        tuple(array.feature for array in arrays.of_frames.values()),
        settings,
        tuple(left_out(arrays, where)),
    )


def demo_names(file: h5py.File) -> list[str]:
    """The names of the demonstrations, demo_2 before demo_10.

    Raises:
        RefusedError: the file is damaged where they are.
    """
    with reading("/data"):
        data = _data_group(file)
        names = [
            name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in data
        ]
        return sorted((name for name in names if _may_be_demo(data, name)), key=natural)


def _may_be_demo(data: h5py.Group, name: str) -> bool:
    """Whether it is a group, or a link into nowhere: a demonstration that cannot be read."""
    h5py = h5py_module()
    try:
        return data.get(name, getclass=True) in (None, h5py.Group)
    except (KeyError, RuntimeError):
        return True


def arrays_of_demo(group: h5py.Group, settings: DemoSettings, common: Mapping[str, Any]) -> Arrays:
    """The arrays of one demonstration.

    Raises:
        RefusedError: see `arrays_of`.
    """
    convention = common.get("macros_image_convention")
    bottom_up = convention == "opengl"
    flipped = settings.flipped and bottom_up
    info = {"image_convention": "opencv" if flipped else convention} if convention else {}

    def wrap(path: str, dataset: h5py.Dataset) -> FrameArray:
        name, picture_name = _names(path)
        return FrameArray.of(
            path, dataset, name=name, picture_name=picture_name, flipped=flipped, info=info
        )

    return arrays_of(group, wrap, main="actions", skip=settings.skip, must=_MUST)


def _names(path: str) -> tuple[str, str]:
    """The names of a demonstration's array as a feature: of numbers, and of pictures."""
    head, _, below = path.partition("/")
    for folder, prefix in (("obs", "observation"), ("next_obs", "next.observation")):
        if head == folder and below:
            rest = below.replace("/", ".")
            return f"{prefix}.{rest}", f"{prefix}.images.{rest}"
    name = _OWN_NAMES.get(path) or feature_name(path)
    return name, name


def _data_group(file: h5py.File) -> h5py.Group:
    h5py = h5py_module()
    with reading("/data"):
        data = file["data"]
    if not isinstance(data, h5py.Group):
        raise RefusedError(Reason.UNSUPPORTED, "/data is no group")
    return data


def _demo_group(file: h5py.File, demo: str) -> h5py.Group:
    h5py = h5py_module()
    with reading(f"/data/{demo}"):
        group = file["data"][demo]
    if not isinstance(group, h5py.Group):
        raise RefusedError(Reason.UNSUPPORTED, f"/data/{demo} is no group")
    return group


def _length(data: h5py.Group, demo: str) -> int | None:
    """The frames that a demonstration's attribute promises; None without one that is a number."""
    try:
        with reading(demo):
            return int(data[demo].attrs["num_samples"])
    except (RefusedError, TypeError):
        return None


def _splits(file: h5py.File) -> dict[str, frozenset[str]]:
    """The demonstrations of each filter key."""
    h5py = h5py_module()
    with reading("/mask"):
        mask = file.get("mask")
        if not isinstance(mask, h5py.Group):
            return {}
        found = {}
        for name, node in mask.items():
            if isinstance(node, h5py.Dataset) and node.shape:
                values = node[:].ravel().tolist()
                found[name] = frozenset(
                    v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values
                )
        return found


def _file_findings(file: h5py.File, path: str) -> Iterator[Finding]:
    def about(reason: Reason, detail: str) -> Finding:
        return Finding(reason, Severity.WARNING, detail, origin=path)

    names = demo_names(file)
    data = _data_group(file)
    said = attributes(data, (_MODEL_FILE,))
    lengths = [_length(data, name) for name in names]
    num_frames = sum(length or 0 for length in lengths)
    if None not in lengths and said.get("total", num_frames) != num_frames:
        yield about(
            Reason.METADATA_MISMATCH,
            f"total is {said['total']}, the demonstrations promise {num_frames} frames together",
        )
    if said.get("num_demos", len(names)) != len(names):
        yield about(
            Reason.METADATA_MISMATCH,
            f"num_demos is {said['num_demos']}, there are {len(names)} demonstrations",
        )
    numbers = {int(found[1]) for name in names if (found := re.search(r"(\d+)$", name))}
    if numbers and len(numbers) <= max(numbers) - min(numbers):
        missing = sorted(set(range(min(numbers), max(numbers))) - numbers)
        shown = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        yield about(Reason.INDEX_GAP, f"there is no demonstration of the numbers {shown}")
    for key, demos in sorted(_splits(file).items()):
        if unknown := sorted(demos - set(names), key=natural):
            shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
            yield about(
                Reason.METADATA_MISMATCH,
                f"the filter key {key} names demonstrations that are not there: {shown}",
            )
