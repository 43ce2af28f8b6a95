"""Where a stream stands: a few hundred bytes of plain data that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from datalake.errors import InputError, LakeError
from datalake.loader.batching.batching import Place
from datalake.loader.batching.checks import check_whole, shown
from datalake.loader.batching.taken import check_taken
from datalake.loader.sampling.choice import without_weights
from datalake.loader.sampling.sampler import Sampler

__all__ = ["FORMAT", "Cursor", "State", "load", "save"]

State: TypeAlias = dict[str, Any]
"""Keys: `format`; `epoch`, `position` and `taken` of a `Place`; `identity` and `progress` of the
`Sampler`."""

FORMAT: Final = 2

_KEYS: Final = ("format", "epoch", "position", "taken", "identity", "progress")
_LAST_EPOCH: Final = 2**53
_ABSENT: Final = object()

_Batch = TypeVar("_Batch", bound=Mapping[str, Any])


def save(sampler: Sampler, place: Place) -> State:
    """The state of a stream at a place: the same on every rank after the same step.

    Ranks, workers, batches and the weights of a mixture may differ between saving and loading.
    """
    return {
        "format": FORMAT,
        "epoch": place.epoch,
        "position": place.position,
        "taken": [_plain(record) for record in place.taken],
        "identity": _identity(sampler),
        # What lies before the frontier is dealt out, be it consumed or not.
        "progress": _plain(sampler.progress(place.epoch, place.frontier)),
    }


def load(sampler: Sampler, state: object) -> tuple[Place, Sampler]:
    """Where to go on, and what stands there if the weights of a mixture changed.

    Raises:
        InputError: it is no state, one of another stream (names all that differs), or one of an
            impossible place.
    """
    checked = _checked(state)
    try:
        _check_identity(checked["identity"], _identity(sampler))
    except RecursionError:
        raise InputError("The state's `identity` is nested without end") from None
    check_whole("state's epoch", checked["epoch"], 0, _LAST_EPOCH)
    check_whole("state's position", checked["position"], 0, sampler.num_examples)
    taken = check_taken(checked["taken"], checked["position"], sampler.num_examples)
    place = Place(checked["epoch"], checked["position"], taken)
    return place, _resumed(sampler, place, checked["progress"])


class Cursor:
    """Where a stream stands, and where its next pass begins. One thread moves it.

    A pass begins at the beginning of the epoch, or once where a loaded state stood. A pass that
    came to its end moves on to the next epoch, and one that was broken off does not.
    """

    def __init__(self, epoch: int = 0) -> None:
        self.place = Place(epoch, 0)
        self._begin = self.place

    def jump(self, place: Place) -> None:
        """Stand here; the next pass begins here."""
        self.place = self._begin = place

    def set_epoch(self, epoch: int) -> None:
        """Stand at the beginning of an epoch, or stay if it is the present one."""
        if epoch != self.place.epoch:
            self.jump(Place(epoch, 0))

    def begin(self) -> Place:
        """Begin a pass: the place where it does."""
        self.place, self._begin = self._begin, Place(self._begin.epoch, 0)
        return self.place

    def follow(self, batches: Iterable[_Batch]) -> Iterator[_Batch]:
        """Hand on the batches of a pass and stand after each, then at the next epoch.

        Batches say where all ranks stand after them: `position`, and `taken` unless it is empty.
        """
        epoch = self.place.epoch
        for batch in batches:
            self.place = Place(epoch, batch["position"], tuple(batch.get("taken", ())))
            yield batch
        self.jump(Place(epoch + 1, 0))


def _checked(state: object) -> Mapping[str, Any]:
    """A state of this format."""
    if not isinstance(state, Mapping):
        raise InputError(
            "This is not the state of a loader",
            expected="what `state_dict` gave",
            found=type(state).__name__,
        )
    found = state.get("format")
    if isinstance(found, int) and not isinstance(found, bool) and found != FORMAT:
        raise InputError(
            f"The state was made by {'an earlier' if found < FORMAT else 'a later'} version of the "
            "loader",
            expected=f"format {FORMAT}",
            found=f"format {shown(found)}",
            fix="Go on with that version up to the epoch's end, or begin the epoch anew with "
            "`set_epoch`",
        )
    if found != FORMAT or state.keys() != set(_KEYS):
        raise InputError(
            "This is not the state of a loader",
            expected=f"format {FORMAT} with the keys {', '.join(_KEYS)}",
            found=f"format {shown(found)} with the keys {', '.join(map(shown, state))}",
        )
    return state


def _identity(sampler: Sampler) -> dict[str, Any]:
    """What must be equal at a resume."""
    identity: dict[str, Any] = _plain(without_weights(sampler.identity()))
    return identity


def _check_identity(theirs: object, own: Mapping[str, Any]) -> None:
    left, right = dict(_leaves(theirs)), dict(_leaves(own))
    differing = [
        f"{key or 'identity'}: {_named(left, key)} (the state's) / {_named(right, key)}"
        for key in [*right, *(key for key in left if key not in right)]
        if _differ(left.get(key, _ABSENT), right.get(key, _ABSENT))
    ]
    if differing:
        raise InputError(
            "The state belongs to another stream than this loader's",
            found="; ".join(differing),
            fix="Open the tables at the state's versions, with its selection, order and seed. If "
            "a table only moved to another address, change that in the state's `identity`",
        )


def _resumed(sampler: Sampler, place: Place, progress: object) -> Sampler:
    if not isinstance(progress, Mapping):
        raise InputError(
            "The state's `progress` is no mapping",
            found=f"a value of type {type(progress).__name__}",
        )
    try:
        return sampler.resumed(place.epoch, place.frontier, progress)
    except LakeError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            "The state's `progress` cannot be understood",
            found=f"{shown(dict(progress))} ({type(error).__name__}: {error})",
            fix="Load the state that the loader saved, unchanged",
        ) from error


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """What lies in nested plain data, by dotted path."""
    if isinstance(value, Mapping | list | tuple) and value:
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in items:
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _differ(left: object, right: object) -> bool:
    # 1 and True are equal in Python, and different in JSON.
    return type(left) is not type(right) or left != right


def _named(leaves: Mapping[str, object], key: str) -> str:
    return shown(leaves[key]) if key in leaves else "absent"


def _plain(value: Any) -> Any:
    """The same as JSON would give back."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value
