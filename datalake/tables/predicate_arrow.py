"""A predicate as an Arrow expression, which Parquet readers also use to skip row groups."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

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
    leaves_of,
)

__all__ = ["skipping", "to_arrow"]


def to_arrow(node: Node) -> pc.Expression:
    """The predicate as an expression over the columns' Arrow types."""
    match node:
        case Column(path):
            return pc.field(*path) if len(path) == 1 else pc.field(tuple(path))
        case Constant(value, data_type):
            return pc.scalar(pa.scalar(value, data_type))
        case Cast(operand, data_type):
            return to_arrow(operand).cast(data_type, safe=False)
        case Call(function, argument):
            functions = {"lower": pc.utf8_lower, "upper": pc.utf8_upper, "length": pc.utf8_length}
            return functions[function](to_arrow(argument))
        case Arithmetic(operator, left, right):
            functions = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
            return functions[operator](to_arrow(left), to_arrow(right))
        case Comparison(operator, left, right):
            return _compare(operator, left, right)
        case Between(operand, low, high):
            return _compare("<=", low, operand) & _compare("<=", operand, high)
        case InList(operand, values, with_null):
            return _is_in(operand, values, with_null)
        case Like(operand, pattern):
            return pc.match_like(to_arrow(operand), pattern)
        case IsNull(operand):
            return to_arrow(operand).is_null()
        case Not(operand):
            return ~to_arrow(operand)
        case Logical("AND", left, right):
            return to_arrow(left) & to_arrow(right)
        case Logical(_, left, right):
            return to_arrow(left) | to_arrow(right)


def skipping(node: Node) -> pc.Expression:
    """What must hold in a row group for it to be read: the conjuncts that statistics may judge.

    Parquet's least and greatest values leave NaN out, so a conjunct over floating-point columns
    may hold in a row group whose statistics say that it cannot.
    """
    if isinstance(node, Logical) and node.operator == "AND":
        return skipping(node.left) & skipping(node.right)
    return pc.scalar(True) if _is_floating(node) else to_arrow(node)


def _is_floating(node: Node) -> bool:
    return any(pa.types.is_floating(leaf.type) for leaf in leaves_of(node))


def _compare(operator: str, left: Node, right: Node) -> pc.Expression:
    a, b = to_arrow(left), to_arrow(right)
    if not pa.types.is_floating(left.type):
        return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[
            operator
        ]
    # Arrow follows IEEE 754, where NaN compares with nothing; SQL engines sort it last.
    nan_a, nan_b = _is_nan(left, a), _is_nan(right, b)
    equal = (a == b) | (nan_a & nan_b)
    match operator:
        case "=":
            return equal
        case "!=":
            return ~equal
        case "<":
            return (a < b) | (~nan_a & nan_b)
        case "<=":
            return (a <= b) | nan_b
        case ">":
            return (a > b) | (nan_a & ~nan_b)
        case _:
            return (a >= b) | nan_a


def _is_nan(node: Node, expression: pc.Expression) -> pc.Expression:
    """Whether a side is NaN; a constant's answer is folded, so that row groups can be skipped."""
    if isinstance(node, Constant) and node.value is not None:
        return pc.scalar(node.value != node.value)
    return pc.is_nan(expression)


def _is_in(operand: Node, values: tuple[Constant, ...], with_null: bool) -> pc.Expression:
    expression = to_arrow(operand)
    unknown = pc.scalar(pa.scalar(None, pa.bool_()))
    found = pc.is_in(
        expression, value_set=pa.array([value.value for value in values], type=operand.type)
    )
    if with_null:
        found = found | unknown
    # Arrow answers false for a null operand, where SQL does not know.
    return pc.if_else(expression.is_null(), unknown, found)
