"""The test of tests for streams: restore at every step, and compare what follows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import torch

from datalake.loader import Loader
from datalake.loader.stream import Batch


def assert_same(found: Iterable[Batch], expected: Iterable[Batch]) -> None:
    """Two runs of batches are equal to the last sample."""
    for left, right in zip(found, expected, strict=True):
        assert left.keys() == right.keys()
        for key, value in left.items():
            same = torch.equal if isinstance(value, torch.Tensor) else _equal
            assert same(value, right[key]), key


def assert_resumes_everywhere(make: Callable[[], Loader]) -> None:
    """A fresh loader that loads the state of any step goes on as the first one did."""
    loader = make()
    states = [loader.state_dict()]
    batches = []
    for batch in loader:
        batches.append(batch)
        states.append(loader.state_dict())
        assert loader.state_after(batch) == states[-1]
    following = list(loader)
    for step, state in enumerate(states):
        resumed = make()
        resumed.load_state_dict(json.loads(json.dumps(state)))
        assert resumed.state_dict() == state
        assert_same(resumed, batches[step:])
        assert_same(resumed, following)


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right)
