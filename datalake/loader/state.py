"""Where a stream stands: a few hundred bytes of plain data that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

from datalake.errors import InputError

__all__ = ["Cursor", "Identity", "State"]

State: TypeAlias = dict[str, str | int | None]
"""Keys: `format`, `epoch`, `position` (examples of the epoch that all ranks together have had), and
the fields of `Identity`."""

FORMAT: Final = 1


@dataclass(frozen=True)
class Identity:
    """What gives a position its meaning: streams of one identity have one order.

    Ranks, workers, batch size, tail and the form of the clips are no part of it; they may differ
    between saving and loading.
    """

    table: str
    """The table's uri."""
    table_version: int
    selection: str | None
    """The selection's digest; None for the whole table."""
    num_examples: int
    order: str
    seed: int

    def state(self, epoch: int, position: int) -> State:
        """The state of a stream of this identity."""
        return {"format": FORMAT, "epoch": epoch, "position": position, **asdict(self)}

    def place(self, state: Mapping[str, str | int | None]) -> tuple[int, int]:
        """The epoch and the position of a state of this identity.

        Raises:
            InputError: it is no such state. The message names all that differs.
        """
        own = self.state(epoch=0, position=0)
        if state.keys() != own.keys() or state["format"] != FORMAT:
            raise InputError(
                "This is not the state of a loader",
                expected=f"format {FORMAT} with the keys {', '.join(own)}",
                found=f"format {state.get('format')} with the keys {', '.join(state)}",
            )
        names = [name for name in asdict(self) if state[name] != own[name]]
        if names:
            raise InputError(
                "The state belongs to another stream than this loader's",
                where=self.table,
                expected=", ".join(f"{name} {state[name]} (the state's)" for name in names),
                found=", ".join(f"{name} {own[name]}" for name in names),
                fix="Open the table at that version, with that selection, shuffle and seed. If the "
                "same table only moved to another address, set state['table'] to the new one",
            )
        epoch, position = state["epoch"], state["position"]
        if not (
            isinstance(epoch, int)
            and isinstance(position, int)
            and epoch >= 0
            and 0 <= position <= self.num_examples
        ):
            raise InputError(
                "The state stands at an impossible place",
                where=self.table,
                expected=f"an epoch from 0 and a position from 0 to {self.num_examples}",
                found=f"epoch {epoch!r}, position {position!r}",
            )
        return epoch, position


@dataclass
class Cursor:
    """Where a stream stands, and where its next pass begins. One thread moves it.

    A pass begins at the beginning of the epoch, or once where a loaded state stood. A pass that
    came to its end moves on to the next epoch, and one that was broken off does not.
    """

    epoch: int = 0
    position: int = 0
    _begin: int = 0

    def jump(self, epoch: int, position: int) -> None:
        """Stand here; the next pass begins here."""
        self.epoch, self.position, self._begin = epoch, position, position

    def set_epoch(self, epoch: int) -> None:
        """Stand at the beginning of an epoch, or stay if it is the present one."""
        if epoch != self.epoch:
            self.jump(epoch, 0)

    def begin(self) -> tuple[int, int]:
        """Begin a pass: the epoch and position where it does."""
        self.position, self._begin = self._begin, 0
        return self.epoch, self.position

    def follow(self, batches: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Hand on the batches of a pass and stand after each, then at the next epoch."""
        for batch in batches:
            self.position = batch["position"]
            yield batch
        self.jump(self.epoch + 1, 0)
