"""The selection that another one was made within."""

from __future__ import annotations

from datalake.errors import NotFoundError
from datalake.lake import Lake, Selection
from datalake.lake.selection import DIGEST

__all__ = ["earlier_of"]


def earlier_of(lake: Lake, selection: Selection) -> Selection | None:
    """The very selection within which this one was made; None if it was made within none.

    Raises:
        NotFoundError: it was never saved, or is gone.
    """
    parameters = selection.parameters
    if "within_digest" not in parameters:
        return None
    name, digest = str(parameters["within"]), parameters["within_digest"]
    problem = "it was not saved"
    if name:
        versions = lake.selection_table(name).versions()
        for info in reversed(versions):
            if info.properties.get(DIGEST) == digest:
                return lake.selection(name, info.version)
        problem = f"{len(versions)} versions of {name}, none of them with these rows"
    raise NotFoundError(
        "The selection within which another was made is gone",
        where=selection.name,
        expected=f"a selection {name!r} of digest {str(digest)[:12]}…",
        found=problem,
        fix="Select again within one that is saved",
    )
