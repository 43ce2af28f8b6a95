from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.lerobot.writing.tasks import number_tasks, tasks_parquet
from datalake.errors import InputError

FOUND = st.lists(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from("abcd")), max_size=3, unique_by=lambda t: t[0]
    ),
    min_size=1,
    max_size=6,
)


@given(FOUND)
def test_every_frame_keeps_its_text(episodes: list[list[tuple[int, str]]]) -> None:
    tasks = number_tasks(episodes)
    assert len(set(tasks.texts)) == len(tasks.texts)
    for episode, found in enumerate(episodes):
        numbers = [number for number, _ in found] or [None]
        texts = [text for _, text in found] or [""]
        renumbered = tasks.renumbered(episode, pa.array(numbers, pa.int64()))
        assert [tasks.texts[number] for number in renumbered] == texts


def test_consistent_numbers_stay() -> None:
    tasks = number_tasks([[(2, "c")], [(0, "a")], [(1, "b"), (0, "a")]])
    assert tasks.texts == ("a", "b", "c")


def test_gaps_close_in_order() -> None:
    assert number_tasks([[(7, "late")], [(3, "early")]]).texts == ("early", "late")


def test_contradictions_go_by_appearance() -> None:
    # Two merged datasets, each of which begins at 0.
    tasks = number_tasks([[(1, "b")], [(0, "a")], [(0, "b")]])
    assert tasks.texts == ("b", "a")
    assert tasks.renumbered(2, pa.array([0, 0])).tolist() == [0, 0]


@pytest.mark.parametrize("numbers", [[1], [None]])
def test_a_frame_of_no_task_of_its_episode(numbers: list[int | None]) -> None:
    tasks = number_tasks([[(0, "a")], [(1, "b")]])
    with pytest.raises(InputError, match="datalake episodes task"):
        tasks.renumbered(0, pa.array(numbers, pa.int64()))


def test_the_file_is_that_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    texts = ["a", "ü \n „b“", ""]
    own = pq.read_table(pa.BufferReader(tasks_parquet(texts)))
    sink = pa.BufferOutputStream()
    pandas.DataFrame({"task_index": range(3)}, index=texts).to_parquet(sink)
    theirs = pq.read_table(pa.BufferReader(sink.getvalue()))
    assert own.column_names == theirs.column_names
    assert own.to_pylist() == theirs.to_pylist()
    assert own.to_pandas().equals(theirs.to_pandas())
