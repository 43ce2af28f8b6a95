"""Demonstrations below `/data` of HDF5 files, the layout that robomimic began and LIBERO keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from connectors.hdf5.demo_file import (
    MODEL_FILE,
    DemoSettings,
    arrays_of_demo,
    data_group,
    demo_group,
    demo_names,
    file_findings,
    filter_keys,
    promised_length,
)
from connectors.hdf5.episode import Arrays, attributes, frames_of, left_out
from connectors.hdf5.files import Hdf5Files, open_hdf5
from connectors.hdf5.layouts import layout_of
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

__all__ = ["DemoCorpus", "open_demos"]

_SPLITS: Final = ("train", "valid", "validation", "val", "test")


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
                    yield from file_findings(file, path)
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
                lengths = {demo: promised_length(file["data"], demo) for demo in demo_names(file)}
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
                    common = attributes(data_group(file), (MODEL_FILE,))
                    splits = filter_keys(file)
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
        group = demo_group(file, demo)
        arrays = arrays_of_demo(group, self.settings, common)
        own = attributes(group, () if self.settings.keep_model else (MODEL_FILE,))
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
                common = attributes(file["data"], (MODEL_FILE,))
                why = f"{path} has no demonstration"
                for demo in demo_names(file):
                    try:
                        group = demo_group(file, demo)
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
