"""Packing as a pipeline: `pack` makes sequences, `shard` deals steps to shards."""

from datalake.pipelines.packing.pack import pack
from datalake.pipelines.packing.report import PackReport, ShardReport, SourceReport
from datalake.pipelines.packing.settings import PackSettings
from datalake.pipelines.packing.shard import shard

__all__ = ["PackReport", "PackSettings", "ShardReport", "SourceReport", "pack", "shard"]
