"""Columns that are computed from rows: `annotate` adds what an `Annotator` gives."""

from __future__ import annotations

from datalake.pipelines.annotation.annotate import annotate
from datalake.pipelines.annotation.annotator import Annotate, Annotator
from datalake.pipelines.annotation.report import AnnotationReport, FailedRow

__all__ = ["Annotate", "AnnotationReport", "Annotator", "FailedRow", "annotate"]
