"""`WorkerLoader`: a loader's stream through the worker processes of a torch `DataLoader`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import torch.utils.data

from datalake.errors import InputError, LakeError, StalledError
from datalake.loader.batching import Place
from datalake.loader.engine.ahead import Made
from datalake.loader.engine.tensors import num_bytes_of
from datalake.loader.sources.source import Columns
from datalake.loader.state import Cursor, State

if TYPE_CHECKING:
    from datalake.loader.stream import Loader

__all__ = ["WorkerLoader"]

# Room for the place where a pass begins, as JSON.
_PLACE_BYTES: Final = 1 << 16
# Workers name what hangs before the process that waits for them gives up.
_GRACE_S: Final = 15.0


class WorkerLoader:
    """The stream of a `Loader`, made in worker processes that live as long as this object.

    Batches, their order and the state are those of the loader, which goes along: `state_dict`,
    `load_state_dict`, `set_epoch` and `epoch` are its own. Made by `Loader.dataloader`, which
    describes the arguments.
    """

    def __init__(
        self,
        loader: Loader,
        cursor: Cursor,
        *,
        num_workers: int,
        multiprocessing_context: str,
        pin_memory: bool,
        prefetch_factor: int,
        timeout_s: float,
    ) -> None:
        self._loader = loader
        self._cursor = cursor
        self._pass = _Pass(loader)
        self._batches = torch.utils.data.DataLoader(
            self._pass,
            batch_size=None,
            num_workers=num_workers,
            multiprocessing_context=multiprocessing_context if num_workers else None,
            persistent_workers=num_workers > 0,
            prefetch_factor=prefetch_factor if num_workers else None,
            pin_memory=pin_memory,
            timeout=timeout_s + _GRACE_S if num_workers else 0,
        )

    @property
    def epoch(self) -> int:
        """The epoch of the pass in progress, or of the next one if there is none."""
        return self._loader.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be this epoch."""
        self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        """Steps of a whole epoch; the same on every rank."""
        return len(self._loader)

    def __iter__(self) -> Iterator[Columns]:
        # As with `Loader`, the pass begins with its first batch.
        self._cursor.rewind(self._loader._is_over)
        self._pass.begin_at(self._cursor.begin())
        yield from self._cursor.follow(self._counted(_raising(iter(self._batches))))

    def _counted(self, batches: Iterator[Columns]) -> Iterator[Columns]:
        # What a worker spent its time on stays with it; how long the trainer waited is known here.
        begin = time.perf_counter()
        for batch in batches:
            waited_s = time.perf_counter() - begin
            self._loader.count(Made(batch, num_bytes_of(batch), {}, waited_s))
            yield batch
            del batch
            begin = time.perf_counter()

    def state_dict(self) -> State:
        """Where the stream stands after the last delivered batch; workers may be further."""
        return self._loader.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Let the next pass go on where a state stood. Raises as `Loader.load_state_dict` does."""
        self._loader.load_state_dict(state)


def _raising(items: Iterator[Columns | LakeError]) -> Iterator[Columns]:
    while True:
        begin = time.monotonic()
        try:
            item = next(items)
        except StopIteration:
            return
        except RuntimeError as error:
            # torch says both of a dead and of a silent worker no more than this.
            raise _of_worker(error, time.monotonic() - begin) from error
        if isinstance(item, LakeError):
            try:
                raise item
            finally:
                # The error's traceback holds this frame, which must not keep the workers alive:
                # the garbage collector takes 5 seconds to end each.
                del item, items
        yield item
        del item


def _of_worker(error: RuntimeError, waited_s: float) -> Exception:
    text = str(error)
    if "timed out" in text:
        return StalledError(
            "No batch came from the worker processes",
            found=f"none within {waited_s:.0f} s: {text}",
            fix="Look at what the workers wait for, or give the loader a longer timeout_s",
        )
    if "exited unexpectedly" in text or "is killed by signal" in text:
        return LakeError(
            "A worker process died",
            found=text,
            fix="If it was killed for memory, take fewer workers or smaller batches; the state of "
            "the last batch goes on from there",
        )
    return error


class _Pass(torch.utils.data.IterableDataset[Columns | LakeError]):
    """One worker's part of the pass that the main process asks for.

    An error is its last item: torch would rebuild a raised one from the text of its traceback.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        # Workers outlive a pass; shared memory (without a name) tells them where the next begins. A
        # worker that is slow to start may look while the pass after that is being written: there
        # are two places, and a number says which one is whole.
        self._begins = torch.zeros((2, _PLACE_BYTES), dtype=torch.uint8).share_memory_()  # type: ignore[no-untyped-call]
        self._which = torch.zeros(1, dtype=torch.uint8).share_memory_()  # type: ignore[no-untyped-call]

    def begin_at(self, place: Place) -> None:
        text = json.dumps([place.epoch, place.position, list(place.taken)]).encode()
        if len(text) >= _PLACE_BYTES:
            raise InputError("The place is too long for worker processes", found=f"{len(text)} B")
        other = 1 - int(self._which[0])
        padded = bytearray(text.ljust(_PLACE_BYTES, b"\0"))
        self._begins[other] = torch.frombuffer(padded, dtype=torch.uint8)
        self._which[0] = other

    def __iter__(self) -> Iterator[Columns | LakeError]:
        # At once: the main process may move on before the first batch is asked for.
        return self._part(self.begin())

    def begin(self) -> Place:
        """Where the pass begins that was asked for last."""
        text = self._begins[int(self._which[0])].numpy().tobytes().rstrip(b"\0")
        epoch, position, taken = json.loads(text)
        return Place(epoch, position, tuple(taken))

    def _part(self, place: Place) -> Iterator[Columns | LakeError]:
        info = torch.utils.data.get_worker_info()
        worker, num_workers = (info.id, info.num_workers) if info else (0, 1)
        try:
            yield from self._loader.batches(place, worker=worker, num_workers=num_workers)
        except LakeError as error:
            yield error
