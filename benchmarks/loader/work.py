"""The work that everybody does on what they read, the best way the peers allow.

audio     16-bit samples to float32, cropped or padded with zeros to 64,600
raw       frames with their encoded pictures as bytes
jpeg      frames with both pictures decoded by simplejpeg
records   16-bit records stacked
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
import torch.utils.data

from benchmarks.loader.data import CHUNK, CROP, SIDE, Audio, Frames, Records

__all__ = ["BATCH", "MODES", "check", "collate", "collate_arrays", "fill", "new_tensor", "sample"]

BATCH: Final = 64
MODES: Final = {"audio": ("audio",), "frames": ("raw", "jpeg"), "records": ("records",)}

Sample = dict[str, Any]


def fill(out: npt.NDArray[np.float32], clip: npt.NDArray[np.int16], row: int) -> None:
    """Crop or pad one clip into a batch's row. The crop hangs on the row alone."""
    over = len(clip) - CROP
    start = row * 2654435761 % 4294967296 % (over + 1) if over > 0 else 0
    part = clip[start : start + CROP]
    np.multiply(part, np.float32(1 / 32768), out=out[: len(part)], dtype=np.float32)
    out[len(part) :] = 0


def sample(dataset: str, mode: str) -> Callable[[dict[str, Any]], Sample]:
    """What turns one stored record into one sample, for peers that work sample by sample."""
    if dataset == "audio":
        return _clip
    if dataset == "records":
        return _record
    return _frame_encoded if mode == "raw" else _frame_decoded


def _clip(record: dict[str, Any]) -> Sample:
    out = np.empty(CROP, np.float32)
    fill(out, np.frombuffer(record["audio"], "<i2"), int(record["idx"]))
    return {
        "idx": int(record["idx"]),
        "label": int(record["label"]),
        "audio": torch.from_numpy(out),
    }


def _record(record: dict[str, Any]) -> Sample:
    data = torch.from_numpy(np.frombuffer(record["data"], "<i2").copy())
    return {"idx": int(record["idx"]), "label": int(record["label"]), "data": data}


def _frame_encoded(record: dict[str, Any]) -> Sample:
    frame = _numbers(record)
    frame["cam0"], frame["cam1"] = bytes(record["cam0"]), bytes(record["cam1"])
    return frame


def _frame_decoded(record: dict[str, Any]) -> Sample:
    import simplejpeg

    frame = _numbers(record)
    for name in ("cam0", "cam1"):
        frame[name] = torch.from_numpy(simplejpeg.decode_jpeg(record[name]))
    return frame


def _numbers(record: dict[str, Any]) -> Sample:
    state = np.array(record["state"], np.float32).reshape(14)
    action = np.array(record["action"], np.float32).reshape(CHUNK, 14)
    return {
        "idx": int(record["idx"]),
        "task": record["task"],
        "state": torch.from_numpy(state),
        "action": torch.from_numpy(action),
    }


def new_tensor(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor for a batch; in a worker in shared memory, as torch's own collate does."""
    if torch.utils.data.get_worker_info() is None:
        return torch.empty(tuple(shape), dtype=dtype)
    num_elements = int(np.prod(shape))
    storage = torch.empty(0, dtype=dtype)._typed_storage()._new_shared(num_elements, device="cpu")
    return torch.empty(0, dtype=dtype).new(storage).resize_(*shape)


def collate(samples: Sequence[Sample]) -> Sample:
    """Samples to a batch: tensors stacked, whole numbers in a tensor, the rest in lists."""
    batch: Sample = {}
    for name, first in samples[0].items():
        values = [one[name] for one in samples]
        if isinstance(first, torch.Tensor):
            out = new_tensor((len(values), *first.shape), first.dtype)
            batch[name] = torch.stack(values, out=out)
        elif isinstance(first, int):
            batch[name] = torch.tensor(values)
        else:
            batch[name] = values
    return batch


def collate_arrays(samples: Sequence[Sample]) -> Sample:
    """The same with numpy arrays, which processes without torch hand on better."""
    return {
        name: value.numpy() if isinstance(value, torch.Tensor) else value
        for name, value in collate(samples).items()
    }


def check(batch: Sample, data: Audio | Frames | Records, mode: str) -> None:
    """Stop unless the first example of a batch holds what its number promises."""
    row = int(batch["idx"][0])
    if isinstance(data, Audio):
        got, clip = np.asarray(batch["audio"][0]), data.clip(row) / np.float32(32768)
        kept = min(len(clip), CROP)
        starts = np.flatnonzero(clip[: len(clip) - kept + 1] == got[0])
        assert any(np.array_equal(got[:kept], clip[s : s + kept]) for s in starts), "the clip"
        assert got.shape == (CROP,)
        assert not got[kept:].any(), "the padding"
        assert int(batch["label"][0]) == data.label[row]
    elif isinstance(data, Records):
        assert np.array_equal(np.asarray(batch["data"][0]), data.data[row]), "the record"
    else:
        assert np.allclose(np.asarray(batch["state"][0]), data.state[row]), "the state"
        assert np.allclose(np.asarray(batch["action"][0]), data.chunk(np.array([row]))[0])
        assert batch["task"][0] == data.task(row)
        if mode == "raw":
            assert bytes(batch["cam0"][0]) == data.jpegs(row)[0], "the picture"
        else:
            assert tuple(batch["cam0"].shape[1:]) == (SIDE, SIDE, 3)
