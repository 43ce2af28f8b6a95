"""A test's loader shares no row with the training's, and no mixture takes two sides of a split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.loader import Loader, Mixture, Rows, Selected, Weighted
from datalake.tables import Table, create_table
from tests.loader import corpus

COUNT = 24


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path: Path = tmp_path_factory.mktemp("apart") / "corpus.lance"
    return create_table(path, corpus.SCHEMA).append(corpus.rows(COUNT))


def source(table: Table) -> Rows:
    return Rows(table, ["utt_id"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.sets(st.integers(0, COUNT - 1), min_size=1),
    second=st.sets(st.integers(0, COUNT - 1), min_size=1),
)
def test_rows_in_common_are_refused(stored: Table, first: set[int], second: set[int]) -> None:
    train = Loader(Selected(source(stored), sorted(first)), batch_size=2)
    test: Any = Selected(source(stored), sorted(second))
    shared = sorted(first & second)
    if not shared:
        assert Loader(test, batch_size=2, apart_from=train).num_examples == len(second)
        return
    with pytest.raises(InputError, match="rows in common") as caught:
        Loader(test, batch_size=2, apart_from=train)
    assert caught.value.found == f"{len(shared)}, the first of them made/{shared[0]:04d}"


def test_a_whole_table_is_apart_from_nothing_of_it(stored: Table) -> None:
    train = Loader(Mixture({"a": Selected(source(stored), [1, 2])}))
    with pytest.raises(InputError, match="rows in common"):
        Loader(source(stored), apart_from=train)


def test_rows_without_a_weight_never_come(stored: Table) -> None:
    chosen = corpus.select([3, 4, 5], version=stored.version)  # Of weights 0, 1 and 2.
    train = Loader(Weighted(source(stored), chosen))
    assert Loader(Selected(source(stored), [3, 6]), apart_from=train).num_examples == 2
    with pytest.raises(InputError, match="made/0004"):
        Loader(Selected(source(stored), [4, 6]), apart_from=train)


def test_other_tables_do_not_matter_and_other_versions_do(stored: Table, tmp_path: Path) -> None:
    train = Loader(source(stored))
    other = create_table(tmp_path / "other.lance", corpus.SCHEMA).append(corpus.rows(4))
    assert Loader(source(other), apart_from=train).num_examples == 4
    later = other.append(corpus.rows(8).slice(4))
    with pytest.raises(InputError, match="at two versions"):
        Loader(Selected(source(later), [6]), apart_from=Loader(source(other)))


def test_a_mixture_of_two_parts_of_one_split_is_refused(stored: Table) -> None:
    chosen = corpus.select([1, 2], version=stored.version)
    train = replace(chosen, name="s.train", parameters={"split": "s", "part": "train"})
    test = replace(
        corpus.select([3], version=stored.version),
        name="s.test",
        parameters={"split": "s", "part": "test"},
    )
    parts = {"a": Selected(source(stored), train), "b": Weighted(source(stored), train)}
    assert Mixture(parts)
    with pytest.raises(InputError, match="two parts of one split") as caught:
        Mixture({**parts, "c": Selected(source(stored), test)})
    assert caught.value.found == "train and test"
    beside = replace(test, parameters={"split": "of-another", "part": "test"})
    assert Mixture({**parts, "c": Selected(source(stored), beside)})
    # Numbers of rows carry no split.
    assert Mixture({**parts, "c": Selected(source(stored), np.array([3]))})
