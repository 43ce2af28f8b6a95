"""Which names tables and selections may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.lake.names import check_name


@pytest.mark.parametrize("name", ["corpus", "a", "9", "A_b-c.d", "corpus.quarantine", "x" * 128])
def test_good_names(name: str) -> None:
    assert check_name(name, "table") == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".x", "-x", "_x", "a..b", "a.", "a/b", "a b", "ü", "a\n", "x" * 129]
)
def test_bad_names(name: str) -> None:
    with pytest.raises(InputError, match="A table cannot have this name"):
        check_name(name, "table")


@given(st.text())
def test_a_good_name_is_one_safe_path_part(name: str) -> None:
    try:
        check_name(name, "selection")
    except InputError:
        return
    assert name.isascii()
    assert not set(name) & set("/\\ :")
    assert ".." not in name
