from __future__ import annotations

import pyarrow as pa
import pytest

from curation.manifest import MANIFEST, num_effective_domains, ratio_reached, remarks, totals


def manifest(rows: dict[str, tuple[int, int]]) -> pa.Table:
    kept = sum(taken for _, taken in rows.values())
    return pa.Table.from_pylist(
        [
            {
                "domain": name,
                "label": "spoof" if "/" in name else "bonafide",
                "source": name.partition("/")[0],
                "generator": name.partition("/")[2] or None,
                "num_rows": there,
                "num_kept": taken,
                "hours": there / 100,
                "hours_kept": taken / 100,
                "retention": taken / there,
                "mass": taken / kept if kept else 0.0,
                "binds": taken < there,
            }
            for name, (there, taken) in rows.items()
        ],
        schema=MANIFEST,
    )


@pytest.mark.parametrize(
    ("masses", "expected"),
    [
        ([50, 500, 5000, 50000], 1.434),
        ([50**0.5, 500**0.5, 5000**0.5, 50000**0.5], 2.354),
        ([50, 500, 500, 500], 3.339),
        ([1, 1, 1, 1], 4.0),
        ([7, 0, 0], 1.0),
        ([], 0.0),
    ],
)
def test_effective_number_of_domains(masses: list[float], expected: float) -> None:
    assert num_effective_domains(masses) == pytest.approx(expected, abs=5e-4)


def test_totals_are_by_label_and_over_all() -> None:
    sums = totals(manifest({"a": (10, 5), "a/x": (100, 5), "a/y": (5, 5)}))
    assert {name: (s.num_domains, s.num_rows, s.num_kept) for name, s in sums.items()} == {
        "bonafide": (1, 10, 5),
        "spoof": (2, 105, 10),
        "all": (3, 115, 15),
    }
    assert (sums["all"].hours, sums["all"].hours_kept) == pytest.approx((1.15, 0.15))
    assert sums["all"].num_effective_domains_kept == pytest.approx(3)
    assert sums["spoof"].num_effective_domains_kept == pytest.approx(2)


def test_ratio_reached() -> None:
    assert ratio_reached(manifest({"a": (10, 5), "a/x": (100, 20)})) == 0.25
    assert ratio_reached(manifest({"a": (10, 5)})) is None


@pytest.mark.parametrize(
    ("rows", "parameters", "said"),
    [
        ({"a/x": (5, 5)}, {"cap": 9}, ["cap of 9 binds no spoof domain: the largest has 5 rows"]),
        ({"a": (9, 5), "a/x": (5, 5)}, {"cap": 9}, ["binds no spoof domain"]),
        ({"a": (5, 5)}, {"cap": 9}, ["the largest has 0 rows"]),
        ({"a/x": (50, 9), "a": (2, 2)}, {"cap": 9, "ratio": 1.0, "real_mode": "per_source"},
         ["ratio reached is 0.222 where 1 was asked"]),
        ({"a/x": (50, 9), "a": (2, 2)}, {"cap": 9, "ratio": 2, "real_mode": "total"},
         ["ratio reached is 0.222 where 2 was asked"]),
        ({"a/x": (50, 9), "a": (2, 2)}, {"cap": 9, "ratio": 1.0, "real_mode": "cap"}, []),
        ({"a/x": (50, 9), "a": (9, 9)}, {"cap": 9, "ratio": 1.0, "real_mode": "total"}, []),
        ({"a/x": (5, 5)}, {"budget": 7.0, "unit": "rows"}, ["of 7 rows is more than there is: 5"]),
        ({"a/x": (5, 5)}, {"budget": 5, "unit": "rows"}, []),
        ({"a/x": (5, 5)}, {"budget": 1, "unit": "hours"}, ["1 hours is more than there is: 0.05"]),
    ],
)  # fmt: skip
def test_remarks(rows, parameters, said) -> None:
    found = remarks(manifest(rows), parameters)
    assert len(found) == len(said)
    assert all(part in remark for part, remark in zip(said, found, strict=True))
