"""Arrow types that Delta does not know, stored as their nearest and restored when read.

Delta has no unsigned integers, dictionaries, fixed-size lists, offset widths or units of time but
microseconds. A column of such a type is stored as a type that holds its values, and the field's
metadata keeps the Arrow field, so that what comes back is what was declared.
"""

from __future__ import annotations

import base64
from typing import Final

import pyarrow as pa

from datalake.errors import SchemaError

__all__ = ["declared_schema", "physical_schema"]

_ARROW_FIELD: Final = b"datalake.arrow_field"

_NARROW: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    # Values from 2^63 on are refused when they are written.
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.date64(): pa.date32(),
}
_KEPT: Final = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
    }
)


def physical_schema(schema: pa.Schema, where: str) -> pa.Schema:
    """The schema that the Parquet files and the Delta log hold.

    Raises:
        SchemaError: Delta has no type that holds a column.
    """
    return pa.schema([_physical_field(field, where) for field in schema])


def declared_schema(schema: pa.Schema) -> pa.Schema:
    """The schema as it was given to `physical_schema`."""
    return pa.schema([_declared_field(field) for field in schema])


def _physical_field(field: pa.Field, where: str) -> pa.Field:
    data_type = _physical(field.type, field.name, where)
    metadata = dict(field.metadata or {})
    if data_type != field.type or _has_nested_names(field.type):
        plain = pa.schema([field.with_metadata(None)]).serialize().to_pybytes()
        metadata[_ARROW_FIELD] = base64.b64encode(plain)
    return pa.field(field.name, data_type, field.nullable, metadata or None)


def _declared_field(field: pa.Field) -> pa.Field:
    metadata = dict(field.metadata or {})
    encoded = metadata.pop(_ARROW_FIELD, None)
    if encoded is not None:
        stored = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))
        field = pa.field(field.name, stored.field(0).type, field.nullable)
    return field.with_metadata(metadata or None)


def _has_nested_names(data_type: pa.DataType) -> bool:
    # Delta names the items of lists and the entries of maps in its own way.
    return bool(pa.types.is_nested(data_type))


def _physical(data_type: pa.DataType, name: str, where: str) -> pa.DataType:
    if data_type in _KEPT:
        return data_type
    if data_type in _NARROW:
        return _NARROW[data_type]
    types = pa.types
    if types.is_dictionary(data_type):
        return _physical(data_type.value_type, name, where)
    if types.is_fixed_size_binary(data_type):
        return pa.binary()
    if types.is_timestamp(data_type):
        return pa.timestamp("us", "UTC" if data_type.tz else None)
    if types.is_decimal128(data_type):
        return data_type
    if types.is_list(data_type) or types.is_large_list(data_type):
        item = data_type.value_field
        return pa.list_(item.with_type(_physical(item.type, name, where)))
    if types.is_fixed_size_list(data_type):
        item = data_type.value_field
        return pa.list_(item.with_type(_physical(item.type, name, where)))
    if types.is_struct(data_type):
        fields = [data_type.field(i) for i in range(data_type.num_fields)]
        return pa.struct([f.with_type(_physical(f.type, name, where)) for f in fields])
    if types.is_map(data_type):
        return pa.map_(
            _physical(data_type.key_type, name, where), _physical(data_type.item_type, name, where)
        )
    raise SchemaError(
        f"Delta cannot hold the column {name}",
        where=where,
        expected="numbers, text, bytes, booleans, dates, timestamps, or lists and structs of them",
        found=str(data_type),
        fix="Cast it before writing, or use a Lance table",
    )
