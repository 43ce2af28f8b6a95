"""Whether a selection was made from the table that it is used with."""

from __future__ import annotations

import numpy as np

from datalake.errors import InputError
from datalake.lake import Selection
from datalake.loader.sources.chosen import ChosenFrames
from datalake.loader.sources.source import Source

__all__ = ["check_alone", "check_origin", "place_of"]


def check_origin(source: Source, selection: Selection | ChosenFrames) -> None:
    """See that a selection's version and the ids of its first and last row are the source's.

    Raises:
        InputError: they are not, or the source names another selection.
    """
    check_alone(source, selection)
    if isinstance(selection, ChosenFrames):
        # Of the source itself, which has looked; or of another one.
        if getattr(source, "selection", None) is None:
            raise InputError(
                f"Frames were chosen from another source: {selection.name!r}",
                where=place_of(source),
                fix="Give the selection of episodes, ids or condition to the source itself",
            )
        return
    version = source.identity().get("table_version")
    if version is not None and selection.table_version != version:
        raise InputError(
            f"The selection {selection.name!r} was made from another version of the table",
            where=place_of(source),
            expected=f"{selection.table} at version {selection.table_version}",
            found=f"version {version}",
            fix=f"Open the table with .at({selection.table_version}), or select again",
        )
    if len(selection) == 0:
        return
    rows = selection.rows["row_index"].to_numpy()
    ends = rows[[0, -1]].astype(np.int64)
    expected = selection.rows["utt_id"].take([0, len(selection) - 1]).to_pylist()
    found = (
        list(source.ids(ends))
        if int(rows.max()) < source.num_rows
        else [f"a table of {source.num_rows} rows"]
    )
    if found != expected:
        raise InputError(
            f"The selection {selection.name!r} was made from another table",
            where=place_of(source),
            expected=f"{selection.table} with {expected} at rows {ends.tolist()}",
            found=str(found),
        )


def check_alone(source: Source, selection: Selection | ChosenFrames | None) -> None:
    """See that the source does not name other rows than those given.

    Raises:
        InputError: it does.
    """
    own: Selection | ChosenFrames | None = getattr(source, "selection", None)
    if (
        own is not None
        and own is not selection
        and (selection is None or own.digest != selection.digest)
    ):
        raise InputError(
            "Rows are chosen in two ways",
            where=place_of(source),
            found=f"the source's own selection {own.name!r}, and other rows beside it",
            fix="Give the selection in one place: to the source, or to Selected or Weighted",
        )


def place_of(source: Source) -> str:
    """A source's tables and versions, for a person."""
    return ", ".join(f"{key} {value}" for key, value in source.identity().items())
