"""What a report is made of: a study's results, its mixtures, and the facts of its run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from curation.study.results import MIXTURES, check_results
from datalake.errors import InputError, NotFoundError

__all__ = ["StudyRecord"]


@dataclass(frozen=True)
class StudyRecord:
    """A study that was run.

    A runner's folder is read by `read`; results of elsewhere, in the columns of
    `curation.study.results.RESULTS`, make a record too.
    """

    results: pa.Table
    """`RESULTS`."""
    mixtures: pa.Table = field(default_factory=MIXTURES.empty_table)
    """`MIXTURES`; empty if what was selected is not known."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The content of `study.json`: design, versions, folds and lineage; what is missing is not
    shown."""
    remarks: tuple[str, ...] = ()
    """Of the run: methods that did not do what their options suggest."""
    failures: tuple[str, ...] = ()
    """Cells without a result, with the reason."""

    def __post_init__(self) -> None:
        if not self.results.num_rows:
            raise InputError("There are no results to report", fix="Run the study first")
        check_results(self.results)

    @classmethod
    def read(
        cls, folder: Path, *, remarks: tuple[str, ...] = (), failures: tuple[str, ...] = ()
    ) -> StudyRecord:
        """The record in a folder that a study wrote.

        Args:
            folder: with `results.parquet`, and `mixtures.parquet` and `study.json` if there are.
            remarks: of the run, which the folder does not hold.
            failures: likewise.

        Raises:
            NotFoundError: there are no results.
            InputError: a file cannot be read, or its content cannot be used.
        """
        results, mixtures, facts = (
            folder / name for name in ("results.parquet", "mixtures.parquet", "study.json")
        )
        if not results.is_file():
            raise NotFoundError(
                "The folder has no results of a study",
                where=str(results),
                fix="Run the study first",
            )
        try:
            return cls(
                pq.read_table(results),
                pq.read_table(mixtures) if mixtures.is_file() else MIXTURES.empty_table(),
                json.loads(facts.read_text(encoding="utf-8")) if facts.is_file() else {},
                remarks,
                failures,
            )
        except (OSError, ValueError, pa.ArrowException) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                "What a study wrote cannot be read", where=str(folder), found=str(error)
            ) from error
