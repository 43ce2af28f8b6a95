"""A file of picklable things, each read by number: what the units of a job have to do.

An Arrow IPC file with one record batch a thing, as `units.py` has for rows, so a worker reads its
own and nothing else. It lies in the lake's `plans` folder, which only writers of the lake write to.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from datalake.pipelines.units import read_unit
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["read_payload", "write_payloads"]

_SCHEMA: Final = pa.schema([pa.field("payload", pa.large_binary(), nullable=False)])
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def write_payloads(location: Location, payloads: Iterable[object]) -> int:
    """Write the things, in order. Returns how many there are.

    Raises:
        StoreError: the store refused.
    """
    num_payloads = 0
    filesystem, path = location.filesystem()
    with (
        translated(location, "Writing the plan"),
        filesystem.open(path, "wb") as sink,
        pa.ipc.new_file(sink, _SCHEMA, options=_OPTIONS) as writer,
    ):
        for payload in payloads:
            data = pa.array([pickle.dumps(payload)], pa.large_binary())
            writer.write_batch(pa.record_batch([data], schema=_SCHEMA))
            num_payloads += 1
    return num_payloads


def read_payload(location: Location, index: int) -> Any:
    """Thing `index` of the file at `location`.

    Raises:
        StoreError: the file cannot be read.
    """
    return pickle.loads(read_unit(location, index).column(0)[0].as_py())
