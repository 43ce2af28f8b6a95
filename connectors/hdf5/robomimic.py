"""robomimic: demonstrations in one HDF5 file, also as MimicGen, RoboCasa and Isaac Lab write them.

Provenance: A. Mandlekar et al., "What Matters in Learning from Offline Human Demonstrations for
Robot Manipulation", https://arxiv.org/abs/2108.03298; layout after
https://robomimic.github.io/docs/datasets/overview.html.

Layout::

    /data                    attributes total, env_args (JSON: env_name, env_kwargs)
    /data/demo_<i>           attributes num_samples, model_file
    /data/demo_<i>/actions, states, rewards, dones
    /data/demo_<i>/obs/<key>, next_obs/<key>
    /mask/<filter key>       names of demonstrations

Features: `action`, `next.reward`, `next.done`, `observation.<key>`, pictures (uint8, stored as PNG
of the same pixels) `observation.images.<key>`, every other array with a row a frame under its own
name. `states`, the simulator's, is one of these: no `observation.`, as no policy may see it.

Quirks: `next_obs` is `obs` moved by one frame and is left out unless `next_obs=keep`. `model_file`
(some 100 kB of XML an episode) is left out of the metadata unless `model_file=keep`. The frame rate
is `control_freq` of `env_args`; data of real robots may lack it. The text of a task is RoboCasa's
`ep_meta` where there, else `env_name`, which is a name rather than a sentence. A demonstration's
split is the one of train, valid and test that has it; all its filter keys are in the metadata. A
folder often has the same demonstrations with and without pictures, so of several files one must be
chosen, or `files=*` says that they belong together.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from connectors.hdf5.demo_file import DemoSettings, FileFacts
from connectors.hdf5.demos import DemoCorpus, open_demos
from connectors.hdf5.files import find_hdf5
from connectors.hdf5.layouts import ROBOMIMIC, evidence
from connectors.options import check_options, choice
from connectors.robot_options import (
    EMBODIMENT,
    FPS,
    SOURCE,
    TASK,
    fps_option,
    patterns_option,
    source_of,
)
from datalake.connector import Evidence, OptionSpec
from datalake.errors import InputError
from datalake.uri import Location

__all__ = ["CONNECTOR", "Robomimic", "environment"]

SKIP: Final = OptionSpec("skip", "arrays to leave out, such as states,obs/*_depth", "none")
NEXT_OBS: Final = OptionSpec("next_obs", "keep: ingest next_obs, which repeats obs", "skip")
MODEL_FILE: Final = OptionSpec(
    "model_file", "keep: put the simulator's XML in the metadata", "skip"
)


class Robomimic:
    """Connector for robomimic."""

    name = ROBOMIMIC
    options: tuple[OptionSpec, ...] = (
        SOURCE,
        EMBODIMENT,
        FPS,
        TASK,
        SKIP,
        NEXT_OBS,
        MODEL_FILE,
        OptionSpec("files", "which of a folder's files: a name or a pattern", "the only one"),
    )

    def detect(self, root: Location) -> Evidence | None:
        """HDF5 files with demonstrations below /data."""
        return evidence(root, ROBOMIMIC)

    def open(self, root: Location, options: Mapping[str, str]) -> DemoCorpus:
        """Open the dataset.

        Raises:
            InputError: there is no such file, or several of which none is chosen, or no
                demonstration in it can be read.
            ConfigError: an option is unknown or wrong, or the frame rate is not known.
        """
        check_options(self.name, options, self.options)
        files = find_hdf5(root)
        if "files" in options:
            wanted = options["files"]
            chosen = tuple(path for path in files.paths if fnmatch.fnmatchcase(path, wanted))
            if not chosen:
                raise InputError(
                    f"No HDF5 file has a name like {wanted!r}",
                    where=str(root),
                    found=", ".join(files.paths[:10]) or "none",
                )
            files = replace(files, paths=chosen)
        elif len(files.paths) > 1:
            raise InputError(
                "The folder holds several HDF5 files, which may be the same demonstrations",
                where=str(root),
                found=", ".join(files.paths[:10]),
                fix="Give one of them as the path, or say which belong together: --option files=*",
            )
        return open_demos(source_of(root, options), files, demo_settings(self.name, options))


def demo_settings(layout: str, options: Mapping[str, str]) -> DemoSettings:
    """The settings that the options of robomimic give."""
    keep_next = choice(options, "next_obs", ("skip", "keep")) == "keep"
    return DemoSettings(
        layout,
        environment,
        patterns_option(options, "skip") + (() if keep_next else ("next_obs",)),
        options.get("task"),
        fps_option(options),
        options.get("embodiment"),
        choice(options, "model_file", ("skip", "keep")) == "keep",
    )


def environment(attributes: Mapping[str, Any]) -> FileFacts:
    """What the attributes of /data say; `env_args` is robomimic's."""
    args = attributes.get("env_args")
    args = args if isinstance(args, dict) else {}
    kwargs = args.get("env_kwargs")
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    rate, robots = kwargs.get("control_freq"), kwargs.get("robots")
    if isinstance(robots, list):
        robots = "+".join(map(str, robots))
    name = args.get("env_name") or attributes.get("env_name")
    left = {key: value for key, value in attributes.items() if key not in {"total", "num_demos"}}
    return FileFacts(
        float(rate) if isinstance(rate, int | float) and rate > 0 else None,
        str(robots) if robots else None,
        str(name) if name else None,
        left,
    )


CONNECTOR: Final = Robomimic()
