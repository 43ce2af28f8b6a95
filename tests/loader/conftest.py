"""Tables with real audio, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalake.tables import Table, create_table
from tests.loader.corpus import SCHEMA, rows


@pytest.fixture(scope="session")
def table() -> Table:
    """53 rows in memory."""
    return create_table("memory://loader/corpus", SCHEMA, format="memory").append(rows(53))


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """The same 53 rows on disk, in two commits."""
    path: Path = tmp_path_factory.mktemp("loader") / "corpus.lance"
    made = rows(53)
    return create_table(path, SCHEMA).append(made[:30]).append(made[30:])
