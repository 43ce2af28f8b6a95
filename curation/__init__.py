"""Data-centric curation: select, weigh, audit and judge.

import curation, datalake

lake = datalake.open_lake("./lake")
selection = curation.select(lake["corpus"], table_name="corpus", cap=500, name="doss500")
"""

from curation.selection import select, weigh
from curation.selection.explanation import explain, summarize

__all__ = ["explain", "select", "summarize", "weigh"]
