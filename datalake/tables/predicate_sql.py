"""A predicate as SQL text, for engines that take text."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from datalake.tables.predicate import (
    Arithmetic,
    Between,
    Call,
    Cast,
    Column,
    Comparison,
    Constant,
    InList,
    IsNull,
    Like,
    Logical,
    Node,
    Not,
)

__all__ = ["DUCKDB", "LANCE", "Dialect", "to_sql"]


@dataclass(frozen=True)
class Dialect:
    """Where engines differ."""

    quote: str
    """Stands around names."""
    length: str
    """The function that counts the characters of a string."""
    like_suffix: str
    """Makes the backslash the escape of LIKE."""
    zone: str
    """Follows the time in a literal, which is UTC."""
    types: tuple[tuple[pa.DataType, str], ...]

    def type_name(self, data_type: pa.DataType) -> str:
        """The SQL name of a type."""
        return str(dict(self.types)[data_type])


_NUMBERS: Final = (
    (pa.bool_(), "BOOLEAN"),
    (pa.int8(), "TINYINT"),
    (pa.int16(), "SMALLINT"),
    (pa.int32(), "INT"),
    (pa.int64(), "BIGINT"),
    (pa.float32(), "FLOAT"),
    (pa.float64(), "DOUBLE"),
)
_UTC: Final = pa.timestamp("us", "UTC")

DUCKDB: Final = Dialect(
    quote='"',
    length="length",
    like_suffix=" ESCAPE '\\'",
    zone="+00:00",
    types=(
        *_NUMBERS,
        (pa.string(), "VARCHAR"),
        (pa.large_string(), "VARCHAR"),
        (_UTC, "TIMESTAMPTZ"),
    ),
)
# Lance takes a double quote for a string's, and its casts know times without a zone only.
LANCE: Final = Dialect(
    quote="`",
    length="character_length",
    like_suffix="",
    zone="",
    types=(
        *_NUMBERS,
        (pa.string(), "STRING"),
        (pa.large_string(), "STRING"),
        (_UTC, "TIMESTAMP(6)"),
    ),
)


def to_sql(node: Node, dialect: Dialect) -> str:
    """The predicate in the words of `dialect`."""

    def sql(part: Node) -> str:
        return to_sql(part, dialect)

    match node:
        case Column(path):
            quote = dialect.quote
            return ".".join(quote + name.replace(quote, quote * 2) + quote for name in path)
        case Constant():
            return _literal(node, dialect)
        case Cast(operand, data_type):
            return f"CAST({sql(operand)} AS {dialect.type_name(data_type)})"
        case Call(function, argument):
            name = dialect.length if function == "length" else function
            return f"{name}({sql(argument)})"
        case Arithmetic(operator, left, right) | Comparison(operator, left, right):
            return f"({sql(left)} {operator} {sql(right)})"
        case Logical(operator, left, right):
            return f"({sql(left)} {operator} {sql(right)})"
        case InList(operand, values, with_null):
            items = [sql(value) for value in values] + ["NULL"] * with_null
            return f"({sql(operand)} IN ({', '.join(items)}))"
        case Between(operand, low, high):
            return f"({sql(operand)} BETWEEN {sql(low)} AND {sql(high)})"
        case Like(operand, pattern):
            return f"({sql(operand)} LIKE {_quoted(pattern)}{dialect.like_suffix})"
        case IsNull(operand):
            return f"({sql(operand)} IS NULL)"
        case Not(operand):
            return f"(NOT {sql(operand)})"


def _literal(node: Constant, dialect: Dialect) -> str:
    match node.value:
        case None:
            return "CAST(NULL AS BOOLEAN)" if pa.types.is_boolean(node.type) else "NULL"
        case bool(value):
            return str(value).upper()
        case float(value):
            return f"CAST({value!r} AS DOUBLE)"
        case int(value):
            return str(value)
        case str(value):
            return _quoted(value)
        case dt.datetime() as value:
            text = value.strftime("%Y-%m-%d %H:%M:%S.%f")
            return f"CAST('{text}{dialect.zone}' AS {dialect.type_name(_UTC)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
