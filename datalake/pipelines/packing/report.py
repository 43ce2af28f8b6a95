"""What a packing run made, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from datalake.packing import Baselines, LengthLaw, Shards

__all__ = ["PackReport", "ShardReport", "SourceReport"]


@dataclass
class SourceReport:
    """What became of a source's items."""

    name: str
    versions: Mapping[str, int]
    """The versions of its tables."""
    num_items: int
    num_packed: int
    """Items in sequences, repeats included; differs from `num_items` where sources are mixed."""
    num_tokens: int
    num_left_out: int
    """Episodes shorter than a window, and rows without a token."""
    num_cut: int
    """Items that were cut short."""
    num_lost: int
    """Frames (of sound tokens) that they lost."""
    modalities: Mapping[str, int]
    """Tokens of each modality."""


@dataclass
class PackReport:
    """How well items were packed; `num_tokens` counts what the budget counts."""

    unit: str
    budget: int
    method: str
    num_sequences: int
    num_segments: int
    num_empty: int
    num_ranks: int
    num_tokens: int
    utilisation: float
    lengths: LengthLaw
    baselines: Baselines
    sources: list[SourceReport]
    asked: dict[str, float] = field(default_factory=dict)
    realised: dict[str, float] = field(default_factory=dict)
    num_passes: dict[str, float] = field(default_factory=dict)
    largest_error: int = 0
    """The most tokens by which a source was off its share anywhere in the order."""
    table: str | None = None
    version: int | None = None
    run_id: str = ""
    plan_s: float = 0.0
    work_s: float = 0.0

    @property
    def padding_share(self) -> float:
        """The share of slots that is padding."""
        return 1 - self.utilisation if self.num_sequences else 0.0

    def as_dict(self) -> dict[str, object]:
        """The report as JSON values, with what follows from the counts."""
        return {**asdict(self), "padding_share": self.padding_share}

    def __str__(self) -> str:
        law, simple = self.lengths, self.baselines
        verb = "Packed" if self.table else "Would pack"
        where = f"into {self.table}" if self.table else "(nothing was written)"
        lines = [
            f"{verb} {_count(law.num_items, 'item')} of {self.num_tokens:,} {self.unit}"
            f" into {_count(self.num_sequences, 'sequence')} of {self.budget:,} {where}",
            f"  lengths: least {law.least:,}, median {law.median:,}, p95 {law.p95:,},"
            f" most {law.most:,}, mean {law.mean:,.1f}, std {law.std:,.1f}",
            f"  {self.utilisation:>8.2%} used by {self.method} ({self.padding_share:.2%} padding)",
            f"  {simple.next_fit:>8.2%} by next fit",
            f"  {simple.pad_to_batch_max:>8.2%} padded to the longest of a batch"
            f" of {simple.batch_size}",
        ]
        if self.num_ranks > 1:
            empty = f", {self.num_empty} of them empty" if self.num_empty else ""
            each = self.num_sequences // self.num_ranks
            lines.append(f"  {_count(each, 'sequence')} a rank on {self.num_ranks} ranks{empty}")
        for source in self.sources:
            lines += _source_lines(source, self.unit)
        for name, share in self.asked.items():
            lines.append(
                f"  {name}: {share:.2%} asked, {self.realised[name]:.2%} realised,"
                f" gone through {self.num_passes[name]:.2f} times"
            )
        if self.asked:
            lines.append(f"  never more than {self.largest_error:,} {self.unit} off its share")
        if self.version is not None:
            lines.append(
                f"  version {self.version}, run {self.run_id}"
                f" (plan {self.plan_s:.1f} s, work {self.work_s:.1f} s)"
            )
        return "\n".join(lines)


def _source_lines(source: SourceReport, unit: str) -> list[str]:
    kinds = ", ".join(f"{name} {total:,}" for name, total in source.modalities.items())
    lines = [
        f"  {source.name}: {_count(source.num_packed, 'item')}" + (f" ({kinds})" if kinds else "")
    ]
    if source.num_left_out:
        lines.append(f"    {source.num_left_out:,} left out: too short, or without {unit}")
    if source.num_cut:
        lines.append(f"    {source.num_cut:,} cut short, {source.num_lost:,} frames lost")
    return lines


@dataclass
class ShardReport:
    """How even shards are, and how many episodes they draw on."""

    source: str
    versions: Mapping[str, int]
    shard_steps: int
    num_shards: int
    num_steps: int
    num_strides: int
    least_steps: int
    most_steps: int
    largest_stride: int
    """Most steps of a stride: sizes of shards differ by no more."""
    least_episodes: int
    mean_episodes: float
    most_episodes: int
    num_left_out: int
    """Episodes without a step."""
    table: str | None = None
    version: int | None = None
    run_id: str = ""

    @classmethod
    def of(
        cls, shards: Shards, *, source: str, versions: Mapping[str, int], shard_steps: int,
        num_left_out: int,
    ) -> ShardReport:  # fmt: skip
        """The report on shards of a source."""
        sizes, episodes = shards.sizes, shards.num_episodes
        none = not len(sizes)
        return cls(
            source=source,
            versions=versions,
            shard_steps=shard_steps,
            num_shards=shards.num_shards,
            num_steps=int(sizes.sum()),
            num_strides=len(shards.counts),
            least_steps=0 if none else int(sizes.min()),
            most_steps=0 if none else int(sizes.max()),
            largest_stride=shards.largest_stride,
            least_episodes=0 if none else int(episodes.min()),
            mean_episodes=0.0 if none else float(np.mean(episodes)),
            most_episodes=0 if none else int(episodes.max()),
            num_left_out=num_left_out,
        )

    def as_dict(self) -> dict[str, object]:
        """The report as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        verb = "Dealt" if self.table else "Would deal"
        where = f"into {self.table}" if self.table else "(nothing was written)"
        lines = [
            f"{verb} {_count(self.num_steps, 'step')} of {self.source}"
            f" in {_count(self.num_strides, 'stride')}"
            f" to {_count(self.num_shards, 'shard')} {where}",
            f"  {self.least_steps:,} to {self.most_steps:,} steps a shard"
            f" (asked {self.shard_steps:,}; they differ by {self.largest_stride:,} at most)",
            f"  {self.least_episodes:,} to {self.most_episodes:,} episodes a shard,"
            f" {self.mean_episodes:.1f} on average",
        ]
        if self.num_left_out:
            lines.append(f"  {_count(self.num_left_out, 'episode')} left out: too short for a step")
        if self.version is not None:
            lines.append(f"  version {self.version}, run {self.run_id}")
        return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
