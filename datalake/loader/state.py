"""Where a stream stands: a few hundred bytes of plain data that JSON can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from datalake.errors import InputError, LakeError
from datalake.loader.batching.batching import Place
from datalake.loader.batching.checks import check_whole, shown
from datalake.loader.batching.taken import check_taken
from datalake.loader.sampling.choice import without_weights
from datalake.loader.sampling.sampler import Sampler

__all__ = [
    "FORMAT",
    "Cursor",
    "Part",
    "State",
    "load",
    "load_part",
    "place_after",
    "save",
    "save_part",
]

State: TypeAlias = dict[str, Any]
"""Keys: `format`; `epoch`, `position` and `taken` of a `Place`; `identity` and `progress` of the
`Sampler`."""

FORMAT: Final = 2

_KEYS: Final = ("format", "epoch", "position", "taken", "identity", "progress")
_LAST_EPOCH: Final = 2**53
_ABSENT: Final = object()
_OF_BATCH: Final = (
    "Save `loader.state_after(batch)` of the last batch instead: it goes on with any number of "
    "workers and ranks, and any batches"
)

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


def place_after(batch: Mapping[str, Any]) -> Place:
    """Where all ranks stand after a batch, by what it says itself."""
    return Place(batch["epoch"], batch["position"], tuple(batch.get("taken", ())))


@dataclass(frozen=True)
class Part:
    """What a worker's copy of a loader still has to make of a pass.

    From a place on it leaves out `skip` steps, makes one, and then every `num_workers`-th. The
    place of its own last batch will do: whatever the place, steps are counted from there.
    """

    place: Place
    skip: int
    num_workers: int
    made_by: str
    """The batching and the number of ranks: others would count other steps."""

    def after(self, batch: Mapping[str, Any]) -> Part:
        """What is left after one batch of it."""
        return replace(self, place=place_after(batch), skip=self.num_workers - 1)


def save_part(sampler: Sampler, part: Part) -> State:
    """The state of a worker's copy: that of a stream at its place, and whose it is."""
    own = {"skip": part.skip, "num_workers": part.num_workers, "made_by": part.made_by}
    return {**save(sampler, part.place), "worker": own}


def load_part(
    sampler: Sampler, state: Mapping[str, Any], num_workers: int, made_by: str
) -> tuple[Part, Sampler]:
    """What a worker has to make, by the state that `save_part` gave.

    Raises:
        InputError: as `load`; or the workers, the batches, the number of ranks or the weights of a
            mixture changed. Workers stand at different places, between which nothing would fit.
    """
    rest = dict(state)
    own = rest.pop("worker")
    place, resumed = load(sampler, rest)
    if not isinstance(own, Mapping) or own.keys() != {"skip", "num_workers", "made_by"}:
        raise InputError("The state's `worker` is none", found=shown(own))
    expected = {"num_workers": num_workers, "made_by": made_by}
    differing = [
        f"{key}: {shown(own[key])} (the state's) / {shown(value)}"
        for key, value in expected.items()
        if _differ(own[key], value)
    ]
    if save(resumed, place)["progress"] != rest["progress"]:
        differing.append("the weights of a mixture")
    if differing:
        raise InputError(
            "The states of single workers go on only in as many workers that make the same batches",
            found="; ".join(differing),
            fix=_OF_BATCH,
        )
    check_whole("state's worker.skip", own["skip"], 0, num_workers - 1)
    return Part(place, own["skip"], num_workers, made_by), resumed


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

    def rewind(self, is_over: Callable[[Place], bool] = lambda _: False) -> Place:
        """Stand where the next pass begins.

        A pass whose last batch was handed on came to its end, though nobody asked for one more:
        trainers that know the length do not. `is_over` says so of a place.
        """
        if self.place != self._begin and is_over(self.place):
            self.jump(Place(self.place.epoch + 1, 0))
        self.place = self._begin
        return self.place

    def begin(self, place: Place | None = None) -> Place:
        """Begin a pass, at a place or where the next one does: the place."""
        self.place = self._begin if place is None else place
        self._begin = Place(self.place.epoch, 0)
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
    if "worker" in state:
        raise InputError(
            "This is the state of one worker of a DataLoader, not of the stream", fix=_OF_BATCH
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
