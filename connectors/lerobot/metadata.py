"""Reads the tables below `meta/`, and says what is wrong with one instead of failing."""

from __future__ import annotations

import io
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.metadata import Problem, read_bytes, value_of
from connectors.tree import Tree
from datalake.quarantine import Reason
from datalake.recording import Finding, Severity

__all__ = ["Line", "faulty", "read_json_lines", "read_parquet"]


def faulty(problem: Problem, path: str, severity: Severity = Severity.ERROR) -> Finding:
    """The finding about a metadata file."""
    reason, detail = problem
    return Finding(reason, severity, detail, origin=path)


Line: TypeAlias = tuple[int, dict[str, Any]]
"""The number of a line, from 1, and its JSON object."""


def read_json_lines(
    tree: Tree, path: str, severity: Severity = Severity.ERROR
) -> tuple[list[Line], list[Finding]]:
    """The objects of a JSON Lines file with their line numbers, and what is wrong with it."""
    data = read_bytes(tree, path)
    if isinstance(data, tuple):
        return [], [faulty(data, path, severity)]
    rows: list[Line] = []
    findings = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = value_of(line)
        except ValueError as error:
            row = error
        if isinstance(row, dict):
            rows.append((number, row))
        else:
            problem = (Reason.EMPTY_METADATA, f"line {number} is no JSON object")
            findings.append(faulty(problem, path, severity))
    return rows, findings


def read_parquet(tree: Tree, path: str, *, leave_out: str = "") -> pa.Table | Problem:
    """The rows of a small Parquet file, or what is wrong with the file.

    Args:
        tree: the dataset.
        path: the file.
        leave_out: columns whose name begins so are not read.
    """
    data = read_bytes(tree, path)
    if isinstance(data, tuple):
        return data
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        names = file.schema_arrow.names
        kept = [name for name in names if not leave_out or not name.startswith(leave_out)]
        return file.read(columns=kept)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        return Reason.EMPTY_METADATA, f"it is no Parquet file with a footer: {said}"
