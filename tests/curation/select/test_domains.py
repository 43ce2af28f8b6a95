from __future__ import annotations

import pyarrow as pa
import pytest

from curation.domains import EPISODES, UTTERANCES, keys_of
from datalake.episodes.quality import domain_of as name_at_ingest
from datalake.episodes.schema import EPISODES as EPISODE_COLUMNS
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
    domain = UTTERANCES.domain(label, source, generator)
    assert (domain.name if domain else None) == name


def test_the_predicate_finds_exactly_the_rows_without_a_domain() -> None:

    keys = pa.Table.from_pylist(
        [
            {"utt_id": str(number), **dict(zip(UTTERANCES.columns, row[:3], strict=True))}
            for number, row in enumerate(ROWS)
        ],
        schema=KEYS,
    )
    found = (
        stored(keys)
        .scan(["utt_id"], where=UTTERANCES.without_domain)
        .read_all()["utt_id"]
        .to_pylist()
    )
    assert found == [str(number) for number, row in enumerate(ROWS) if row[3] is None]


@pytest.mark.parametrize("embodiment", [None, "so101"])
@pytest.mark.parametrize("task", [None, "", "pick the cube"])
def test_a_domain_of_episodes_is_called_as_ingest_calls_it(embodiment, task) -> None:
    domain = EPISODES.domain("lab", embodiment, task)
    assert domain is not None
    assert domain.name == name_at_ingest("lab", embodiment, task)
    assert not domain.is_bonafide
    assert EPISODES.domain(None, embodiment, task) is None


def test_a_table_says_by_its_columns_what_it_holds() -> None:
    assert keys_of(EPISODE_COLUMNS) is EPISODES
    assert keys_of(KEYS) is UTTERANCES
