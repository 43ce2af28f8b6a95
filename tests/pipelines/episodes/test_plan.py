"""Planning: units, and a dataset of a hundred thousand episodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from datalake.pipelines.episodes import EpisodeSettings
from datalake.pipelines.episodes.plan import make_plan
from datalake.pipelines.episodes.units import cut
from datalake.recording import EpisodeRef, Feature, Finding, VideoFile, VideoSpan
from datalake.uri import Location


@given(
    items=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), max_size=60),
    workers=st.integers(1, 4),
    most_items=st.integers(1, 20),
)
def test_units_keep_the_order_and_the_bounds(
    items: list[tuple[int, int]], workers: int, most_items: int
) -> None:
    units = list(
        cut(
            items,
            lambda item: item[1],
            num_workers=workers,
            least_bytes=50,
            most_bytes=200,
            most_items=most_items,
            together=lambda item: item[0],
        )
    )
    assert [item for unit in units for item in unit] == items
    for unit in units:
        assert 0 < len(unit) <= most_items
        assert sum(item[1] for item in unit) <= 200 or len(unit) == 1
    # What belongs together is parted only where it is too much for one unit.
    ends = {sum(map(len, units[: nth + 1])) for nth in range(len(units))}
    start = 0
    for _, run in groupby(items, key=lambda item: item[0]):
        members = list(run)
        inside = [end for end in ends if start < end < start + len(members)]
        fits = sum(item[1] for item in members) <= 200 and len(members) <= most_items
        assert not (inside and fits)
        start += len(members)


@dataclass(frozen=True)
class LargeCorpus:
    """Nothing but metadata."""

    num_episodes: int
    source: str = "large"
    root: Location = field(default_factory=lambda: Location("/nowhere"))
    embodiment: str | None = None
    fps: float = 30.0
    features: tuple[Feature, ...] = (
        Feature("action", "float32", (7,)),
        Feature("camera", "video", (480, 640, 3)),
    )

    def findings(self) -> Iterator[Finding]:
        return iter(())

    def videos(self) -> Iterator[VideoFile]:
        for number in range(self.num_episodes):
            yield VideoFile(f"large/{number}", "camera", f"{number}.mp4", 1 << 20, "s")

    def episodes(self) -> Iterator[EpisodeRef]:
        for number in range(self.num_episodes):
            yield EpisodeRef(
                f"large/{number:06d}", number, f"{number}.parquet", 300, "s", 1 << 16,
                (VideoSpan("camera", f"large/{number}", 0.0, 10.0),),
            )  # fmt: skip


def test_a_hundred_thousand_episodes_are_planned_in_seconds() -> None:
    started = time.process_time()
    plan = make_plan(LargeCorpus(100_000), None, EpisodeSettings())  # type: ignore[arg-type]
    assert len(plan.to_do) == len(plan.videos) == 100_000
    assert time.process_time() - started < 15
