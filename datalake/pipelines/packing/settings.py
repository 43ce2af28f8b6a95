"""What a packing run is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

from datalake.errors import InputError
from datalake.packing import CARRY, WINDOW, Exhausted, Method, Overlong, TokenCosts

__all__ = ["PackSettings", "Parts", "Unit", "WeightBy"]

Unit: TypeAlias = Literal["tokens", "frames"]
Parts: TypeAlias = Literal["episodes", "windows"]
WeightBy: TypeAlias = Literal["source", "modality"]

_CHOICES: Final = {
    "unit": ("tokens", "frames"),
    "parts": ("episodes", "windows"),
    "weight_by": ("source", "modality"),
}


@dataclass(frozen=True)
class PackSettings:
    """The options of a packing run that decide what it writes.

    Raises:
        InputError: a value is not one of those allowed, or two contradict each other. What the
            packer takes is checked by the packer.
    """

    budget: int
    """Tokens, or frames, of a sequence."""
    unit: Unit = "tokens"
    costs: TokenCosts = field(default_factory=TokenCosts)
    parts: Parts = "episodes"
    """Whether an item is a whole episode or a window of one."""
    history: int = 0
    """Frames of a window before the current one."""
    chunk: int = 1
    """Frames of a window from the current one on: the actions."""
    stride: int = 1
    """From a window's first frame to the next window's."""
    method: Method = "best_fit_decreasing"
    window: int | None = WINDOW
    carry: int = CARRY
    num_ranks: int = 1
    overlong: Overlong = "raise"
    seed: int = 0
    masks: tuple[str, ...] = ()
    """Names of masks, at most one of each set: an episode's items are those of what it leaves."""
    columns: tuple[str, ...] = ()
    """Features whose values are put into the rows."""
    token_columns: bool = True
    """Whether rows have the columns with a value a token; they follow from `cu_seqlens`."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The share of each source in the tokens; empty: all items, source after source."""
    weight_by: WeightBy = "source"
    """Whether weights are of sources or of modalities (of most of an item's tokens)."""
    exhausted: Exhausted = "stop"
    batch_size: int = 32
    """Of the batches that are padded to their longest item, for comparison."""

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"The option {name} has an unknown value",
                    expected=" or ".join(allowed),
                    found=repr(getattr(self, name)),
                )
        for name, least in {
            "budget": 1,
            "history": 0,
            "chunk": 1,
            "stride": 1,
            "batch_size": 1,
        }.items():
            if getattr(self, name) < least:
                raise InputError(
                    f"The option {name} is out of range",
                    expected=f"at least {least}",
                    found=str(getattr(self, name)),
                )
        if self.budget >= 2**31:
            raise InputError(
                "The option budget is out of range",
                expected="less than 2**31, as cu_seqlens are 32-bit",
                found=str(self.budget),
            )
        if self.parts == "windows" and self.overlong != "raise":
            raise InputError(
                "A window is packed whole",
                found=f"overlong items that are to be {_done(self.overlong)}",
                fix="Leave the option out, and raise the budget if windows do not fit",
            )
        if self.unit == "frames" and self.weight_by == "modality":
            raise InputError("Frames have no modality", fix="Count tokens, or weigh sources")

    @property
    def horizon(self) -> int:
        """Frames of a window."""
        return self.history + self.chunk

    def as_config(self) -> dict[str, Any]:
        """These settings as JSON values, for lineage and reports."""
        config = asdict(self)
        text = self.costs.text
        config["costs"]["text"] = getattr(text, "__qualname__", None) or repr(text)
        return config


def _done(overlong: Overlong) -> str:
    return {"truncate": "truncated", "split": "split"}.get(overlong, overlong)
