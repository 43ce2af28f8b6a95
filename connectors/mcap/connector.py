"""MCAP recordings and ROS 2 bags: messages of many rates, brought to one.

Provenance: the container format of Foxglove, https://mcap.dev, and rosbag2,
https://github.com/ros2/rosbag2, whose bags are folders with a metadata.yaml.

Layout::

    <name>.mcap                           an episode
    <folder>/<name>.mcap                  an episode each, in folders up to three levels deep
    <bag>/metadata.yaml, <bag>_0.mcap …   one episode, whatever the number of its files
    <bag>/metadata.yaml, <bag>_0.db3 …    the same in SQLite; local, and written by rosbag2 of 2023
                                          or later, which stores the message definitions

Messages: ROS 2 CDR with definitions in `ros2msg`, JSON, Protobuf. Chunks may be stored, lz4 or
zstd; checksums are tested.

Features, unless options say otherwise: the topic that looks like a state is `observation.state`,
the one that looks like an action `action`, every topic of pictures `observation.images.<camera>`,
and each number, array of numbers and text of the other topics `observation.<topic>.<field>`; of
these are left out, unless `topics` names them, those with less than a message a second, those that
begin more than a second late, transforms, logs and point clouds. What was chosen and left out is
said in findings. The first recording that can be read decides for all.

Times: frames stand at a common rate, `fps`: by default that of the slowest camera, without cameras
that of the state, rounded to a whole number. `resample` says which message a frame takes; see
`resampling.py` for the rules and the grid. `clock` says what time a message has: when it was
recorded (`log`), when it was published (`publish`), or its own `header.stamp` (`header`), which may
come from another machine's clock; how far they differ is in each episode's metadata. A frame of
which a main topic (state, action, a camera) has no message within `max_age` seconds refuses the
episode as a gap, unless `gaps=keep`. Messages that no frame takes, and frames that repeat a
message, are counted in the metadata.

Quirks: joints are put in the order of the first recording's first message, by their names. Where
several nodes publish their own joints on one topic, in turn, each message is all joints at their
latest.
Compressed pictures are kept as found, raw ones become PNG of the same pixels (`8UC3` is taken for
BGR, as OpenCV has it). JSON numbers are doubles unless a schema says integer. A recording whose
recorder was stopped has no footer: it is refused as truncated, and `salvage=yes` takes what can be
read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np

from connectors.mcap.bags import Bag, find_bags, one_file
from connectors.mcap.corpus import McapCorpus
from connectors.mcap.mapping import Mapped, map_topics, task_source
from connectors.mcap.plan import Plan
from connectors.mcap.resampling import RULES, median_rate_hz
from connectors.mcap.sampling import Sample, sample_recording
from connectors.options import check_options, choice
from connectors.refused import RefusedError
from connectors.robot_options import EMBODIMENT, FPS, SOURCE, TASK, fps_option, source_of
from connectors.tree import Tree
from datalake.connector import Evidence, OptionSpec
from datalake.errors import ConfigError, NotFoundError
from datalake.quarantine import Reason
from datalake.recording import Finding, Severity
from datalake.uri import Location

__all__ = ["CONNECTOR", "Mcap"]

_DEFAULT_FPS: Final = 30.0
_MAX_AGE_S: Final = 0.5
_MOST_TRIED: Final = 5
_MOST_LOOKED: Final = 32
_CLOCKS: Final = ("log", "publish", "header")
_TELLING_LAG_S: Final = 0.02


class Mcap:
    """Connector for MCAP recordings and ROS 2 bags."""

    name = "mcap"
    options: tuple[OptionSpec, ...] = (
        SOURCE,
        replace(EMBODIMENT, default=None),
        replace(FPS, default="the rate of the slowest camera, else of the state"),
        TASK,
        OptionSpec("task_topic", "the topic that holds the task's text, as /topic:field"),
        OptionSpec("state", "/topic:field of observation.state; several, separated by commas"),
        OptionSpec("action", "/topic:field of action; several, separated by commas"),
        OptionSpec("camera.<name>", "the topic of a camera; given once, no other is taken", "all"),
        OptionSpec("topics", "patterns of the other topics to take, or none", "all steady ones"),
        OptionSpec("clock", "the time of a message: log, publish or header", "log"),
        OptionSpec("resample", "what a frame takes: hold, nearest or interpolate", "hold"),
        OptionSpec("max_age", "seconds after which a message is too old", f"{_MAX_AGE_S:g}"),
        OptionSpec("gaps", "keep takes episodes with gaps", "refuse"),
        OptionSpec("salvage", "yes takes what can be read of a truncated recording", "no"),
    )

    def detect(self, root: Location) -> Evidence | None:
        """An MCAP file, or a folder that holds some or a ROS 2 bag."""
        # Any corpus is asked, and some have a great many folders.
        bags = _one(root)[1] or tuple(islice(find_bags(Tree(root), _MOST_LOOKED), _MOST_LOOKED))
        if not bags:
            return None
        good = sum(bag.fault is None for bag in bags)
        seen = f"{len(bags)}{'' if len(bags) < _MOST_LOOKED else ' or more'} recordings"
        return Evidence(self.name, 0.95 if good else 0.6, (f"{seen}, {good} of them whole",))

    def open(self, root: Location, options: Mapping[str, str]) -> McapCorpus:
        """Open recordings. If none can be read all episodes are refused.

        Raises:
            NotFoundError: there is no recording.
            ConfigError: an option is not known or wrong, or names what there is not.
            MissingPackageError: mcap is not installed.
        """
        check_options(self.name, options, self.options)
        rules = _rules(options)
        tree, bags = _find(root)
        samples, fault = _first_readable(tree, bags, rules)
        plan, findings = _plan(samples, rules, options) if samples else (None, [])
        return McapCorpus(
            source=source_of(root, options).removesuffix(".mcap"),
            root=tree.root,
            embodiment=options.get("embodiment") or None,
            fps=plan.fps if plan else rules.fps or _DEFAULT_FPS,
            bags=bags,
            plan=plan,
            opening_findings=tuple([fault] if fault else findings),
        )


CONNECTOR: Final = Mcap()


def _find(root: Location) -> tuple[Tree, tuple[Bag, ...]]:
    """The recordings at an address, and the folder that they are relative to."""
    tree, bags = _one(root)
    bags = bags or tuple(find_bags(tree))
    if not bags:
        raise NotFoundError(
            "There is no recording",
            where=str(root),
            expected="an .mcap file, a folder of them, or a ROS 2 bag with its metadata.yaml",
        )
    return tree, bags


def _one(root: Location) -> tuple[Tree, tuple[Bag, ...]]:
    """The recording at the address of a file, and its folder; none where it is a folder."""
    tree = Tree(root)
    above = tree.above()
    if above and root.name.lower().endswith(".mcap") and not tree.names():
        bag = one_file(above, root.name)
        return (above, (bag,)) if bag else (tree, ())
    return tree, ()


def _first_readable(
    tree: Tree, bags: Sequence[Bag], rules: Plan
) -> tuple[dict[str, Sample], Finding | None]:
    """The topics of the first recording that can be read; a finding where none of the first can."""
    fault = Finding(Reason.EMPTY, Severity.ERROR, "no recording is whole; see each one's reason")
    good = [
        bag
        for bag in bags
        if bag.fault is None or (rules.salvage and bag.fault[0] is Reason.TRUNCATED)
    ]
    for bag in good[:_MOST_TRIED]:
        try:
            if samples := sample_recording(tree, bag.paths):
                return samples, None
            detail = f"the recording {bag.name} holds no message"
            fault = Finding(Reason.EMPTY, Severity.ERROR, detail, origin=bag.paths[0])
        except (RefusedError, NotFoundError) as error:
            refusal = error.refusal if isinstance(error, RefusedError) else None
            reason = refusal.reason if refusal else Reason.NOT_FOUND
            detail = refusal.detail if refusal else f"the recording {bag.name} is not there"
            fault = Finding(reason, Severity.ERROR, detail, origin=bag.paths[0])
    return {}, fault


def _rules(options: Mapping[str, str]) -> Plan:
    """What the options say, as a plan without topics; fps 0 where they do not say it."""
    text = options.get("max_age", f"{_MAX_AGE_S}")
    try:
        max_age_s = float(text)
    except ValueError:
        max_age_s = math.nan
    if not max_age_s > 0:
        raise ConfigError(f"The option max_age has no value {text!r}", expected="seconds above 0")
    return Plan(
        fps=fps_option(options) or 0.0,
        reference="",
        vectors=(),
        cameras=(),
        main=(),
        task_text=options.get("task") or None,
        clock=choice(options, "clock", _CLOCKS) or _CLOCKS[0],
        rule=choice(options, "resample", RULES) or RULES[0],
        max_age_s=max_age_s,
        keep_gaps=choice(options, "gaps", ("refuse", "keep")) == "keep",
        salvage=choice(options, "salvage", ("no", "yes")) == "yes",
    )


def _plan(
    samples: Mapping[str, Sample], rules: Plan, options: Mapping[str, str]
) -> tuple[Plan | None, list[Finding]]:
    mapped = map_topics(samples, options)
    findings = list(_said_of(mapped))
    if not mapped.reference:
        detail = "no topic holds numbers or pictures that can be read"
        return None, [Finding(Reason.UNSUPPORTED, Severity.ERROR, detail), *findings]
    fps = rules.fps
    if not fps:
        times = np.sort(np.asarray(samples[mapped.reference].times, np.int64))
        fps = median_rate_hz(times) or _DEFAULT_FPS
        detail = f"frames stand {fps:g} times a second, as {mapped.reference} does (option fps)"
        findings.append(_assumed(detail))
    if rules.clock != "header":
        findings += _lags({topic: samples[topic] for topic in sorted(mapped.main)})
    task = task_source(options["task_topic"], samples) if "task_topic" in options else None
    return (
        replace(
            rules,
            fps=fps,
            reference=mapped.reference,
            vectors=mapped.vectors,
            cameras=mapped.cameras,
            main=tuple(sorted(mapped.main)),
            task=task,
        ),
        findings,
    )


def _said_of(mapped: Mapped) -> Iterator[Finding]:
    for note in mapped.notes:
        yield _assumed(note)
    for topic, why in sorted(mapped.left_out.items()):
        yield Finding(Reason.UNSUPPORTED, Severity.WARNING, f"{topic} is left out: {why}")


def _assumed(detail: str) -> Finding:
    return Finding(Reason.ASSUMED, Severity.WARNING, detail)


def _lags(samples: Mapping[str, Sample]) -> Iterator[Finding]:
    """Whether topics are recorded so differently late that their times cannot be compared."""
    lags = {
        topic: float(np.median(sample.stamp_lags_s))
        for topic, sample in samples.items()
        if sample.stamp_lags_s
    }
    if len(lags) < 2 or max(lags.values()) - min(lags.values()) < _TELLING_LAG_S:
        return
    said = ", ".join(f"{topic} {lag * 1000:.0f} ms" for topic, lag in lags.items())
    yield Finding(
        Reason.BAD_TIMESTAMPS,
        Severity.WARNING,
        f"messages were recorded later than their header.stamp says, and not equally: {said};"
        " clock=header aligns them by their stamps",
    )
