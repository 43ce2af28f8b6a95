from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curation.domains import Domain
from curation.selection import DOSS, NAIVE, RANDOM, REAL_MODES, Options
from datalake import plugins
from datalake.errors import InputError, NotFoundError


def domain(name: str) -> Domain:
    source, _, generator = name.partition("/")
    return Domain("spoof" if generator else "bonafide", source, generator)


def kept(selector, sizes: dict[str, int], **options) -> dict[str, int]:
    pools = selector.pools({domain(name): size for name, size in sizes.items()}, Options(**options))
    return {pool.domains[0].name: pool.keep for pool in pools}


# `a` has both labels, `b` more spoof than bona fide, `s` spoof only, `r` and `t` bona fide only.
SIZES = {"a": 900, "a/x": 300, "a/y": 20, "b": 50, "b/x": 400, "s/z": 80, "r": 1000, "t": 30}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Spoof 100 + 20, 100, 80. Real: a 120, b 50 of 100, s has none of 80; 130 left for r and t.
        ({"cap": 100}, {"a": 120, "b": 50, "r": 100, "t": 30}),
        # Half of each: a 60, b 50, and the 40 of s to r and t in equal parts.
        ({"cap": 100, "ratio": 0.5}, {"a": 60, "b": 50, "r": 20, "t": 20}),
        # 300 over a, b, r, t: level 110 for a and r.
        ({"cap": 100, "real_mode": "total"}, {"a": 110, "b": 50, "r": 110, "t": 30}),
        # 301: the unit left over goes to the first.
        ({"cap": 101, "real_mode": "total"}, {"a": 111, "b": 50, "r": 111, "t": 30}),
        ({"cap": 100, "real_mode": "cap"}, {"a": 100, "b": 50, "r": 100, "t": 30}),
        ({"cap": 100, "ratio": 2, "real_mode": "cap"}, {"a": 200, "b": 50, "r": 200, "t": 30}),
        ({"cap": 100, "ratio": 0}, {"a": 0, "b": 0, "r": 0, "t": 0}),
        # Half rows are rounded up: a gets .5 (1 + 1) = 1, b .5 -> 1, and s .5 -> 1 goes to r.
        ({"cap": 1, "ratio": 0.5}, {"a": 1, "b": 1, "r": 1, "t": 0}),
    ],
)
def test_doss_by_hand(options: dict[str, object], expected: dict[str, int]) -> None:
    cap = options["cap"]
    assert isinstance(cap, int)
    spoof = {name: min(size, cap) for name, size in SIZES.items() if "/" in name}
    assert kept(DOSS, SIZES, **options) == {**spoof, **expected}


def test_random_is_one_pool_and_naive_keeps_all() -> None:
    sizes = {domain(name): size for name, size in SIZES.items()}
    (pool,) = RANDOM.pools(sizes, Options(num_rows=7))
    assert (set(pool.domains), pool.keep) == (set(sizes), 7)
    assert kept(NAIVE, SIZES) == SIZES


NAMES = st.sampled_from(["a", "b", "c", "d", "a/x", "a/y", "b/x", "c/x", "e/x", "e/y"])


@given(
    st.dictionaries(NAMES, st.integers(1, 60), min_size=1),
    st.integers(1, 50),
    st.integers(0, 30),
    st.floats(0, 4, allow_nan=False),
    st.sampled_from(REAL_MODES),
)
def test_a_larger_cap_takes_no_row_from_any_domain(sizes, cap, more, ratio, real_mode) -> None:
    sizes = dict(sorted(sizes.items()))
    smaller = kept(DOSS, sizes, cap=cap, ratio=ratio, real_mode=real_mode)
    larger = kept(DOSS, sizes, cap=cap + more, ratio=ratio, real_mode=real_mode)
    assert all(smaller[name] <= larger[name] <= sizes[name] for name in sizes)


@given(
    st.dictionaries(NAMES, st.integers(1, 60), min_size=1),
    st.integers(1, 50),
    st.floats(0, 4, allow_nan=False),
)
def test_per_source_never_gives_a_spoofing_source_more_than_its_share(sizes, cap, ratio) -> None:
    found = kept(DOSS, dict(sorted(sizes.items())), cap=cap, ratio=ratio)
    for source in {name.partition("/")[0] for name in found if "/" in name}:
        spoofs = sum(keep for name, keep in found.items() if name.startswith(f"{source}/"))
        assert found.get(source, 0) <= math.floor(ratio * spoofs + 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cap": 0}, "cap is a number of rows. Expected 1 or more. Found 0"),
        ({"num_rows": -3}, "number of rows"),
        ({"ratio": -0.1}, "ratio is bona fide for each spoof"),
        ({"ratio": math.nan}, "ratio"),
        ({"ratio": math.inf}, "ratio"),
        ({"real_mode": "per-source"}, "Did you mean per_source"),
    ],
)
def test_options_out_of_range_are_refused(options, message) -> None:
    with pytest.raises(InputError, match=message):
        Options(**options)


def test_needed_options_are_asked_for() -> None:
    with pytest.raises(InputError, match="--cap"):
        DOSS.pools({domain("a"): 1}, Options())
    with pytest.raises(InputError, match=r"--budget.*--like"):
        RANDOM.pools({domain("a"): 1}, Options())


def test_selectors_are_found_as_plug_ins() -> None:
    group = "datalake.selectors"
    found = {name: plugins.load(group, name) for name in ("doss", "random", "naive")}
    assert found == {"doss": DOSS, "random": RANDOM, "naive": NAIVE}
    with pytest.raises(NotFoundError, match="Did you mean doss"):
        plugins.load(group, "dos")
