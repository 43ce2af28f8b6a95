"""`Loader`: batches of tensors from a table, shuffled, exact, resumable."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, get_args

import torch.utils.data

from datalake.errors import InputError, SchemaError, nearest
from datalake.lake import Lake, Selection
from datalake.loader.assembly import BATCH_KEYS, Assembler, Batch
from datalake.loader.clips import Crop, Pad
from datalake.loader.examples import Examples
from datalake.loader.order import Order, order_of
from datalake.loader.prefetch import ahead
from datalake.loader.split import Split, Tail, worker_steps
from datalake.loader.state import Cursor, Identity, State
from datalake.tables.protocol import Table

if TYPE_CHECKING:
    from datalake.loader.workers import WorkerLoader

__all__ = ["Loader"]


class Loader(torch.utils.data.IterableDataset[Batch]):
    """Streams a table, or a selection of it, as batches of decoded clips.

    Iterating makes one pass over an epoch; the next pass is the next epoch. A pass that is broken
    off is no finished one: the next pass begins the same epoch again. What a batch holds follows
    from (table version, selection, seed, epoch) and its global position, so any number of ranks,
    workers or examples a batch sees the same examples in the same order with the same crops.

    A batch is a dict:

        audio        float32 (batch, num_samples), full scale at 1
        num_samples  int64   (batch,): samples before padding
        label        int64   (batch,): 1 bona fide, 0 spoof, -1 unknown
        weight       float32 (batch,): from the selection; 1 without one
        row_index    int64   (batch,): the row in this version of the table
        is_pad       bool    (batch,): a repeat that only evens out the last step
        epoch, position      int: where the stream stands after this batch
        <column>             list: one value an example, for each of `columns`

    Args:
        table: a table at the version to stream.
        selection: which rows, in which order, with which weights; made from that very version.
        columns: more columns to deliver, such as utt_id or domain.
        batch_size: examples a rank and step.
        num_samples: the length of every clip; None for whole clips, padded to the batch's longest.
        sample_rate_hz: clips are resampled to it.
        crop: which part of a longer clip: `random` (by seed, epoch and row) or its `head`.
        pad: how a shorter clip is filled: `repeat` or `zeros`.
        seed: of the shuffle and the crops.
        shuffle: a uniform shuffle of the whole epoch, or the table's or selection's own order.
        tail: what to do with the last examples that do not fill all ranks' batches: `drop`, `pad`
            or `short` (see `datalake.loader.split`).
        rank, world_size: which share to read; None for what torchrun says (the environment's RANK
            and WORLD_SIZE), or 0 of 1.
        epoch: where to begin.
        prefetch: batches made ahead of the one asked for; each costs its own memory.
        num_threads: threads that decode; None for one a core (one in a DataLoader's worker).

    Raises:
        InputError: an argument is out of range, the table is empty, or the selection was made from
            another version or table.
        SchemaError: a column is not there.

    For evaluation: `shuffle=False, crop="head"`. The loader itself works in threads; for worker
    processes use `dataloader(num_workers=…)`, or a plain `DataLoader(loader, batch_size=None,
    num_workers=…, multiprocessing_context="spawn")` with `set_epoch` before each pass and
    `state_after(batch)` for the state.
    """

    def __init__(
        self,
        table: Table,
        *,
        selection: Selection | None = None,
        columns: Sequence[str] = (),
        batch_size: int = 64,
        num_samples: int | None = 64600,
        sample_rate_hz: int = 16000,
        crop: Crop = "random",
        pad: Pad = "repeat",
        seed: int = 0,
        shuffle: bool = True,
        tail: Tail = "pad",
        rank: int | None = None,
        world_size: int | None = None,
        epoch: int = 0,
        prefetch: int = 2,
        num_threads: int | None = None,
    ) -> None:
        _check_columns(table, columns)
        _check_choice("crop", crop, get_args(Crop))
        _check_choice("pad", pad, get_args(Pad))
        _check_least("num_samples", num_samples, 1)
        _check_least("sample_rate_hz", sample_rate_hz, 1)
        _check_least("epoch", epoch, 0)
        _check_least("prefetch", prefetch, 0)
        _check_least("num_threads", num_threads, 1)
        examples = Examples.of(table, selection)
        self._assembler = Assembler(
            table, examples, tuple(columns), num_samples, sample_rate_hz, crop, pad, seed
        )
        self._split = Split(
            num_examples=examples.num_examples,
            batch_size=batch_size,
            rank=_from_torchrun("RANK", 0) if rank is None else rank,
            world_size=_from_torchrun("WORLD_SIZE", 1) if world_size is None else world_size,
            tail=tail,
        )
        self._seed = seed
        self._shuffle = shuffle
        self._prefetch = prefetch
        self._num_threads = num_threads
        self._cursor = Cursor(epoch)
        self._passed_in_worker = False
        self._process = os.getpid()
        self._identity = Identity(
            table=table.uri,
            table_version=table.version,
            selection=examples.selection_digest,
            num_examples=examples.num_examples,
            order=self._order(epoch).name,
            seed=seed,
        )

    @classmethod
    def from_lake(
        cls,
        lake: Lake,
        table: str,
        *,
        selection: str | None = None,
        columns: Sequence[str] = (),
        batch_size: int = 64,
        num_samples: int | None = 64600,
        sample_rate_hz: int = 16000,
        crop: Crop = "random",
        pad: Pad = "repeat",
        seed: int = 0,
        shuffle: bool = True,
        tail: Tail = "pad",
        rank: int | None = None,
        world_size: int | None = None,
        epoch: int = 0,
        prefetch: int = 2,
        num_threads: int | None = None,
    ) -> Loader:
        """Stream a table of a lake by name: all of its latest version, or a saved selection of it.

        The version is the one that the selection was made from, whatever was committed since. The
        other arguments are the loader's.

        Raises:
            NotFoundError: there is no such table or selection.
            InputError: the selection was made from another table.
        """
        chosen = None if selection is None else lake.selection(selection)
        if chosen is not None and chosen.table != table:
            raise InputError(
                f"The selection {selection!r} was made from another table",
                where=str(lake.location),
                expected=f"a selection of {table}",
                found=f"one of {chosen.table}",
            )
        return cls(
            lake[table] if chosen is None else lake[table].at(chosen.table_version),
            selection=chosen,
            columns=columns,
            batch_size=batch_size,
            num_samples=num_samples,
            sample_rate_hz=sample_rate_hz,
            crop=crop,
            pad=pad,
            seed=seed,
            shuffle=shuffle,
            tail=tail,
            rank=rank,
            world_size=world_size,
            epoch=epoch,
            prefetch=prefetch,
            num_threads=num_threads,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Unpickled, and not forked: this process is the copy's home.
        self.__dict__.update(state, _process=os.getpid())

    @property
    def epoch(self) -> int:
        """The epoch of the pass in progress, or of the next one if there is none."""
        return self._cursor.epoch

    @property
    def num_examples(self) -> int:
        """Examples an epoch, over all ranks."""
        return self._split.num_examples

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be this epoch. No effect if it is already, so a loaded place stays."""
        _check_least("epoch", epoch, 0)
        self._cursor.set_epoch(epoch)

    def __len__(self) -> int:
        """Steps of a whole epoch; the same on every rank."""
        return self._split.num_steps()

    def __iter__(self) -> Iterator[Batch]:
        worker = torch.utils.data.get_worker_info()
        epoch, position = self._cursor.begin()
        if worker is None:
            return self._passing(epoch, position)
        batches = self.batches(epoch, position, worker=worker.id, num_workers=worker.num_workers)
        return self._first_pass(batches)

    def _first_pass(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        # A worker that a plain DataLoader keeps hears of no other epoch. This is refused at the
        # first batch, since what `__iter__` itself raises would kill the worker unheard.
        if self._passed_in_worker:
            raise InputError(
                "A DataLoader's persistent workers would repeat the epoch",
                where=self._identity.table,
                fix="Use loader.dataloader(num_workers=…), which keeps its workers, or a "
                "DataLoader without persistent_workers, and set_epoch before each pass",
            )
        self._passed_in_worker = True
        yield from batches

    def _passing(self, epoch: int, position: int) -> Iterator[Batch]:
        with closing(self.batches(epoch, position)) as batches:
            yield from self._cursor.follow(batches)

    def batches(
        self, epoch: int, position: int = 0, *, worker: int = 0, num_workers: int = 1
    ) -> Generator[Batch, None, None]:
        """This rank's batches of one epoch from a global position on. Leaves the state alone.

        With workers only every `num_workers`-th, from number `worker` on.

        Raises:
            InputError: this process was forked, and the table's format does not survive that.
        """
        if os.getpid() != self._process:
            self._check_context("fork")
        order = self._order(epoch)
        steps = worker_steps(self._split.num_steps(position), worker, num_workers)
        with ThreadPoolExecutor(self._num_decoders(), "datalake-decode") as decoders:

            def make(step: int) -> Batch:
                share = self._split.share(step, position)
                return self._assembler.assemble(share, order, epoch, decoders)

            yield from ahead(make, steps, depth=self._prefetch)

    def state_dict(self) -> State:
        """Where this stream stands: plain data, equal on all ranks after the same step.

        Follows passes of this loader and of its `dataloader()`; batches of a plain DataLoader with
        workers come from copies, and `state_after` gives their state.
        """
        return self._identity.state(self._cursor.epoch, self._cursor.position)

    def state_after(self, batch: Batch) -> State:
        """The state right after a batch of this loader, however it was delivered."""
        return self._identity.state(batch["epoch"], batch["position"])

    def load_state_dict(self, state: State) -> None:
        """Let the next pass go on where a state stood, with exactly the examples that are left.

        Any rank can load any rank's state; their number, and the batch size, may have changed. A
        state from the end of an epoch leaves nothing of it: the next pass is empty, and the one
        after it is the next epoch.

        Raises:
            InputError: the state is of another table, version, selection, order or seed.
        """
        self._cursor.jump(*self._identity.place(state))

    def dataloader(
        self,
        *,
        num_workers: int = 0,
        multiprocessing_context: str = "spawn",
        pin_memory: bool = False,
        prefetch_factor: int = 2,
    ) -> WorkerLoader:
        """This stream through worker processes: the same batches in the same order.

        Args:
            num_workers: processes; 0 for none.
            multiprocessing_context: `spawn`, `forkserver` or `fork`. Lance tables do not survive
                `fork`; tables in memory need it.
            pin_memory: copy tensors to page-locked memory, from which GPUs copy asynchronously.
            prefetch_factor: batches made ahead in each worker.

        Raises:
            InputError: workers of this kind could not read the table.
        """
        from datalake.loader.workers import WorkerLoader

        if num_workers:
            self._check_context(multiprocessing_context)
        return WorkerLoader(
            self,
            self._cursor,
            num_workers=num_workers,
            multiprocessing_context=multiprocessing_context,
            pin_memory=pin_memory,
            prefetch_factor=prefetch_factor,
        )

    def _check_context(self, multiprocessing_context: str) -> None:
        table = self._assembler.table
        forked = multiprocessing_context == "fork"
        if forked and not table.capabilities.survives_fork:
            raise InputError(
                "A forked process cannot read this table",
                where=self._identity.table,
                found=f"the format {table.format}, whose threads do not survive a fork",
                fix="Give the DataLoader multiprocessing_context='spawn' or 'forkserver', or use "
                "loader.dataloader(num_workers=…), which spawns",
            )
        if not forked and not table.capabilities.survives_process:
            raise InputError(
                "Worker processes cannot see this table",
                where=self._identity.table,
                found=f"the format {table.format}, which lives in this process",
                fix="Use num_workers=0 or multiprocessing_context='fork'",
            )

    def _order(self, epoch: int) -> Order:
        return order_of(
            shuffle=self._shuffle,
            num_examples=self._split.num_examples,
            seed=self._seed,
            epoch=epoch,
        )

    def _num_decoders(self) -> int:
        if self._num_threads is not None:
            return self._num_threads
        return 1 if torch.utils.data.get_worker_info() is not None else os.cpu_count() or 1


def _from_torchrun(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal():
        raise InputError(
            "The environment names no rank", where=name, expected="a number", found=text
        )
    return int(text)


def _check_columns(table: Table, columns: Sequence[str]) -> None:
    names = table.schema.names
    for name in ("audio", "label", *columns):
        if name not in names:
            raise SchemaError(
                f"The table has no column {name!r}", where=table.uri, fix=nearest(name, names)
            )
    taken = sorted(BATCH_KEYS.intersection(columns))
    if taken:
        raise InputError(
            "A column has the name of something every batch holds",
            where=table.uri,
            found=", ".join(taken),
            fix="Leave it out of `columns`; " + ", ".join(sorted(BATCH_KEYS)) + " are always there",
        )


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"{name} is unknown", expected=" or ".join(known), found=repr(value))


def _check_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise InputError(f"{name} is too small", expected=f"{least} or more", found=str(value))
