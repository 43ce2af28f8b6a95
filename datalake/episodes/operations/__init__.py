"""What is done with whole episodes of a set: one call, one new version.

    delete(lake, "g1", where="success = FALSE")
    trim(lake, "g1", idle=True)
    merge(lake, ["g1", "g2"], "all", union=True)
    split(lake, "all", Fractions({"train": 0.9, "val": 0.1}, seed=7))

Each call opens the latest version, touches the tables that it must, and publishes them together
with its lineage; a set that another writer changed meanwhile gives a ConflictError, and nothing
has happened. What a call made is undone by `restore`. `dry_run` says what would be done.

Memory holds what is known of each episode (its row without statistics: some 100 bytes; a few kB
for those that are rewritten) and the frames of one episode, never a table. Videos are not read
unless they are copied into another set.
"""

from __future__ import annotations

from datalake.episodes.operations.change import Change
from datalake.episodes.operations.describing import drop_feature, rename_feature, set_task
from datalake.episodes.operations.merging import merge
from datalake.episodes.operations.recomputing import recompute_stats
from datalake.episodes.operations.removing import delete, restore
from datalake.episodes.operations.splitting import Fractions, Ranges, SplitRule, Values, split
from datalake.episodes.operations.trimming import trim
from datalake.episodes.operations.validating import validate

__all__ = [
    "Change",
    "Fractions",
    "Ranges",
    "SplitRule",
    "Values",
    "delete",
    "drop_feature",
    "merge",
    "recompute_stats",
    "rename_feature",
    "restore",
    "set_task",
    "split",
    "trim",
    "validate",
]
