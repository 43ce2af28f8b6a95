"""`Packed`: batches of packed sequences, put together on the fly."""

from __future__ import annotations

from dataclasses import dataclass

from datalake.loader.batching.batching import Tail
from datalake.loader.batching.checks import LARGEST_WINDOW, check_whole
from datalake.loader.batching.costs import Unknown
from datalake.loader.batching.sequences import LongCut, Sequences
from datalake.loader.batching.windows import Windowed

__all__ = ["Packed"]


@dataclass(frozen=True)
class Packed(Windowed):
    """A `Batching` by packed sequences.

    The examples of a window of consecutive positions are packed into sequences by best fit
    decreasing (`datalake.packing`), and these come in an order drawn by a hash. Each example is in
    one sequence; costs are rounded up to whole units. All ranks make equally many steps, each with
    `num_sequences` sequences but for the epoch's last, which may have fewer.

    A share says which sequence each example goes to (`Share.sequences`; the examples of a batch
    come sequence by sequence), and has in `extra`:

        lengths     int32 (examples,): how much of its sequence each takes
        cu_seqlens  int32 (examples + 1,): where each example begins if they lie one after the
                    other, and the end of the last, from 0, as kernels of variable-length attention
                    take it (flash attention's `cu_seqlens_q` and `cu_seqlens_k`)
        max_seqlen  int: the longest of them
        fill        float: the part of `num_sequences * capacity` that is no padding

    With a source whose values lie flat (`Utterances(layout="flat")`, `Episodes`) these are the true
    lengths of what a batch holds, to the last sample: what is longer than the table says is cut to
    what was planned for it, and what is shorter leaves its sequence less full. Positions within
    the examples are `datalake.packing.position_ids(lengths, cu_seqlens[-1])`.

    Raises:
        InputError: a field is out of range.
    """

    capacity: int
    """Of a sequence, in units."""
    unit: str = "frames"
    """Of the costs: one that the source knows."""
    num_sequences: int = 1
    """Sequences a batch."""
    window: int = 4096
    """About how many positions are packed together: the more, the fuller are the sequences. Grows
    by itself where all ranks' batches of a single step take more."""
    tail: Tail = "pad"
    """At the epoch's end, with fewer examples than ranks: see `datalake.loader.batching.plan`."""
    overlong: LongCut = "raise"
    """An example above the capacity: an error that names it, or its first part alone. Splitting
    takes a table that `datalake pack` wrote."""
    unknown: Unknown = "raise"
    """An example whose cost nobody knows: an error that names it, or a sequence of its own. A
    loader that lets others stand in for bad examples takes `alone`."""

    def __post_init__(self) -> None:
        check_whole("window", self.window, 1, LARGEST_WINDOW)
        self._cutter()

    def _cutter(self) -> Sequences:
        return Sequences(
            self.capacity, self.unit, self.num_sequences, self.overlong, self.tail, self.unknown
        )
