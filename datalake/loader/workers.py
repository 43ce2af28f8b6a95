"""`WorkerLoader`: a loader's stream through the worker processes of a torch `DataLoader`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import torch.utils.data

from datalake.errors import LakeError
from datalake.loader.assembly import Batch
from datalake.loader.state import Cursor, State

if TYPE_CHECKING:
    from datalake.loader.stream import Loader

__all__ = ["WorkerLoader"]


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

    def __iter__(self) -> Iterator[Batch]:
        self._pass.begin_at(*self._cursor.begin())
        return self._cursor.follow(_raising(iter(self._batches)))

    def state_dict(self) -> State:
        """Where the stream stands after the last delivered batch; workers may be further."""
        return self._loader.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Let the next pass go on where a state stood. Raises as `Loader.load_state_dict` does."""
        self._loader.load_state_dict(state)


def _raising(items: Iterable[Batch | LakeError]) -> Iterator[Batch]:
    for item in items:
        if isinstance(item, LakeError):
            try:
                raise item
            finally:
                # The error's traceback holds this frame, which must not keep the workers alive:
                # the garbage collector takes 5 seconds to end each.
                del item, items
        yield item


class _Pass(torch.utils.data.IterableDataset[Batch | LakeError]):
    """One worker's part of the pass that the main process asks for.

    An error is its last item: torch would rebuild a raised one from the text of its traceback.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        # Workers outlive a pass; shared memory (without a name) tells them where the next begins.
        self._begin = torch.zeros(2, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    def begin_at(self, epoch: int, position: int) -> None:
        self._begin.copy_(torch.tensor([epoch, position]))

    def __iter__(self) -> Iterator[Batch | LakeError]:
        # At once: the main process may move on before the first batch is asked for.
        return self._part(*self._begin.tolist())

    def _part(self, epoch: int, position: int) -> Iterator[Batch | LakeError]:
        info = torch.utils.data.get_worker_info()
        worker, num_workers = (info.id, info.num_workers) if info else (0, 1)
        try:
            yield from self._loader.batches(epoch, position, worker=worker, num_workers=num_workers)
        except LakeError as error:
            yield error
