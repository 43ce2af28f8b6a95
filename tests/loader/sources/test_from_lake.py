"""`from_lake` says its arguments in full, for editors and `help`: those of the constructor."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from datalake.episodes.windows import Windows
from datalake.loader import Episodes, EpisodeWindows, Rows, Utterances

# What stands for the table or set, and what is a name there and the thing itself here.
OPENED = {"lake", "name", "version", "table", "episodes", "windows"}
NAMED = {"selection", "masks"}


def arguments(call: Any) -> dict[str, inspect.Parameter]:
    return {
        name: each
        for name, each in inspect.signature(call).parameters.items()
        if name not in OPENED
    }


@pytest.mark.parametrize("source", [Utterances, Rows, Episodes, EpisodeWindows])
def test_the_arguments_are_those_of_the_constructor(source: Any) -> None:
    own = arguments(source)
    if source is EpisodeWindows:
        # Threads are the loader's.
        own |= {name: each for name, each in arguments(Windows).items() if name != "num_threads"}
    found = arguments(source.from_lake)
    assert found.keys() == own.keys()
    for name, each in found.items():
        assert each.default == own[name].default, name
        assert each.kind == own[name].kind, name
        assert name in NAMED or each.annotation == own[name].annotation, name
