"""What a loader is given: checked, and completed by what the environment says."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import Final

import numpy as np
import torch

from datalake.errors import InputError
from datalake.loader.batching import Batching, ByCost, Fixed, Packed, Tail
from datalake.loader.engine.trouble import OnBad
from datalake.loader.order.blocks import Blocks
from datalake.loader.sampling import RowSampler, Sampler
from datalake.loader.sources.source import Source

__all__ = [
    "batching_of",
    "check_choice",
    "check_least",
    "check_processes",
    "check_working_set",
    "device_of",
    "share_of",
]

_log: Final = logging.getLogger("datalake.loader")

_BATCH_SIZE: Final = 64


def batching_of(
    batching: Batching | None,
    batch_size: int | None,
    tail: Tail | None,
    sampler: Sampler,
    on_bad: OnBad,
) -> Batching:
    """How batches are made.

    Raises:
        InputError: it is said twice, or a source does not know the unit of the costs.
    """
    if batching is None:
        return Fixed(_BATCH_SIZE if batch_size is None else batch_size, tail or "pad")
    given = [name for name, value in (("batch_size", batch_size), ("tail", tail)) if value]
    if given:
        raise InputError(
            f"Batches are asked for in two ways: `batching` and {' and '.join(given)}",
            found=f"{batching}",
            fix=f"Leave {' and '.join(given)} out; what `batching` makes has fields of its own",
        )
    if isinstance(batching, ByCost | Packed):
        for source in sampler.sources:
            source.costs(np.empty(0, np.int64), batching.unit)
        if on_bad == "substitute":
            return replace(batching, unknown="alone")
    return batching


def check_working_set(sampler: Sampler, batching: Batching, world_size: int) -> None:
    """Say so if a step of all ranks takes more examples than blocks are open."""
    if not isinstance(sampler, RowSampler) or not isinstance(batching, Fixed):
        return
    order = sampler.order(0)
    step = batching.batch_size * world_size
    if isinstance(order, Blocks) and order.blocks_at_once < min(step, order.num_blocks):
        _log.warning(
            "A step of all ranks takes %d examples from %d open blocks, so that some come from "
            "one block: give the loader a working_set of %d or more, and the cache room for it",
            step,
            order.blocks_at_once,
            2 * step,
        )


def device_of(device: str | torch.device | None) -> torch.device | None:
    """Where batches go.

    Raises:
        InputError: the loader does not copy to such a device, or it is not there.
    """
    if device is None:
        return None
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError("There is no such device", found=f"{device!r}: {error}") from error
    if found.type not in ("cpu", "cuda"):
        raise InputError(
            "The loader copies to CUDA devices only",
            found=str(found),
            fix="Leave `device` out, and move batches in the training loop",
        )
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InputError("There is no CUDA device", found=f"torch {torch.__version__} sees none")
    return found if found.type == "cuda" else None


def share_of(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """The rank and the number of ranks, as given or as torchrun says.

    Raises:
        InputError: there is no such rank.
    """
    rank = _from_torchrun("RANK", 0) if rank is None else rank
    world_size = _from_torchrun("WORLD_SIZE", 1) if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise InputError(
            "The rank lies outside of the world",
            expected="0 <= rank < world_size",
            found=f"rank {rank}, world_size {world_size}",
        )
    return rank, world_size


def _from_torchrun(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal():
        raise InputError(
            "The environment names no rank", where=name, expected="a number", found=text
        )
    return int(text)


def check_processes(source: Source) -> None:
    """Refuse a source that processes which are not forked cannot see."""
    for table in source.tables:
        if not table.capabilities.survives_process:
            raise InputError(
                "Worker processes cannot see this table",
                where=table.uri,
                found=f"the format {table.format}, which lives in this process",
                fix="Use num_workers=0 or multiprocessing_context='fork'",
            )


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse what is none of the words."""
    if value not in known:
        raise InputError(f"{name} is unknown", expected=" or ".join(known), found=repr(value))


def check_least(name: str, value: int | None, least: int) -> None:
    """Refuse a number below the least."""
    if value is not None and value < least:
        raise InputError(f"{name} is too small", expected=f"{least} or more", found=str(value))
