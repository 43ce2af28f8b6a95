"""What is left of a window that was begun by batchings, world sizes and limits that may differ.

`Place.taken` holds one record for each run of a trainer that worked on the window: how it cut the
window up and how many steps it made. What a run took follows from what its predecessors left, so
that cutting again, run by run, tells to the position what is left, in a hundred bytes or two a run.

    {"by": "cost", …the fields of `Buckets`, "world_size": 8, "steps": 3, "stop": 4096}
    {"by": "packed", …the fields of `Sequences`, "world_size": 8, "steps": 3, "stop": 4096}
    {"by": "fixed", "batch_size": 64, "world_size": 8, "steps": 1, "stop": 4096}
    {"by": "list", "left": "<a bit a position, base64>", "stop": 4096}

`stop` is where the window ends as that run saw it. Only a change of the batching or of the world in
the midst of a window adds a record; after `MOST_RUNS` of them they are replaced by one that lists
what is left, which is the bound: for a window of 4,096 positions a record of some 750 characters.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import numpy as np

from datalake.errors import InputError
from datalake.loader.batching.batching import Place
from datalake.loader.batching.buckets import Buckets
from datalake.loader.batching.checks import LARGEST_WINDOW, check_choice, check_whole
from datalake.loader.batching.costs import costs_of
from datalake.loader.batching.cutter import Cutter
from datalake.loader.batching.plan import Plan, plan
from datalake.loader.batching.sequences import Sequences
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Sampler

__all__ = ["MOST_RUNS", "Record", "check_taken", "folded", "left_of", "planned", "resumed"]

Record = Mapping[str, Any]

MOST_RUNS: Final = 4

# Larger than any window: whoever wrote such a state wrote no state of a loader.
_LONGEST: Final = 16 * LARGEST_WINDOW
_MOST: Final = 2**31 - 1
_CUTTERS: Final[dict[str, type[Buckets] | type[Sequences]]] = {
    Buckets.kind: Buckets,
    Sequences.kind: Sequences,
}
_OWN: Final = ("by", "world_size", "steps", "stop")


def left_of(sampler: Sampler, place: Place) -> Indices:
    """Positions of the window that no run took, ascending; all lie before `place.frontier`.

    Raises:
        InputError: the records do not fit the examples.
    """
    left, reached = np.empty(0, np.int64), place.position
    for record in place.taken:
        stop = record["stop"]
        left = np.concatenate([left, np.arange(reached, stop)])
        reached = stop
        if record["by"] == "list":
            left = left[_unpacked(record["left"], len(left))]
        elif record["by"] == "fixed":
            left = left[record["steps"] * record["batch_size"] * record["world_size"] :]
        else:
            made = planned(_cutter_of(record), sampler, place.epoch, left, record["world_size"])
            left = made.left_after(checked_steps(made, record["steps"]))
    return left


def planned(
    cutter: Cutter, sampler: Sampler, epoch: int, positions: Indices, world_size: int
) -> Plan:
    """The plan of these positions of an epoch."""

    def weigh(positions: Indices) -> Any:
        return costs_of(sampler, epoch, positions, cutter.unit, cutter.most, cutter.unknown_cost)

    return plan(cutter, positions, weigh(positions), world_size, epoch=epoch, weigh=weigh)


def checked_steps(made: Plan, steps: int) -> int:
    """The steps that a record says are done.

    Raises:
        InputError: its window has fewer.
    """
    if steps > made.num_steps:
        raise InputError(
            "The state does not fit what the examples of its window cost",
            expected=f"at most {made.num_steps} steps",
            found=str(steps),
            fix="Load the state that the loader saved, unchanged",
        )
    return steps


def resumed(place: Place, own: Record) -> tuple[Place, int] | None:
    """The place where the last run began and its steps, if the run to come continues it.

    Args:
        place: where to go on.
        own: the record of the run to come, without `steps` and `stop`.
    """
    if not place.taken:
        return None
    last = {key: value for key, value in place.taken[-1].items() if key not in {"steps", "stop"}}
    if last != own:
        return None
    return Place(place.epoch, place.position, place.taken[:-1]), place.taken[-1]["steps"]


def folded(place: Place, left: Indices) -> Place:
    """The same place, with a list of what is left where there are too many records."""
    if len(place.taken) < MOST_RUNS or not len(left):
        return place
    position, stop = int(left[0]), place.frontier
    bits = np.zeros(stop - position, np.bool_)
    bits[left - position] = True
    text = base64.b64encode(np.packbits(bits).tobytes()).decode()
    return Place(place.epoch, position, ({"by": "list", "left": text, "stop": stop},))


def check_taken(taken: object, position: int, num_examples: int) -> tuple[Record, ...]:
    """The records of a state.

    Raises:
        InputError: they are no records, or stand where there is no such position.
    """
    if not isinstance(taken, list | tuple):
        raise InputError("The state's `taken` is no list", found=type(taken).__name__)
    check_whole("number of runs in the state's window", len(taken), 0, MOST_RUNS)
    reached, checked = position, []
    for index, record in enumerate(taken):
        if not isinstance(record, Mapping):
            raise InputError(
                "A record of the state's `taken` is no mapping", where=f"taken.{index}"
            )
        least = reached + (index == 0)
        check_whole(f"taken.{index}.stop", record.get("stop"), least, num_examples)
        reached = record["stop"]
        check_whole(f"span of the state's window (taken.{index})", reached - position, 1, _LONGEST)
        _check_record(record, index, reached - position)
        checked.append(dict(record))
    return tuple(checked)


def _check_record(record: Record, index: int, span: int) -> None:
    kind = record.get("by", "")
    check_choice(f"taken.{index}.by", kind, [*_CUTTERS, "fixed", "list"])
    if kind == "list":
        _check_keys(record, index, ("by", "left", "stop"))
        if index or not isinstance(record["left"], str):
            raise InputError(
                "The state's list of what is left is none",
                where=f"taken.{index}.left",
                expected="text, in the first record",
            )
        _unpacked(record["left"], span)
        return
    check_whole(f"taken.{index}.world_size", record.get("world_size"), 1, _MOST)
    check_whole(f"taken.{index}.steps", record.get("steps"), 1, _MOST)
    if kind == "fixed":
        _check_keys(record, index, (*_OWN, "batch_size"))
        check_whole(f"taken.{index}.batch_size", record["batch_size"], 1, _MOST)
    else:
        names = [field.name for field in fields(_CUTTERS[kind])]
        _check_keys(record, index, (*_OWN, *(n for n in names if n != "unknown" or n in record)))
        _cutter_of(record)


def _check_keys(record: Record, index: int, keys: tuple[str, ...]) -> None:
    if record.keys() != set(keys):
        raise InputError(
            "A record of the state's `taken` has other keys than it should",
            where=f"taken.{index}",
            expected=", ".join(sorted(keys)),
            found=", ".join(sorted(map(str, record))),
        )


def _cutter_of(record: Record) -> Cutter:
    given = {key: value for key, value in record.items() if key not in _OWN}
    cutter: Cutter = _CUTTERS[record["by"]](**given)
    return cutter


def _unpacked(text: str, count: int) -> Any:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != -(-count // 8):
        raise InputError(
            "The state's list of what is left does not fit its window",
            expected=f"{-(-count // 8)} bytes in base64",
            found=f"{len(raw)}",
        )
    return np.unpackbits(np.frombuffer(raw, np.uint8), count=count).astype(np.bool_)
