"""From a batch of numpy arrays to tensors: in this process, in a worker, on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from datalake.loader.engine.ahead import Made
from datalake.loader.engine.buffers import Buffers
from datalake.loader.sources.source import Columns
from datalake.telemetry import Meter

__all__ = ["Memory", "PinnedMemory", "PlainMemory", "SharedMemory", "copied", "num_bytes_of"]


class Memory(Protocol):
    """Where the arrays of one batch lie, and how they become tensors without a copy."""

    def allocate(self, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An uninitialised array."""
        ...

    def tensors(self, columns: Columns) -> Columns:
        """The batch with its arrays, and those in its lists, as tensors; all else as it is."""
        ...


class PlainMemory:
    """Recycled memory of this process."""

    def __init__(self, buffers: Buffers | None = None) -> None:
        self._buffers = buffers or Buffers()
        self.allocate = self._buffers.allocate

    def tensors(self, columns: Columns) -> Columns:
        """The batch with its arrays as tensors."""
        return _mapped(columns, torch.from_numpy)


class PinnedMemory(PlainMemory):
    """Recycled page-locked memory, from which a CUDA device copies by itself."""

    def __init__(self) -> None:
        super().__init__(
            Buffers(
                lambda num_bytes: torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True).numpy()
            )
        )


class SharedMemory:
    """Memory that a worker process hands to its parent without a copy. For one batch each.

    It has no name, so that a killed process leaves nothing behind.
    """

    def __init__(self) -> None:
        # By the array's id, which nothing else may get: so the arrays are kept.
        self._tensors: dict[int, torch.Tensor] = {}
        self._arrays: list[npt.NDArray[Any]] = []

    def allocate(self, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An uninitialised array."""
        kind = torch.from_numpy(np.empty(0, dtype)).dtype
        # As torch's own default_collate does in a worker.
        tensor = torch.empty(0, dtype=kind).set_(
            torch.UntypedStorage._new_shared(  # type: ignore[no-untyped-call]
                max(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize, 1)
            )
        )
        tensor = tensor.resize_(tuple(shape))
        array: npt.NDArray[Any] = tensor.numpy()
        self._tensors[id(array)], self._arrays = tensor, [*self._arrays, array]
        return array

    def tensors(self, columns: Columns) -> Columns:
        """The batch with its arrays as tensors, those of this memory as they lie there."""
        return _mapped(columns, self._tensor)

    def _tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        tensor = self._tensors.get(id(array))
        return torch.from_numpy(array) if tensor is None else tensor


def copied(
    batches: Iterator[Made[Columns]], device: torch.device, meter: Meter
) -> Iterator[Made[Columns]]:
    """Batches on a CUDA device: each is copied while the trainer works on the one before.

    The copy runs on a stream of its own; the trainer's stream waits for it, and the trainer's
    thread does not.
    """
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    # What is being copied must stay as it is until the copy is done.
    ahead: tuple[Made[Columns], torch.cuda.Event, Columns] | None = None

    def begun(made: Made[Columns]) -> tuple[Made[Columns], torch.cuda.Event, Columns]:
        with meter.during("copy"), torch.cuda.stream(side):
            on_device = _mapped(made.result, lambda tensor: tensor.to(device, non_blocking=True))
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record(side)
        moved = Made(on_device, made.num_bytes, made.seconds, made.waited_s)
        return moved, done, made.result

    def finished(copy: tuple[Made[Columns], torch.cuda.Event, Columns]) -> Made[Columns]:
        moved, done, _ = copy
        current = torch.cuda.current_stream(device)
        current.wait_event(done)
        # The allocator must not give the memory away while this stream still reads it.
        _mapped(moved.result, lambda tensor: tensor.record_stream(current) or tensor)
        return moved

    try:
        for made in batches:
            before, ahead = ahead, begun(made)
            if before is not None:
                yield finished(before)
                before[1].synchronize()
        if ahead is not None:
            yield finished(ahead)
    finally:
        # The memory that is copied from serves the next pass.
        side.synchronize()


def num_bytes_of(columns: Columns) -> int:
    """Bytes of a batch: of its arrays or tensors, and of text and bytes in lists."""
    return sum(map(_num_bytes, columns.values()))


def _num_bytes(value: Any) -> int:
    if isinstance(value, dict):
        return num_bytes_of(value)
    if isinstance(value, list):
        if value and isinstance(value[0], bytes | str):
            return sum(len(each) for each in value if each is not None)
        return sum(map(_num_bytes, value))
    return value.nbytes if _is_array(value) else 0


def _mapped(columns: Columns, function: Callable[[Any], Any]) -> Columns:
    """The columns with `function` of every array or tensor, those of parts and lists included."""

    def mapped(value: Any) -> Any:
        if isinstance(value, dict):
            return _mapped(value, function)
        if isinstance(value, list):
            return [function(each) if _is_array(each) else each for each in value]
        return function(value) if _is_array(value) else value

    return {name: mapped(value) for name, value in columns.items()}


def _is_array(value: Any) -> bool:
    """Whether it is a tensor, or an array that can become one."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufc"
    return isinstance(value, torch.Tensor)
