"""The lake: named tables, saved selections, and the lineage of every version."""

from __future__ import annotations

from datalake.lake.lake import Lake, open_lake
from datalake.lake.lineage import Lineage, LogEntry
from datalake.lake.selection import SELECTION_ROWS, Selection

__all__ = ["SELECTION_ROWS", "Lake", "Lineage", "LogEntry", "Selection", "open_lake"]
