"""What rows that make no example are called, also where the store does not say."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from datalake.blocks.origin import RefusedError
from datalake.blocks.reader import TableReader
from datalake.errors import StoreError
from datalake.loader.sources.naming import bad_rows
from datalake.quarantine import Reason, Refusal
from datalake.tables import Table


class Failing:
    """A reader whose ids cannot be had."""

    def __init__(self, table: Table, error: StoreError) -> None:
        self.table, self.error = table, error

    def texts(self, column: str, rows: Any) -> list[str]:
        raise self.error


def bad(table: Table, error: StoreError) -> list[Any]:
    reader = cast("TableReader", Failing(table, error))
    return bad_rows(reader, np.array([7, 3]), {1: Refusal(Reason.CORRUPT, "a hole")})


def test_rows_whose_ids_are_lost_are_named_by_number(table: Table) -> None:
    (found,) = bad(table, StoreError("Rows cannot be read"))
    assert (found.index, found.row, found.detail) == (1, 3, "a hole")
    assert "row 3, id unknown" in found.where


def test_a_store_that_refuses_is_not_taken_for_bad_rows(table: Table) -> None:
    with pytest.raises(RefusedError):
        bad(table, RefusedError("The store kept refusing"))
