"""RLDS datasets in TFDS's form: TFRecord shards and a features.json, read without TensorFlow.

Provenance: RLDS, https://github.com/google-research/rlds, S. Ramos et al., arXiv:2111.02767, as
TensorFlow Datasets stores it; the form of Open X-Embodiment, DROID and Bridge.

Layout::

    <dataset>/[<config>/]<version>/dataset_info.json
    <dataset>/[<config>/]<version>/features.json
    <dataset>/[<config>/]<version>/<dataset>-<split>.tfrecord-00000-of-000NN

The path may be the version's folder or one up to three levels above it; of several versions the
newest is taken. All splits are read unless `split` names one.

An episode is one record: its `steps` become frames, all else its metadata.

    observation.<key>                 observation.<key>
    … a picture, or raw pixels        observation.images.<key>
    action, action.<key>              action, action.<key>
    reward                            next.reward
    language_instruction              the frame's task
    anything else                     its own name, with dots

Quirks: encoded pictures are kept as found, raw uint8 pixels of an observation become PNG, which
loses nothing. TFDS stores floats in 32 bits and integers in 64, whatever it declares; columns have
the declared type. By RLDS's rule action, reward and discount of a step with `is_last` mean nothing;
they are kept as found, and `drop_last=yes` leaves the step out. RLDS knows no times: `fps` says how
fast steps follow each other. The order of records is that of TFDS's shuffling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from connectors.metadata import read_object
from connectors.options import check_options, choice
from connectors.rlds.corpus import RLDSCorpus
from connectors.rlds.episode import Rules, task_leaf
from connectors.rlds.shards import is_shard
from connectors.rlds.tfds_features import BadFeaturesError, Leaf, parse_features
from connectors.robot_options import EMBODIMENT, FPS, SOURCE, TASK, fps_option, source_of
from connectors.tree import Tree
from datalake.connector import Evidence, OptionSpec
from datalake.errors import ConfigError, InputError, NotFoundError
from datalake.quarantine import Reason
from datalake.recording import Finding, Severity
from datalake.uri import Location

__all__ = ["CONNECTOR", "RLDS"]

_FEATURES: Final = "features.json"
_INFO: Final = "dataset_info.json"
_DEFAULT_FPS: Final = 10.0
# Of one level; any corpus is asked whether it is RLDS, and some have a great many.
_MAX_FOLDERS: Final = 64


class RLDS:
    """Connector for RLDS datasets in TFDS's form."""

    name = "rlds"
    options: tuple[OptionSpec, ...] = (
        replace(SOURCE, default="its name in dataset_info.json"),
        replace(EMBODIMENT, default=None),
        replace(FPS, default=f"{_DEFAULT_FPS:g}, assumed: RLDS does not say"),
        TASK,
        OptionSpec("task_feature", "the text that is the task", "language_instruction"),
        OptionSpec("split", "read this split only", "all"),
        OptionSpec("drop_last", "yes leaves out the last step where is_last marks it", "no"),
        OptionSpec("invalid", "keep takes episodes that are marked invalid", "refuse"),
    )

    def detect(self, root: Location) -> Evidence | None:
        """A features.json with `steps` beside TFRecord shards."""
        trees = list(_versions(root))
        if not trees:
            return None
        tree = trees[-1]
        leaves, fault = _leaves(tree)
        if fault:
            seen = f"TFRecord shards in {tree.root.name}, though {_FEATURES} cannot be used"
            return Evidence(self.name, 0.6, (seen,))
        if not any(leaf.path[0] == "steps" for leaf in leaves):
            return None
        return Evidence(self.name, 0.95, (f"{_FEATURES} with steps, and TFRecord shards",))

    def open(self, root: Location, options: Mapping[str, str]) -> RLDSCorpus:
        """Open the dataset. A faulty features.json gives a corpus without episodes and a finding.

        Raises:
            NotFoundError: there are no TFRecord shards.
            InputError: there are several datasets, or the Examples hold no steps.
            ConfigError: an option is not known or wrong.
        """
        check_options(self.name, options, self.options)
        tree = _only_dataset(root)
        info = read_object(tree, _INFO)
        said: Mapping[str, Any] = info if isinstance(info, dict) else {}
        leaves, fault = _leaves(tree)
        if not fault and not any(leaf.path[0] == "steps" for leaf in leaves):
            raise InputError(
                "The dataset is not RLDS", where=str(tree.root), expected=f"steps in {_FEATURES}"
            )
        findings = [fault] if fault else list(_unsupported(leaves))
        if not isinstance(info, dict):
            findings.append(Finding(info[0], Severity.WARNING, info[1], origin=_INFO))
        fps = fps_option(options)
        if fps is None:
            findings.append(_assumed_fps())
        task = options.get("task") or task_leaf(leaves, options.get("task_feature"))
        if task is None and not fault:
            findings.append(_no_task(options))
        rules = Rules.of(
            leaves,
            fps or _DEFAULT_FPS,
            task,
            drop_last=choice(options, "drop_last", ("yes", "no")) == "yes",
            keep_invalid=choice(options, "invalid", ("keep", "refuse")) == "keep",
        )
        corpus = RLDSCorpus(
            source=source_of(root, options) if "source" in options else _name(tree, said),
            root=tree.root,
            embodiment=options.get("embodiment") or None,
            rules=rules,
            info=dict(said),
            split=options.get("split"),
            opening_findings=tuple(findings),
            is_usable=fault is None,
        )
        corpus.check_split()
        return corpus


CONNECTOR: Final = RLDS()


def _is_version(tree: Tree) -> bool:
    return bool(tree.file_names(is_shard))


def _versions(root: Location) -> Iterator[Tree]:
    """The folders with shards, here or up to three levels below; those of a dataset by version."""
    level = [Tree(root)]
    for _ in range(4):
        found = [tree for tree in level if _is_version(tree)]
        if found:
            yield from sorted(found, key=lambda tree: _version_key(tree.root.name))
            return
        below = (Tree(tree.root.join(name)) for tree in level for name in tree.folders())
        level = list(islice(below, _MAX_FOLDERS))


def _version_key(name: str) -> tuple[tuple[int, ...], str]:
    parts = name.split(".")
    return (tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else (), name)


def _only_dataset(root: Location) -> Tree:
    trees = list(_versions(root))
    if not trees:
        raise NotFoundError(
            "There is no RLDS dataset",
            where=str(root),
            expected=f"a folder with {_FEATURES} and <name>-<split>.tfrecord-00000-of-00001",
            fix="Name the folder of a dataset or of one of its versions",
        )
    parents = sorted({str(tree.root).rpartition("/")[0] for tree in trees})
    if len(parents) > 1:
        raise InputError(
            "There are several datasets",
            where=str(root),
            found=", ".join(parents[:10]) + (", …" if len(parents) > 10 else ""),
            fix="Name one of them",
        )
    return trees[-1]


def _leaves(tree: Tree) -> tuple[tuple[Leaf, ...], Finding | None]:
    found = read_object(tree, _FEATURES)
    if isinstance(found, tuple):
        return (), Finding(found[0], Severity.ERROR, found[1], origin=_FEATURES)
    try:
        return parse_features(found), None
    except BadFeaturesError as error:
        detail = f"it is no features.json of TFDS: {error}"
        return (), Finding(Reason.EMPTY_METADATA, Severity.ERROR, detail, origin=_FEATURES)


def _unsupported(leaves: Sequence[Leaf]) -> Iterator[Finding]:
    for leaf in leaves:
        if leaf.path[0] == "steps" and leaf.kind == "unknown":
            yield Finding(
                Reason.UNSUPPORTED,
                Severity.WARNING,
                f"{leaf.key} is left out: {leaf.dtype} of shape {leaf.whole_shape} fits no column",
                feature=".".join(leaf.path[1:]),
                origin=_FEATURES,
            )


def _assumed_fps() -> Finding:
    return Finding(
        Reason.ASSUMED,
        Severity.WARNING,
        f"RLDS does not say how fast steps follow each other: {_DEFAULT_FPS:g} a second are"
        " assumed; the option fps says otherwise",
    )


def _no_task(options: Mapping[str, str]) -> Finding:
    if "task_feature" in options:
        raise ConfigError(
            f"The option task_feature has no value {options['task_feature']!r}",
            expected="a feature of steps that is one text",
        )
    return Finding(
        Reason.NO_TASK,
        Severity.WARNING,
        "no text of steps has a usual name; the option task_feature names one, task gives one",
        origin=_FEATURES,
    )


def _name(tree: Tree, info: Mapping[str, Any]) -> str:
    """The dataset's name and its configuration's; else the folder's above the version."""
    if info.get("name"):
        config = info.get("configName")
        name = f"{info['name']}_{config}" if config else str(info["name"])
        return name.replace("/", "_")
    above = tree.above()
    is_version = bool(_version_key(tree.root.name)[0])
    return above.root.name if is_version and above is not None else tree.root.name
