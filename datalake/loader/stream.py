"""`Loader`: batches of tensors from tables, shuffled, exact, resumable on any number of ranks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

import torch
import torch.utils.data

from datalake.errors import InputError
from datalake.loader.batching import Batching, Fixed, Place, Tail
from datalake.loader.engine.ahead import Limits, Made, ahead
from datalake.loader.engine.arguments import (
    batching_of,
    check_choice,
    check_least,
    check_processes,
    check_working_set,
    device_of,
    share_of,
)
from datalake.loader.engine.assembly import Assembler, Step, Transform
from datalake.loader.engine.blocks_ahead import BlocksAhead
from datalake.loader.engine.flat import check_packing
from datalake.loader.engine.next_use import NextUse
from datalake.loader.engine.planner import Planner, reads_costs, reads_to_prefetch
from datalake.loader.engine.progress import Progress
from datalake.loader.engine.scattered import tell_order
from datalake.loader.engine.shuffle import ShuffleMeter, expected_shuffle
from datalake.loader.engine.stats import Ledger, LoaderStats
from datalake.loader.engine.tensors import (
    Memory,
    PinnedMemory,
    PlainMemory,
    SharedMemory,
    copied,
    num_bytes_of,
)
from datalake.loader.engine.trouble import OnBad, Trouble
from datalake.loader.order import OrderName
from datalake.loader.order.quality import Quality
from datalake.loader.sampling import Data, Sampler, WorkingSet, sampler_of
from datalake.loader.sampling.apart import refuse_shared
from datalake.loader.sampling.spec import DEFAULT_WORKING_SET
from datalake.loader.sources.source import Prefetch
from datalake.loader.state import (
    Cursor,
    Part,
    State,
    load,
    load_part,
    place_after,
    save,
    save_part,
)
from datalake.telemetry import Meter

if TYPE_CHECKING:
    from datalake.loader.workers import WorkerLoader

__all__ = ["Batch", "Loader", "Passes"]

Batch: TypeAlias = dict[str, Any]

_MADE_BYTES: Final = 64 << 20
_READ_BYTES: Final = 256 << 20


class Loader(torch.utils.data.IterableDataset[Batch]):
    """A stream of batches from one table, or from several, for one rank of a training run.

    Iterating makes one pass over an epoch; the next pass is the next epoch. A pass that is broken
    off is no finished one: the next pass begins the same epoch again. What stands at a position
    follows from the versions of the tables, the selection, the seed and the epoch alone, so any
    number of ranks and workers, with any size of batches, sees the same examples in the same order,
    with the same crops.

    A batch is a dict. A source gives its own keys (`audio`, `label`, … for `Utterances`); sources
    of one kind in a mixture give them together, in the order of the stream. Where kinds differ,
    each part's own batch stands under its name, with `place`, int64 (its examples,): where these
    stand in the batch. A part that a step has no example of is absent: `if "robots" in batch`.
    Beside them stand:

        weight       float32 (batch,): from the selection; 1 without one
        is_pad       bool    (batch,): a repeat that only evens out the last step
        seed         int64   (batch,): a random number from 0 that is the example's own in this
                     epoch, whatever the worker; augmentation that draws from it can be repeated
        source       int64   (batch,): which part of a mixture an example is of
        is_substitute bool   (batch,): another example stands in (with `on_bad="substitute"`)
        sequence, lengths, cu_seqlens, max_seqlen, fill: of packed sequences; see `Packed`
        epoch, position, taken: where the stream stands after this batch

    Args:
        data: a source (`Utterances`, `EpisodeWindows`, `Episodes`, `Rows`), or `Selected`,
            `Weighted` or `Mixture` of such. Several loaders may have one source: each counts and
            reads for itself.
        batch_size: examples a rank and step; None for 64.
        batching: another way to make batches, in place of `batch_size` and `tail`: `ByCost`,
            `Packed`.
        order: `exact` (a uniform shuffle of the whole epoch), `blocks` (a shuffle with a bounded
            working set, for tables larger than the cache) or `sequential`.
        working_set: of `order="blocks"`: how many blocks it mixes at a time, or (below 1) which
            part of the data the cache holds.
        seed: of the shuffle, the crops and the augmentation.
        tail: what to do with the last examples that do not fill all ranks' batches: `drop`, `pad`
            (with repeats that are marked; None for this) or `short` (a short last step).
        rank, world_size: which share to read; None for what torchrun says (the environment's RANK
            and WORLD_SIZE), or 0 of 1.
        epoch: where to begin.
        num_threads: threads that make batches, each a whole one at a time; None for one a core (one
            in a DataLoader's worker), 0 to make each batch when it is asked for.
        made_bytes: finished batches kept ready, in bytes; one a thread in any case.
        read_bytes: what may be on its way from stores ahead of that, in bytes.
        apart_from: another loader, with which this one must have no row in common: the training's,
            for a test. Checked here, by rows of the same tables; nothing of it is kept.
        on_bad: a row that makes no example: `raise`, or `substitute` another one, of its domain as
            long as there is one, by a rule that is the same on every rank and at every resume;
            `row_index` names the one that came, and `stats()` both. An example whose cost is not
            known gets a batch or a sequence of its own then.
        transform: takes and returns a batch of numpy arrays, in the threads that make batches, with
            all but `epoch`, `position` and `taken`; it may add and remove keys. What it raises
            comes in its batch's turn. torch shares no work out among further threads there.
        device: a CUDA device to which batches are copied while the trainer works on the one before.
        timeout_s: how long to wait for one batch, or for what its examples cost, before
            StalledError says what hangs; not watched with `num_threads=0`.
        progress: keep a line on stderr that says how it goes.

    Raises:
        InputError: an argument is out of range, there is nothing to stream, a selection was made
            from another version or table, or rows are shared with `apart_from`.

    For evaluation: `order="sequential", tail="short"`. The loader itself works in threads; for
    worker processes use `dataloader(num_workers=…)`, or a plain `DataLoader(loader,
    batch_size=None, num_workers=…)` with `set_epoch` before each pass and `state_after(batch)` for
    the state.
    """

    def __init__(
        self,
        data: Data,
        *,
        batch_size: int | None = None,
        batching: Batching | None = None,
        order: OrderName = "exact",
        working_set: WorkingSet = DEFAULT_WORKING_SET,
        seed: int = 0,
        tail: Tail | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        epoch: int = 0,
        num_threads: int | None = None,
        made_bytes: int = _MADE_BYTES,
        read_bytes: int = _READ_BYTES,
        apart_from: Loader | None = None,
        on_bad: OnBad = "raise",
        transform: Transform | None = None,
        device: str | torch.device | None = None,
        timeout_s: float = 600.0,
        progress: bool = False,
    ) -> None:
        check_choice("on_bad", on_bad, get_args(OnBad))
        check_least("epoch", epoch, 0)
        check_least("num_threads", num_threads, 0)
        check_least("made_bytes", made_bytes, 0)
        check_least("read_bytes", read_bytes, 0)
        self._meter = Meter()
        # A view, as the source may be another loader's too.
        sampler = sampler_of(data, order=order, seed=seed, working_set=working_set).view()
        if apart_from is not None:
            refuse_shared(sampler, apart_from._sampler)
        for source in sampler.sources:
            source.attach(self._meter)
        tell_order(sampler)
        self._assembler = Assembler(
            sampler, seed, Trouble(on_bad, seed, self._meter), self._meter, transform
        )
        self._batching = batching_of(batching, batch_size, tail, sampler, on_bad)
        check_packing(sampler, self._batching)
        self.rank, self.world_size = share_of(rank, world_size)
        check_working_set(sampler, self._batching, self.world_size)
        self._num_threads = num_threads
        self._limits = Limits(0, made_bytes, read_bytes, timeout_s)
        self._device = device_of(device)
        self._shows_progress = progress
        self._cursor = Cursor(epoch)
        self._part: Part | None = None
        self._passed_in_worker = False
        self._start_counting()

    def _start_counting(self) -> None:
        self._ledger = Ledger(self._meter)
        self._shuffle = ShuffleMeter(self._sampler)
        self._memory: Memory | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Counts, and memory, stay at home.
        left = {"_ledger", "_shuffle", "_memory"}
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._meter = self._assembler.meter
        for source in self._sampler.sources:
            source.attach(self._meter)
        self._start_counting()

    @property
    def _sampler(self) -> Sampler:
        return self._assembler.sampler

    @property
    def epoch(self) -> int:
        """The epoch of the pass in progress, or of the next one if there is none."""
        return self._cursor.place.epoch

    @property
    def num_examples(self) -> int:
        """Examples an epoch, over all ranks."""
        return self._sampler.num_examples

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be this epoch. No effect if it is already, so a loaded place stays."""
        check_least("epoch", epoch, 0)
        self._cursor.set_epoch(epoch)

    def __len__(self) -> int:
        """Steps of a whole epoch; the same on every rank.

        Raises:
            TypeError: nobody knows before a pass, as batches are made by their cost.
        """
        begin = Place(self.epoch, 0)
        steps = self._batching.num_steps(self._sampler, begin, self.world_size)
        if steps is None:
            raise TypeError("The number of batches made by cost is known after a pass only")
        return steps

    # Passing over an epoch ----------------------------------------------------------------------

    def __iter__(self) -> Iterator[Batch]:
        worker = torch.utils.data.get_worker_info()
        if worker is None:
            return self._passing()
        place = self._cursor.rewind(self._is_over)
        if self._part is None:
            self._part = Part(place, worker.id, worker.num_workers, self._made_by)
        return self._part_of_pass(self._part)

    def _passing(self) -> Iterator[Batch]:
        # The pass begins with its first batch: trainers call `iter` to see whether they can, and
        # load a state or set the epoch after it.
        self._cursor.rewind(self._is_over)
        with closing(self._made(self._cursor.begin())) as made:
            yield from self._cursor.follow(self._counted(made))

    def _part_of_pass(self, part: Part) -> Iterator[Batch]:
        # A worker that a plain DataLoader keeps hears of no other epoch. This is refused at the
        # first batch, since what `__iter__` itself raises would kill the worker unheard.
        if self._passed_in_worker:
            raise InputError(
                "A DataLoader's persistent workers would repeat the epoch",
                fix="Use loader.dataloader(num_workers=…), which keeps its workers, or a "
                "DataLoader without persistent_workers, and set_epoch before each pass",
            )
        self._passed_in_worker = True
        for batch in self.batches(part.place, worker=part.skip, num_workers=part.num_workers):
            part = self._part = part.after(batch)
            yield batch
            del batch

    def _is_over(self, place: Place) -> bool:
        shares = self._batching.shares(self._sampler, place, self.rank, self.world_size)
        limits = self._own_limits()
        if not (limits.num_threads and reads_costs(self._batching, place)):
            return next(shares, None) is None
        with closing(Planner(limits, self._meter)) as planner:
            return planner.is_empty(shares)

    @property
    def _made_by(self) -> str:
        return f"{self._batching}, {self.world_size} ranks"

    def skip_what_is_over(self) -> None:
        """Let the next pass be the next epoch if nothing is left of the one it would be."""
        place = self._cursor.rewind(self._is_over)
        if self._is_over(place):
            self._cursor.jump(Place(place.epoch + 1, 0))

    def passes(self) -> Passes:
        """This stream for a trainer that keeps count itself: nothing but an iterable.

        Lightning and the Trainer of Hugging Face end a pass by its length, skip batches that they
        think to have had, set an epoch that they computed from steps, and save the state of what
        they fetched ahead. All of that is wrong after a resume on other ranks. Here they find no
        length, epoch or state. Each iteration is one pass; the first after a resume is what is left
        of the epoch, or the next epoch if nothing is.
        """
        return Passes(self)

    def batches(
        self, place: Place, *, worker: int = 0, num_workers: int = 1
    ) -> Generator[Batch, None, None]:
        """This rank's batches from a place to the epoch's end. Leaves the state alone.

        With workers only every `num_workers`-th, from number `worker` on.
        """
        with closing(self._made(place, worker, num_workers)) as made:
            for _, one in made:
                yield one.result
                del one

    def _made(
        self, place: Place, worker: int = 0, num_workers: int = 1
    ) -> Generator[tuple[Step, Made[Batch]], None, None]:
        shares = self._batching.shares(
            *(self._sampler, place, self.rank, self.world_size),
            worker=worker,
            num_workers=num_workers,
        )
        begun: deque[Step] = deque()
        begin = (self._sampler, place.epoch, place.position)
        next_use, blocks_ahead = NextUse(*begin), BlocksAhead(*begin)

        def steps() -> Iterator[Step]:
            for share in shares:
                begun.append(self._assembler.step(place.epoch, share))
                yield begun[-1]

        def prefetch(step: Step) -> list[Prefetch]:
            return [
                *self._assembler.prefetch(step),
                *blocks_ahead.prefetch(step.share.after.position),
            ]

        limits = self._own_limits()
        planner = Planner(limits, self._meter)
        is_planned = limits.num_threads > 0 and reads_costs(self._batching, place)
        made = ahead(
            planner.planned(steps()) if is_planned else steps(),
            self._make,
            prefetch=(
                (lambda step: planner.look(prefetch, step))
                if reads_to_prefetch(self._sampler)
                else prefetch
            ),
            size=num_bytes_of,
            limits=limits,
            meter=self._meter,
        )
        with closing(planner), closing(made):
            for one in self._on_device(made):
                step = begun.popleft()
                next_use.passed(step.share.after.position)
                yield step, one
                # A batch is the trainer's alone: its memory is used again when the trainer is done.
                del one

    def _make(self, step: Step) -> Batch:
        memory = self._new_memory()
        return memory.tensors(self._assembler.assemble(step, memory.allocate))

    def _new_memory(self) -> Memory:
        if torch.utils.data.get_worker_info() is not None:
            return SharedMemory()
        if self._memory is None:
            self._memory = PlainMemory() if self._device is None else PinnedMemory()
        return self._memory

    def _on_device(self, made: Iterator[Made[Batch]]) -> Iterator[Made[Batch]]:
        # A worker process hands on what lies in memory.
        if self._device is None or torch.utils.data.get_worker_info() is not None:
            return made
        return copied(made, self._device, self._meter)

    def _own_limits(self) -> Limits:
        return replace(self._limits, num_threads=self._threads())

    def _threads(self) -> int:
        if self._num_threads is not None:
            return self._num_threads
        return 1 if torch.utils.data.get_worker_info() is not None else os.cpu_count() or 1

    def _counted(self, made: Iterable[tuple[Step, Made[Batch]]]) -> Iterator[Batch]:
        progress = Progress() if self._shows_progress else None
        for step, one in made:
            self._ledger.delivered(one, len(step.picks.rows))
            self._shuffle.observe(step)
            if progress is not None and progress.is_due():
                at = step.share.after
                progress.show(self._ledger.stats(), at.epoch, at.position, self.num_examples)
            yield one.result
            del one
        if progress is not None:
            progress.end()

    # State --------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Where this stream stands: plain data, equal on all ranks after the same step.

        Follows passes of this loader and of its `dataloader()`; batches of a plain DataLoader with
        workers come from copies, and `state_after` gives their state.

        In a worker it is the state of this copy, for torchdata's `StatefulDataLoader`, which saves
        one a worker.
        """
        if self._part is not None:
            return save_part(self._sampler, self._part)
        return save(self._sampler, self._cursor.place)

    def state_after(self, batch: Batch) -> State:
        """The state right after a batch of this loader, however it was delivered."""
        return save(self._sampler, place_after(batch))

    def load_state_dict(self, state: State) -> None:
        """Let the next pass go on where a state stood, with exactly the examples that are left.

        Any rank can load any rank's state; their number, the batches and the weights of a mixture
        may have changed. A state from the end of an epoch leaves nothing of it: the next pass is
        empty, and the one after it is the next epoch.

        Raises:
            InputError: the state is of another table, version, selection, order or seed; or of
                single workers, and their number or the batches changed.
        """
        worker = torch.utils.data.get_worker_info()
        if worker is not None and "worker" in state:
            self._part, sampler = load_part(self._sampler, state, worker.num_workers, self._made_by)
            self._assembler = replace(self._assembler, sampler=sampler)
            return
        place, sampler = load(self._sampler, state)
        self._assembler = replace(self._assembler, sampler=sampler)
        self._cursor.jump(place)

    # Reports ------------------------------------------------------------------------------------

    def stats(self) -> LoaderStats:
        """What this stream did since it was made or `reset_stats`: speed, waits, cache, shuffle.

        Of worker processes it knows how many batches came and how long each was waited for.
        """
        return self._ledger.stats(
            quality=self._shuffle.quality(),
            mix=self._shuffle.shares(),
            substituted=tuple(self._assembler.trouble.recent()),
        )

    def count(self, made: Made[Batch]) -> None:
        """A batch of this loader was delivered by worker processes."""
        # A transform may have taken keys out.
        known = (made.result[key] for key in ("is_pad", "weight", "seed") if key in made.result)
        self._ledger.delivered(made, len(next(known, ())))

    def reset_stats(self) -> None:
        """Let `stats` begin at zero."""
        self._ledger.reset()
        self._shuffle = ShuffleMeter(self._sampler)

    def expected_quality(self) -> dict[str, Quality]:
        """How well the coming epoch is shuffled, by source, from some hundred of its batches.

        A batch here is what all ranks together take at a step, as the model learns from that: 64
        examples a rank where batches are made by cost. Reads nothing.
        """
        own = self._batching.batch_size if isinstance(self._batching, Fixed) else 64
        return expected_shuffle(self._sampler, self.epoch, own * self.world_size)

    # Worker processes ---------------------------------------------------------------------------

    def dataloader(
        self,
        *,
        num_workers: int = 0,
        multiprocessing_context: str = "spawn",
        pin_memory: bool = False,
        prefetch_factor: int = 2,
    ) -> WorkerLoader:
        """This stream through worker processes: the same batches in the same order.

        Threads are the default and cost less: what a process makes has to cross to this one.

        Args:
            num_workers: processes; 0 for none.
            multiprocessing_context: `spawn`, `forkserver` or `fork`.
            pin_memory: copy tensors to page-locked memory, from which GPUs copy asynchronously.
            prefetch_factor: batches made ahead in each worker.

        Raises:
            InputError: workers of this kind could not read a table.
        """
        from datalake.loader.workers import WorkerLoader

        if num_workers:
            for source in self._sampler.sources:
                if multiprocessing_context == "fork":
                    source.prepare_fork()
                else:
                    check_processes(source)
        return WorkerLoader(
            self,
            self._cursor,
            num_workers=num_workers,
            multiprocessing_context=multiprocessing_context,
            pin_memory=pin_memory,
            prefetch_factor=prefetch_factor,
            timeout_s=self._limits.timeout_s,
        )


class Passes(torch.utils.data.IterableDataset[Batch]):
    """A loader's passes, and nothing else of it. See `Loader.passes`."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Batch]:
        # With the first batch, as trainers call `iter` to see whether they can.
        self._loader.skip_what_is_over()
        yield from self._loader
