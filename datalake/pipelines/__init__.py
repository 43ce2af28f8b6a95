"""Pipelines that fill tables: `ingest`."""

from __future__ import annotations

from datalake.pipelines.ingest import ingest
from datalake.pipelines.report import RunReport

__all__ = ["RunReport", "ingest"]
