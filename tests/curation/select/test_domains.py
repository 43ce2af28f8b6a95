from __future__ import annotations

import pyarrow as pa
import pytest

from curation.domains import KEY_COLUMNS, WITHOUT_DOMAIN, domain_of
from tests.curation.select.corpora import KEYS, stored

ROWS = [
    ("bonafide", "a", None, "a"),
    ("bonafide", "a", "", "a"),
    # A generator does not split bona fide: it says which system will imitate the recording.
    ("bonafide", "a", "x", "a"),
    ("spoof", "a", "x", "a/x"),
    ("spoof", "a", None, None),
    ("spoof", "a", "", None),
    ("spoof", None, "x", None),
    ("spoof", "", "x", None),
    ("bonafide", None, None, None),
    ("bonafide", "", None, None),
    (None, "a", "x", None),
    ("", "a", "x", None),
    ("genuine", "a", None, None),
]


@pytest.mark.parametrize(("label", "source", "generator", "name"), ROWS)
def test_domain_of_a_row(label, source, generator, name) -> None:
    domain = domain_of(label, source, generator)
    assert (domain.name if domain else None) == name


def test_the_predicate_finds_exactly_the_rows_without_a_domain() -> None:

    keys = pa.Table.from_pylist(
        [
            {"utt_id": str(number), **dict(zip(KEY_COLUMNS, row[:3], strict=True))}
            for number, row in enumerate(ROWS)
        ],
        schema=KEYS,
    )
    found = stored(keys).scan(["utt_id"], where=WITHOUT_DOMAIN).read_all()["utt_id"].to_pylist()
    assert found == [str(number) for number, row in enumerate(ROWS) if row[3] is None]
