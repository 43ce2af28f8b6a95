"""From whatever a user gives to a sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from datalake.errors import InputError
from datalake.loader.order.choice import OrderName
from datalake.loader.sampling.rows import Selected, Whole
from datalake.loader.sampling.sampler import Plain, Sampler
from datalake.loader.sampling.spec import DEFAULT_WORKING_SET, Data, Spec, WorkingSet
from datalake.loader.sources.source import Source

__all__ = ["sampler_of", "without_weights"]


def sampler_of(
    data: Data,
    *,
    order: OrderName = "exact",
    seed: int = 0,
    working_set: WorkingSet = DEFAULT_WORKING_SET,
) -> Sampler:
    """The sampler of a source (all its rows, or those of the selection that it names), of a spec
    such as `Mixture`, or a sampler itself.

    Raises:
        InputError: it is none of these.
    """
    if hasattr(data, "picks"):
        return cast("Sampler", data)
    # A table can be read too, and has no blocks of examples.
    if hasattr(data, "read") and hasattr(data, "block_rows"):
        source = cast("Source", data)
        selection = getattr(source, "selection", None)
        spec: Spec = Whole(source) if selection is None else Selected(source, selection)
    elif hasattr(data, "sampler"):
        spec = data
    else:
        raise InputError(
            "This cannot be streamed",
            expected="a source, such as Utterances, or Selected, Weighted or Mixture",
            found=type(data).__name__,
            fix="Wrap a table in Utterances (speech) or Rows (columns as they are), an episode set "
            "in EpisodeWindows",
        )
    return spec.sampler(order=order, seed=seed, working_set=working_set)


def without_weights(identity: Plain) -> dict[str, Any]:
    """An identity without the weights of its mixtures: what must be equal at a resume."""
    return {
        key: without_weights(value) if isinstance(value, Mapping) else value
        for key, value in identity.items()
        if not (key == "weights" and "mixture" in identity)
    }
