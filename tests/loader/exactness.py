"""The test of tests for streams: killed anywhere, resumed by any other trainer, nothing is lost.

`every_example_once` drives any stream: pure shares (`pure_stream`), or real loaders. Give it a
function that opens the stream of one rank at a state (None: the epoch's beginning) and yields, for
each step, which examples came, which of them are repeats, and the state after the step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st

from datalake.loader.batching import Batching, ByCost, Fixed, Packed, Place
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Sampler
from datalake.loader.state import State, load, save

unhurried = settings(deadline=None)
"""For property tests on machines that do other things as well."""


@dataclass(frozen=True)
class Run:
    """A run of a trainer."""

    batching: Batching
    world_size: int = 1
    num_workers: int = 0
    steps: int | None = None
    """It is killed after so many; None: it comes to the epoch's end."""


@dataclass(frozen=True)
class Step:
    """What one rank got at one step."""

    ids: Sequence[Hashable]
    is_pad: Sequence[bool]
    state: State
    """After the step."""


MakeStream: TypeAlias = Callable[[Run, int, State | None], Iterator[Step]]
"""Opens the stream of a rank: (run, rank, state)."""


def every_example_once(
    make_stream: MakeStream,
    runs: Sequence[Run],
    order: Sequence[Hashable],
    *,
    in_order: bool = False,
    most_dropped: int = 0,
    most_state_bytes: int = 1500,
    resumes_alike: bool = True,
) -> list[Hashable]:
    """Let runs follow each other through an epoch, and check what they get. Returns it.

    Args:
        make_stream: opens a rank's stream; closed when the run is killed.
        runs: one after the other; the last goes on to the epoch's end.
        order: what stands at each position of the epoch; distinct.
        in_order: ranks together get exactly that order (batches of a fixed count).
        most_dropped: what may be left out at the end (tail="drop").
        most_state_bytes: of a state as JSON.
        resumes_alike: also see that the same run, killed and resumed, makes the very step that it
            would have made.
    """
    place_of = {example: position for position, example in enumerate(order)}
    got: list[Hashable] = []
    consumed: set[int] = set()
    state: State | None = None
    expected_next: tuple[Run, list[Step] | None] | None = None
    for run in [*runs, *([Run(runs[-1].batching)] if runs[-1].steps is not None else [])]:
        with ExitStack() as stack:
            streams = [
                stack.enter_context(closing(make_stream(run, rank, state)))  # type: ignore[type-var]
                for rank in range(run.world_size)
            ]
            num_steps = 0
            while True:
                steps = _in_step(streams)
                if expected_next is not None and run == expected_next[0]:
                    assert steps == expected_next[1]
                expected_next = None
                if run.steps is not None and num_steps >= run.steps:
                    expected_next = (run, steps) if resumes_alike else None
                    break
                if steps is None:
                    break
                num_steps += 1
                for step in steps:
                    assert len(step.ids) == len(step.is_pad) > 0
                    for example, is_pad in zip(step.ids, step.is_pad, strict=True):
                        position = place_of[example]
                        if not is_pad:
                            assert position not in consumed, f"{example} came twice"
                            consumed.add(position)
                            got.append(example)
                state = _checked_state(steps, consumed, most_state_bytes)
                if any(any(step.is_pad) for step in steps):
                    assert state["position"] == len(order), "repeats in the midst of the epoch"
        if expected_next is not None and state is not None:
            again = [make_stream(run, rank, state) for rank in range(run.world_size)]
            assert _in_step(again) == expected_next[1]
            for stream in again:
                stream.close()  # type: ignore[attr-defined]
        expected_next = None
    missing = len(order) - len(consumed)
    assert missing <= most_dropped, f"{missing} examples never came"
    if in_order:
        assert got == list(order[: len(got)])
    return got


def _in_step(streams: Sequence[Iterator[Step]]) -> list[Step] | None:
    """The next step of all ranks; None when all have ended."""
    steps = [next(stream, None) for stream in streams]
    made = [step for step in steps if step is not None]
    assert len(made) in (0, len(steps)), "ranks make unequal numbers of steps"
    return made or None


def _checked_state(steps: Sequence[Step], consumed: set[int], most_bytes: int) -> State:
    """The state after a step: equal on all ranks, plain, small, and true."""
    texts = {json.dumps(step.state, sort_keys=True) for step in steps}
    assert len(texts) == 1, "ranks have unequal states"
    text = texts.pop()
    assert len(text) <= most_bytes, text
    state: State = json.loads(text)
    assert state == steps[0].state
    frontier = state["taken"][-1]["stop"] if state["taken"] else state["position"]
    inside = {position for position in consumed if position >= state["position"]}
    assert len(consumed) - len(inside) == state["position"], "something before it was left out"
    assert not inside or max(inside) < frontier, "something beyond the window was taken"
    return state


class IdsOf(Protocol):
    """What stands at positions of an epoch."""

    def __call__(self, epoch: int, positions: Indices) -> Sequence[Hashable]: ...


def pure_stream(sampler: Sampler, ids: IdsOf, epoch: int = 0) -> MakeStream:
    """Streams that read nothing: shares, made by workers in turn as a DataLoader asks them."""

    def make(run: Run, rank: int, state: State | None) -> Iterator[Step]:
        place, own = (Place(epoch, 0), sampler) if state is None else load(sampler, state)
        num_workers = max(run.num_workers, 1)
        workers = [
            run.batching.shares(
                own, place, rank, run.world_size, worker=worker, num_workers=num_workers
            )
            for worker in range(num_workers)
        ]
        turn = 0
        while (share := next(workers[turn % num_workers], None)) is not None:
            turn += 1
            yield Step(ids(epoch, share.positions), share.is_pad.tolist(), save(own, share.after))
        assert all(next(worker, None) is None for worker in workers)

    return make


# Strategies ---------------------------------------------------------------------------------------

tails: st.SearchStrategy[Any] = st.sampled_from(["drop", "pad", "short"])
exact_tails: st.SearchStrategy[Any] = st.sampled_from(["pad", "short"])


def fixed(tails: st.SearchStrategy[Any] = exact_tails) -> st.SearchStrategy[Fixed]:
    """Batches of a fixed count."""
    return st.builds(Fixed, st.integers(1, 17), tails)


def by_cost(unit: str, tails: st.SearchStrategy[Any] = exact_tails) -> st.SearchStrategy[ByCost]:
    """Length buckets with limits around 100 and small windows."""
    return st.builds(
        ByCost,
        st.floats(10, 150),
        unit=st.just(unit),
        max_examples=st.none() | st.integers(1, 9),
        window=st.integers(1, 64),
        tail=tails,
        padded=st.booleans(),
    )


def packed(unit: str, tails: st.SearchStrategy[Any] = exact_tails) -> st.SearchStrategy[Packed]:
    """Packed sequences of a capacity around 100 in small windows."""
    return st.builds(
        Packed,
        st.integers(10, 150),
        unit=st.just(unit),
        num_sequences=st.integers(1, 3),
        window=st.integers(1, 64),
        tail=tails,
        overlong=st.just("truncate"),
    )


def batchings(
    unit: str, tails: st.SearchStrategy[Any] = exact_tails
) -> st.SearchStrategy[Batching]:
    """All kinds."""
    return st.one_of(fixed(tails), by_cost(unit, tails), packed(unit, tails))


def runs(
    batchings: st.SearchStrategy[Any],
    *,
    max_world_size: int = 9,
    max_workers: int = 4,
    max_steps: int = 6,
    max_runs: int = 6,
) -> st.SearchStrategy[list[Run]]:
    """Runs that are killed, and one that is not."""
    worlds, workers = st.integers(1, max_world_size), st.integers(0, max_workers)
    killed = st.builds(Run, batchings, worlds, workers, st.integers(0, max_steps))
    last = st.builds(Run, batchings, worlds, workers)
    return st.builds(lambda some, one: [*some, one], st.lists(killed, max_size=max_runs - 1), last)


def flattened(steps: Iterable[Step]) -> list[Hashable]:
    """What came, without repeats."""
    return [
        example
        for step in steps
        for example, is_pad in zip(step.ids, step.is_pad, strict=True)
        if not is_pad
    ]
