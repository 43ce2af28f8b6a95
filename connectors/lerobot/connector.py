"""LeRobot datasets, versions 2.0, 2.1 and 3.0: Parquet files, and MP4 files or pictures.

Provenance: the format of the library `lerobot` of Hugging Face,
https://github.com/huggingface/lerobot. Versions 2.x have a file an episode (`v2.py`), 3.0
has files of many episodes (`v3.py`).

Quirks: `tasks.parquet` names its texts by a pandas index whose name changed between releases. Names
of motors stand in a list, in a list of lists or below a key. A vector of one element is stored as a
scalar, or numbers of a frame as vectors of one element. Numbers may be stored as another type than
declared: they are taken as stored, with a warning. Pictures are structs of bytes and path. Video
columns are not in the Parquet files. Unknown keys of info.json are left alone. The path may be the
dataset, the folder above it, or a repository's folder in the cache of the Hub
(`datasets--<org>--<name>`), whose snapshot `main` is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connectors.lerobot.corpus import Layout, LeRobotCorpus
from connectors.lerobot.info import InfoError, parse_info
from connectors.lerobot.metadata import faulty
from connectors.lerobot.stored_types import with_stored_types
from connectors.lerobot.v2 import LayoutV2
from connectors.lerobot.v3 import LayoutV3
from connectors.metadata import read_json
from connectors.options import check_options
from connectors.tree import Tree, find_root
from datalake.connector import Evidence, OptionSpec
from datalake.errors import InputError, NotFoundError
from datalake.uri import Location

__all__ = ["CONNECTOR", "LeRobot"]

_INFO: Final = "meta/info.json"


class LeRobot:
    """Connector for LeRobot datasets."""

    name = "lerobot"
    options: tuple[OptionSpec, ...] = (
        OptionSpec("source", "The dataset's name in the lake.", "the folder's name"),
        OptionSpec("embodiment", "The robot.", "robot_type of info.json"),
    )

    def detect(self, root: Location) -> Evidence | None:
        """A `meta/info.json`; with a codebase_version it is certain."""
        tree = _find(root)
        if tree is None:
            return None
        found = read_json(tree, _INFO)
        version = found.get("codebase_version") if isinstance(found, dict) else None
        if version:
            return Evidence(self.name, 0.98, (f"{_INFO} with codebase_version {version}",))
        if {"data", "videos"} & set(tree.folders()):
            return Evidence(self.name, 0.6, (f"{_INFO} beside data, though it cannot be used",))
        return None

    def open(self, root: Location, options: Mapping[str, str]) -> LeRobotCorpus:
        """Open the dataset. A faulty info.json gives a corpus without episodes and a finding.

        Raises:
            NotFoundError: there is no `meta/info.json`.
            InputError: the folder holds several datasets.
            ConfigError: an option is not known.
        """
        check_options(self.name, options, self.options)
        tree = _find(root)
        if tree is None:
            raise NotFoundError(
                "There is no LeRobot dataset",
                where=str(root),
                expected=f"a folder with {_INFO}",
                fix="Name the folder that holds meta, data and videos",
            )
        _check_only(root, tree)
        source = options.get("source") or _name(tree.root)
        embodiment = options.get("embodiment")
        found = read_json(tree, _INFO)
        try:
            if isinstance(found, tuple):
                fault = faulty(found, _INFO)
                return LeRobotCorpus(source, tree.root, embodiment, None, None, fault)
            info = parse_info(found)
        except InfoError as error:
            fault = faulty((error.reason, str(error)), _INFO)
            return LeRobotCorpus(source, tree.root, embodiment, None, None, fault)
        layout: Layout = (LayoutV2 if info.major == 2 else LayoutV3)(tree, info)
        tasks, findings = layout.tasks()
        info, other_types = with_stored_types(tree, info, layout)
        return LeRobotCorpus(
            source,
            tree.root,
            embodiment or info.robot_type,
            info,
            layout,
            None,
            tasks,
            (*findings, *other_types),
        )


CONNECTOR: Final = LeRobot()


def _find(root: Location) -> Tree | None:
    """The dataset's tree, within a repository of the Hub's cache too."""
    tree = Tree(root)
    if "snapshots" in tree.folders():
        revisions = tree.folders("snapshots")
        main = tree.first_lines("refs/main") if tree.find("refs/main") else []
        if wanted := [name for name in revisions if name in main] or revisions[-1:]:
            return find_root(root.join("snapshots", wanted[0]), _is_root)
    return find_root(root, _is_root)


def _check_only(root: Location, found: Tree) -> None:
    """Refuse a folder of several datasets, of which one alone would be taken.

    Raises:
        InputError: it is one.
    """
    here = Tree(root)
    if found.root == root or "snapshots" in here.folders():
        return
    names = [name for name in here.folders() if _is_root(Tree(root.join(name)))]
    if len(names) > 1:
        raise InputError(
            "The folder holds several LeRobot datasets",
            where=str(root),
            expected="one",
            found=f"{', '.join(names[:5])}{', …' if len(names) > 5 else ''}",
            fix="Name one of them, and ingest them one after the other",
        )


def _is_root(tree: Tree) -> bool:
    return "info.json" in tree.names("meta")


def _name(root: Location) -> str:
    """The dataset's name: its folder's, or the repository's in the Hub's cache."""
    for part in reversed(root.uri.split("/")):
        if part.startswith("datasets--"):
            return part.rpartition("--")[2]
    return root.name
