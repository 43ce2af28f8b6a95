"""What adds columns to a table: a function of a few rows at a time.

Embeddings and quality measures are annotations; so is whatever a plug-in computes from a row. How a
table is walked, where that runs, how it resumes and what is committed is not their business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

__all__ = ["Annotate", "Annotator"]

Annotate: TypeAlias = Callable[[pa.Table], pa.Table]
"""From some rows of the columns read to the columns added: as many rows, in the same order.

A row that cannot be annotated (damaged audio, no frames) has nulls in all columns added, and says
why in the column `error` if the annotator gives one: text, null where all went well. That column is
counted and reported and does not enter the table.
"""


@runtime_checkable
class Annotator(Protocol):
    """Computes columns from rows. Picklable and small: what is heavy is loaded by `open`.

    What it gives for a row depends on that row and on `settings` alone, never on the rows beside
    it: a table is cut in ways that no annotator knows of.

    One that gains from a GPU may say so by an attribute `num_gpus`: 1, or the part of one that a
    worker needs. Where a Ray cluster has GPUs, workers wait for it; elsewhere it is not looked at.
    """

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it needs."""
        ...

    @property
    def adds(self) -> pa.Schema:
        """The columns that it adds, all nullable. Field metadata is stored with them."""
        ...

    @property
    def settings(self) -> Mapping[str, object]:
        """What its values hang on, as JSON values: names, versions and digests of models included.

        Recorded with the version that has the columns, and what tells a run that may be resumed
        from another one.
        """
        ...

    def open(self) -> Annotate:
        """Load what is heavy, once a process.

        Raises:
            MissingPackageError: an optional package is not installed.
            LakeError: a model cannot be loaded.
        """
        ...
