"""Equal rows, against a dictionary."""

from __future__ import annotations

import pyarrow as pa
import pytest

from curation.duplicates import equal_rows
from curation.selection import place
from datalake import tables
from datalake.errors import SchemaError


@pytest.mark.parametrize("flip", [1, -1])
def test_the_first_in_hash_order_is_kept_whatever_the_row_order(tmp_path, flip) -> None:
    ids = [f"s/{number}" for number in range(60)][::flip]
    same = {name: None if name.endswith("7") else name[-1] for name in ids}
    rows = pa.table({"utt_id": ids, "sha256": pa.array(same.values(), pa.string())})
    table = tables.create_table(str(tmp_path / "t.lance"), rows.schema, format="lance").append(rows)
    first: dict[str, str] = {}
    for name in sorted(ids, key=lambda name: place(0, name)):
        if same[name] is not None:
            first.setdefault(same[name], name)
    wanted = {n: first[k] for n, k in same.items() if k is not None and first[k] != n}
    found = equal_rows(table).to_pylist()
    assert {row["utt_id"]: row["kept_by_id"] for row in found} == wanted
    assert all(ids[row["row_index"]] == row["utt_id"] for row in found)
    assert all(ids[row["kept_by"]] == row["kept_by_id"] for row in found)
    assert {row["reason"] for row in found} == {"equal_sha256"}
    with pytest.raises(SchemaError, match="sha256"):
        equal_rows(table, "sha25")
