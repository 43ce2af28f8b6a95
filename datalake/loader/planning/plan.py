"""`plan`: the calculation as a whole."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np

from datalake.blocks.budget import DEFAULT_RATE
from datalake.errors import InputError
from datalake.loader.engine.next_use import parts_of
from datalake.loader.engine.shuffle import expected_shuffle
from datalake.loader.order.blocks import Blocks
from datalake.loader.order.choice import OrderName
from datalake.loader.order.exact import Exact
from datalake.loader.order.quality import Quality
from datalake.loader.planning.calibration import Costs, calibrate
from datalake.loader.planning.columns import columns_of
from datalake.loader.planning.reading import How, Reading, Taken, access_of, reading
from datalake.loader.sampling import sampler_of
from datalake.loader.sampling.sampler import Sampler
from datalake.loader.sampling.spec import DEFAULT_WORKING_SET, WorkingSet

__all__ = ["Epoch", "Limit", "Plan", "Setting", "plan"]

Limit: TypeAlias = Literal["decode", "bandwidth", "requests", "step"]

# As `TableReader` and `Loader` have them.
_IO_THREADS: Final = 8
_AHEAD_BYTES: Final = 64 << 20
_MADE_BYTES: Final = 64 << 20
_READ_BYTES: Final = 256 << 20
_BASE_BYTES: Final = 250_000_000
# Stretches of an epoch that are looked at one by one.
_STRETCHES: Final = 200
_DRAWN: Final = 65_536


@dataclass(frozen=True)
class Setting:
    """The run that is planned."""

    batch_size: int = 64
    """Examples a rank and step."""
    world_size: int = 1
    nodes: int = 1
    bandwidth_mb_s: float = 500.0
    """Of a node to the store, or to the disk: 10^6 bytes a second."""
    latency_ms: float = 20.0
    """Of a request."""
    cache_bytes: float = 64e9
    """Of a node."""
    num_threads: int | None = None
    """Of a rank, that make batches; None for the cores divided among the node's ranks."""
    num_cores: int | None = None
    """Of a node; None for as many as this machine has."""
    step_s: float = 0.0
    """What the trainer takes for a step without waiting."""
    reads_per_s: float = DEFAULT_RATE
    """The node's request budget."""

    @property
    def ranks_a_node(self) -> float:
        """Ranks that share a node."""
        return self.world_size / self.nodes

    @property
    def threads(self) -> float:
        """Threads of a rank that do have a core."""
        cores = (self.num_cores or os.cpu_count() or 1) / self.ranks_a_node
        return cores if self.num_threads is None else min(max(self.num_threads, 1), cores)


@dataclass(frozen=True)
class Epoch:
    """One epoch, all nodes together unless it says otherwise."""

    seconds: float
    examples_per_s: float
    """Of all ranks."""
    examples_per_s_rank: float
    limit: Limit
    """What most of the time goes to: making examples (`decode`), the bytes a second of the store,
    its requests, or the trainer's `step`, which is as it should be."""
    limits_s: Mapping[Limit, float]
    """How long the epoch would take if that alone were slow."""
    wait_share: float
    """Which part of the time the trainer waits."""
    reads: float
    """Calls to the tables, as `stats().counts["origin_reads"]` counts them."""
    num_bytes: float
    """Bytes of rows, as `stats().counts["origin_bytes"]` counts them."""
    requests: float
    store_bytes: float
    """What the store sends."""
    hit_share: float
    """Of the blocks of media that batches need, those that are there already."""


@dataclass(frozen=True)
class Plan:
    """What a run is expected to be like."""

    setting: Setting
    costs: Costs
    order: str
    num_examples: int
    first: Epoch
    later: Epoch
    first_batch_s: float
    """From the first `next` on; opening the tables comes before it."""
    cache_bytes: float
    """What the cache of a node must hold so that no block is fetched twice in an epoch."""
    cache_bytes_all: float
    """What it must hold so that later epochs fetch nothing."""
    memory_bytes: float
    """Most of what a rank holds in memory of its own."""
    quality: Mapping[str, Quality] = field(default_factory=dict)
    """The shuffle, by source: `Loader.expected_quality`."""
    notes: tuple[str, ...] = ()


def plan(
    data: Any,
    setting: Setting | None = None,
    *,
    order: OrderName = "exact",
    working_set: WorkingSet = DEFAULT_WORKING_SET,
    seed: int = 0,
    costs: Costs | None = None,
    calibrate_s: float = 1.5,
) -> Plan:
    """What a run will be like. Reads some hundred examples, unless costs are given.

    Args:
        data: a `Loader`, whose order and seed are its own, or what one is made of: a source, a
            `Mixture`.
        setting: the run.
        order, working_set, seed: as of `Loader`.
        costs: of an example, from another plan or machine.
        calibrate_s: how long to measure them otherwise.

    Raises:
        InputError: a number is out of range, or the source cannot be planned.
        BadRowsError: an example that was to be measured is bad.
        StoreError: rows cannot be read.
    """
    setting = Setting() if setting is None else setting
    _check(setting)
    loader = data if hasattr(data, "expected_quality") else None
    sampler = (
        cast("Sampler", loader._sampler)
        if loader is not None
        else sampler_of(data, order=order, seed=seed, working_set=working_set)
    )
    if costs is None:
        costs = calibrate(sampler, batch_size=setting.batch_size, for_s=calibrate_s)
    how, at_once, name = _order(sampler)
    shares = _shares(sampler)
    parts = []
    for index, source in enumerate(sampler.sources):
        # Sources share the cache as their examples do the epoch.
        access = access_of(sampler, index, how, shares[index], at_once)
        parts.append(
            reading(
                columns_of(source),
                access,
                cache_bytes=setting.cache_bytes * (shares[index] if len(shares) > 1 else 1.0),
                batch_size=max(1, round(setting.batch_size * shares[index])),
                world_size=setting.world_size,
                nodes=setting.nodes,
                read_bytes=_READ_BYTES if loader is None else loader._limits.read_bytes,
            )
        )
    needed = Needed(sampler, setting, costs, parts, how)
    notes = [note for part in parts for note in part.notes]
    cache_need = sum(part.cache_bytes for part in parts)
    if cache_need > setting.cache_bytes and how != "exact":
        notes.append("The cache is smaller than what is in use together")
    return Plan(
        setting,
        costs,
        name,
        sampler.num_examples,
        needed.epoch(is_first=True),
        needed.epoch(is_first=False),
        needed.first_batch_s(),
        cache_need,
        sum(part.all_bytes for part in parts),
        needed.memory_bytes(),
        expected_shuffle(sampler, 0, setting.batch_size),
        tuple(dict.fromkeys(notes)),
    )


class Needed:
    """What a run needs of a node, and how long that takes."""

    def __init__(
        self, sampler: Sampler, setting: Setting, costs: Costs, parts: list[Reading], how: How
    ) -> None:
        self._setting = setting
        self._costs = costs
        self._parts = parts
        self._how = how
        self._num_examples = sampler.num_examples
        self._block_examples = max(
            sampler.num_examples / max(sum(_num_blocks(part) for part in parts), 1.0), 1.0
        )

    def epoch(self, *, is_first: bool) -> Epoch:
        """One epoch, stretch by stretch: each takes as long as the slowest of what it needs."""
        setting = self._setting
        taken = Taken()
        for part in self._parts:
            taken += part.first if is_first else part.later
        own = self._num_examples / setting.nodes
        shares = self._front(is_first)
        limits: dict[Limit, float] = {
            "decode": (own * self._costs.cpu_s + taken.num_bytes * self._costs.fetch_s)
            / (setting.threads * setting.ranks_a_node),
            "bandwidth": taken.store_bytes / (setting.bandwidth_mb_s * 1e6),
            "requests": taken.requests / self._request_rate(taken),
            "step": own / (setting.batch_size * setting.ranks_a_node) * setting.step_s,
        }
        store_s = max(limits["bandwidth"], limits["requests"])
        fetch_cpu = taken.num_bytes * self._costs.fetch_s / (setting.threads * setting.ranks_a_node)
        even_s = max(limits["decode"] - fetch_cpu, limits["step"])
        busy = np.maximum(
            store_s * shares,
            np.maximum(
                (limits["decode"] - fetch_cpu) / _STRETCHES + fetch_cpu * shares,
                limits["step"] / _STRETCHES,
            ),
        )
        seconds = max(float(busy.sum()), even_s, 1e-9)
        slowest = max(limits, key=lambda name: limits[name])
        hits = [p.hit_share_first if is_first else p.hit_share_later for p in self._parts]
        nodes = setting.nodes
        return Epoch(
            seconds=seconds,
            examples_per_s=self._num_examples / seconds,
            examples_per_s_rank=self._num_examples / seconds / setting.world_size,
            limit=slowest,
            limits_s=limits,
            wait_share=max(0.0, round(1 - limits["step"] / seconds, 6)),
            reads=taken.reads * nodes,
            num_bytes=taken.num_bytes * nodes,
            requests=taken.requests * nodes,
            store_bytes=taken.store_bytes * nodes,
            hit_share=float(np.mean(hits)),
        )

    def _front(self, is_first: bool) -> Any:
        """Which share of what is fetched falls in each stretch of the epoch, (stretches,)."""
        even = np.full(_STRETCHES, 1 / _STRETCHES)
        if not is_first or self._how != "exact":
            return even
        # After a share x of the epoch a block of k examples was needed with 1 - (1 - x)^k.
        edges = np.linspace(0, 1, _STRETCHES + 1)
        there = 1 - (1 - edges) ** self._block_examples
        return np.diff(there)

    def _request_rate(self, taken: Taken) -> float:
        """Requests a second of a node: threads that each wait a latency and for their bytes."""
        if taken.requests == 0:
            return math.inf
        setting = self._setting
        size = taken.store_bytes / taken.requests
        threads = min(_IO_THREADS, max(1.0, _AHEAD_BYTES / max(size, 1.0)))
        # Bytes are counted by the bandwidth, which all requests share.
        rate = threads * setting.ranks_a_node / max(setting.latency_ms / 1e3, 1e-6)
        return min(rate, setting.reads_per_s) if setting.latency_ms else rate

    def first_batch_s(self) -> float:
        """What the first batch of a rank needs is fetched, then made."""
        setting = self._setting
        blocks = sum(part.opening_blocks for part in self._parts)
        num_bytes = sum(part.opening_bytes for part in self._parts)
        trips = math.ceil(blocks / _IO_THREADS) * setting.latency_ms / 1e3 if blocks else 0.0
        ranks = setting.ranks_a_node
        wire = num_bytes * ranks / (setting.bandwidth_mb_s * 1e6)
        cpu = num_bytes * self._costs.fetch_s / setting.threads
        return max(trips, wire, cpu) + setting.batch_size * self._costs.cpu_s

    def memory_bytes(self) -> float:
        """Batches ready and being made, what is under way, and the libraries."""
        batch = self._setting.batch_size * self._costs.batch_bytes
        made = max(_MADE_BYTES, self._setting.threads * batch) + 2 * self._setting.threads * batch
        fetched = any(part.first.num_bytes for part in self._parts)
        return _BASE_BYTES + made + (_AHEAD_BYTES + _READ_BYTES / 4 if fetched else 0)


def _num_blocks(part: Reading) -> float:
    return part.first.reads


def _order(sampler: Sampler) -> tuple[How, int, str]:
    for part in parts_of(sampler, 0, 0):
        order = part.sampler.order(0)
        if isinstance(order, Blocks):
            return "blocks", order.blocks_at_once, order.name
        if not isinstance(order, Exact):
            return "sequential", 1, order.name
        return "exact", 1, order.name
    return "exact", 1, "weighted"


def _shares(sampler: Sampler) -> list[float]:
    """Which part of the examples is of each source, from positions all over the epoch."""
    count = len(sampler.sources)
    if count == 1:
        return [1.0]
    drawn = np.linspace(0, sampler.num_examples - 1, min(_DRAWN, sampler.num_examples))
    picks = sampler.picks(0, np.unique(drawn.astype(np.int64)))
    found = np.bincount(picks.sources, minlength=count) / len(picks.sources)
    return [float(share) for share in found]


def _check(setting: Setting) -> None:
    for name, least in (
        ("batch_size", 1), ("world_size", 1), ("nodes", 1), ("num_threads", 1),
        ("num_cores", 1), ("latency_ms", 0), ("step_s", 0), ("cache_bytes", 0),
    ):  # fmt: skip
        value = getattr(setting, name)
        if value is not None and not value >= least:
            raise InputError(f"{name} is too small", expected=f"{least} or more", found=str(value))
    if not setting.bandwidth_mb_s > 0 or not setting.reads_per_s > 0:
        raise InputError("A bandwidth or a rate must be above 0")
    if setting.world_size % setting.nodes:
        raise InputError(
            "The ranks do not divide among the nodes",
            expected="a multiple of nodes",
            found=f"world_size {setting.world_size}, nodes {setting.nodes}",
        )
