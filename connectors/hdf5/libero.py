"""LIBERO: a folder of HDF5 files, one a task, each with some fifty demonstrations.

Provenance: B. Liu et al., "LIBERO: Benchmarking Knowledge Transfer for Lifelong Robot Learning",
https://arxiv.org/abs/2306.03310; layout after its script that creates the datasets.

Layout::

    <suite>/<task>_demo.hdf5
    /data                    attributes problem_info (JSON: language_instruction), env_args,
                             bddl_file_name, bddl_file_content, macros_image_convention, num_demos
    /data/demo_<i>           attributes num_samples, model_file, init_state
    /data/demo_<i>/actions, states, robot_states, rewards, dones
    /data/demo_<i>/obs/agentview_rgb, eye_in_hand_rgb, ee_pos, ee_ori, ee_states, joint_states, …

Features are named as robomimic's are; the task is the language instruction, the rate 20 Hz.

Quirks: pictures lie bottom up where `macros_image_convention` is `opengl`, which is the rule. They
are stored as found, and their features' info says `image_convention: opengl`; `flip=yes` stores
them upright (only rows change places: the left stays left) and says `opencv`. An observation was
taken after the action of the same row, and a demonstration's first five steps were dropped, with
which actions and observations are one step apart; nothing is moved. `rewards` and `dones` are 0 but
for the last frame, whatever the simulator said. `states`, the simulator's, has another size in each
task and is left out unless `states=keep`, which a folder of one task allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from connectors.hdf5.demo_file import FileFacts
from connectors.hdf5.demos import DemoCorpus, open_demos
from connectors.hdf5.files import find_hdf5
from connectors.hdf5.layouts import LIBERO, evidence
from connectors.hdf5.robomimic import MODEL_FILE, NEXT_OBS, SKIP, demo_settings, environment
from connectors.options import check_options, choice
from connectors.robot_options import EMBODIMENT, FPS, SOURCE, TASK, source_of
from datalake.connector import Evidence, OptionSpec
from datalake.uri import Location

__all__ = ["CONNECTOR", "Libero"]

_FPS: Final = 20.0


class Libero:
    """Connector for LIBERO."""

    name = LIBERO
    options: tuple[OptionSpec, ...] = (
        SOURCE,
        EMBODIMENT,
        FPS,
        TASK,
        SKIP,
        NEXT_OBS,
        MODEL_FILE,
        OptionSpec("states", "keep: ingest the simulator's states", "skip"),
        OptionSpec("flip", "yes: store pictures upright", "no"),
    )

    def detect(self, root: Location) -> Evidence | None:
        """HDF5 files with demonstrations and the attributes of LIBERO's tasks."""
        return evidence(root, LIBERO)

    def open(self, root: Location, options: Mapping[str, str]) -> DemoCorpus:
        """Open the dataset: a folder of tasks, or one task's file.

        Raises:
            InputError: there is none, or no demonstration in it can be read.
            ConfigError: an option is unknown or wrong.
        """
        check_options(self.name, options, self.options)
        settings = demo_settings(self.name, options)
        keep_states = choice(options, "states", ("skip", "keep")) == "keep"
        settings = replace(
            settings,
            facts=_task,
            skip=settings.skip + (() if keep_states else ("states",)),
            flipped=choice(options, "flip", ("no", "yes")) == "yes",
        )
        return open_demos(source_of(root, options), find_hdf5(root), settings, default_fps=_FPS)


def _task(attributes: Mapping[str, Any]) -> FileFacts:
    facts = environment(attributes)
    problem = attributes.get("problem_info")
    words = problem.get("language_instruction") if isinstance(problem, dict) else None
    if isinstance(words, list):
        words = " ".join(map(str, words))
    # The first versions wrote the instruction with quotes around it.
    task = words.strip().strip('"') if isinstance(words, str) else ""
    return facts._replace(task=task or facts.task)


CONNECTOR: Final = Libero()
