"""The types that numbers have in the files, where info.json says others.

Converters write info.json by hand and the files with pandas: vectors are declared as float32 and
stored as float64. `lerobot` does not mind, so numbers are taken as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.lerobot.corpus import Entry, Layout
from connectors.lerobot.info import Info
from connectors.tree import Tree
from datalake.errors import NotFoundError
from datalake.quarantine import Reason
from datalake.recording import NUMERIC_DTYPES, Finding, Severity

__all__ = ["with_stored_types"]

_NAMES: Final = {stored: name for name, stored in NUMERIC_DTYPES.items()}
# Some of them may not have been downloaded.
_MOST_TRIED: Final = 8


def with_stored_types(tree: Tree, info: Info, layout: Layout) -> tuple[Info, list[Finding]]:
    """The info with the numbers' types in the first data file there is, and a warning for each."""
    schema, path = _first_schema(tree, layout)
    features, findings = [], []
    for feature in info.features:
        stored = None
        if schema is not None and feature.is_numeric and schema.names.count(feature.name) == 1:
            stored = _NAMES.get(_item_type(schema.field(feature.name).type))
        if stored is not None and stored != feature.dtype:
            detail = f"info.json declares {feature.dtype}, found {stored}: it is taken as {stored}"
            findings.append(
                Finding(
                    Reason.SHAPE_CHANGED,
                    Severity.WARNING,
                    detail,
                    feature=feature.name,
                    origin=path,
                )
            )
            feature = replace(feature, dtype=stored)
        features.append(feature)
    return replace(info, features=tuple(features)), findings


def _first_schema(tree: Tree, layout: Layout) -> tuple[pa.Schema | None, str]:
    for path in dict.fromkeys(islice(_data_paths(layout), _MOST_TRIED)):
        try:
            with tree.open(path) as handle:
                return pq.ParquetFile(handle).schema_arrow, path
        except (NotFoundError, pa.ArrowException, OSError, UnicodeDecodeError):
            continue
    return None, ""


def _data_paths(layout: Layout) -> Iterator[str]:
    return (entry.rows.path for entry in layout.entries() if isinstance(entry, Entry))


def _item_type(kept_as: pa.DataType) -> pa.DataType:
    """What lists of lists hold in the end."""
    while True:
        if isinstance(kept_as, pa.BaseExtensionType):
            kept_as = kept_as.storage_type
        elif (
            pa.types.is_list(kept_as)
            or pa.types.is_large_list(kept_as)
            or pa.types.is_fixed_size_list(kept_as)
        ):
            kept_as = kept_as.value_type
        else:
            return kept_as
