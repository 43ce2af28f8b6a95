"""`where`: one small language for every table format.

A predicate is parsed here, once, into a tree whose columns and types are settled; the formats then
evaluate the tree (`predicate_sql`, `predicate_arrow`). So the same text selects the same rows in
every format, and a mistake is found before a byte is read.

    or          and { OR and }
    and         not { AND not }
    not         NOT not | test
    test        sum [ =|!=|<>|<|<=|>|>= sum | IS [NOT] NULL|TRUE|FALSE
                    | [NOT] IN ( sum, … ) | [NOT] BETWEEN sum AND sum | [NOT] LIKE 'pattern' ]
    sum         product { +|- product }
    product     factor { * factor }
    factor      -factor | ( or ) | lower|upper|length ( sum ) | literal | column
    literal     12 | 1.5e3 | 'text' | TRUE | FALSE | NULL | DATE '…' | TIMESTAMP '…'
    column      name | "any name" | `any name`, with .field for a field of a struct

Names without quotes match whatever their case, unless two columns differ by case only. Nulls follow
SQL's three-valued logic. Numbers of different types are compared as 64-bit integers or as doubles;
NaN equals NaN and is greater than any other number. Times without a zone are UTC. What is left to
the engines: integers that outgrow 64 bits, and the case of letters such as ß that change length.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, TypeAlias

import pyarrow as pa

from datalake.errors import PredicateError, SchemaError, nearest

__all__ = [
    "Arithmetic",
    "Between",
    "Call",
    "Cast",
    "Column",
    "Comparison",
    "Constant",
    "InList",
    "IsNull",
    "Like",
    "Logical",
    "Node",
    "Not",
    "columns_of",
    "kind_of",
    "leaves_of",
    "parse",
]

_BOOLEAN: Final = pa.bool_()

Kind: TypeAlias = Literal["boolean", "number", "string", "time", "null", "other"]
Value: TypeAlias = bool | int | float | str | dt.datetime | None


@dataclass(frozen=True)
class Column:
    """A column, or a field of a struct column: the path of names."""

    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True)
class Constant:
    """A literal. Times are aware, in UTC."""

    value: Value
    type: pa.DataType


@dataclass(frozen=True)
class Cast:
    """An operand brought to the type in which the other side is."""

    operand: Node
    type: pa.DataType


@dataclass(frozen=True)
class Call:
    """`lower`, `upper` or `length` of a string."""

    function: str
    argument: Node
    type: pa.DataType


@dataclass(frozen=True)
class Arithmetic:
    """`left operator right` on int64 or double."""

    operator: str
    left: Node
    right: Node
    type: pa.DataType


@dataclass(frozen=True)
class Comparison:
    """`left operator right`; the operator is one of = != < <= > >=."""

    operator: str
    left: Node
    right: Node
    type: pa.DataType = _BOOLEAN


@dataclass(frozen=True)
class InList:
    """`operand IN (…)`; `with_null` if NULL was among the values."""

    operand: Node
    values: tuple[Constant, ...]
    with_null: bool
    type: pa.DataType = _BOOLEAN


@dataclass(frozen=True)
class Between:
    """`low <= operand AND operand <= high`."""

    operand: Node
    low: Node
    high: Node
    type: pa.DataType = _BOOLEAN


@dataclass(frozen=True)
class Like:
    """`operand LIKE pattern`, with % and _ and the backslash as escape."""

    operand: Node
    pattern: str
    type: pa.DataType = _BOOLEAN


@dataclass(frozen=True)
class IsNull:
    """`operand IS NULL`: never null itself."""

    operand: Node
    type: pa.DataType = _BOOLEAN


@dataclass(frozen=True)
class Not:
    """`NOT operand`."""

    operand: Node
    type: pa.DataType = _BOOLEAN


@dataclass(frozen=True)
class Logical:
    """`left AND right` or `left OR right`."""

    operator: Literal["AND", "OR"]
    left: Node
    right: Node
    type: pa.DataType = _BOOLEAN


Node: TypeAlias = (
    Column
    | Constant
    | Cast
    | Call
    | Arithmetic
    | Comparison
    | InList
    | Between
    | Like
    | IsNull
    | Not
    | Logical
)

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
    | (?P<word>[^\W\d]\w*)
    | (?P<symbol><=|>=|<>|!=|==|[=<>()+\-*.,])
    )""",
    re.VERBOSE,
)
_KEYWORDS: Final = {
    "AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "NULL", "TRUE", "FALSE", "DATE", "TIMESTAMP",
}  # fmt: skip
_FUNCTIONS: Final = {"lower": pa.string(), "upper": pa.string(), "length": pa.int64()}
_UTC_MICROSECONDS: Final = pa.timestamp("us", "UTC")
# Lance's parser refuses what is nested deeper than some 40 parentheses, or never comes back.
_MOST_LEVELS: Final = 20
_LIKE_PATTERN: Final = re.compile(r"(?:[^\\]|\\[%_\\])*", re.DOTALL)


def kind_of(data_type: pa.DataType) -> Kind:
    """What a type may be compared with."""
    if pa.types.is_dictionary(data_type):
        return kind_of(data_type.value_type)
    if pa.types.is_boolean(data_type):
        return "boolean"
    if pa.types.is_integer(data_type) or pa.types.is_floating(data_type):
        return "number"
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type):
        return "string"
    if pa.types.is_timestamp(data_type) or pa.types.is_date(data_type):
        return "time"
    if pa.types.is_null(data_type):
        return "null"
    return "other"


def leaves_of(node: Node) -> Iterator[Column]:
    """The columns of a predicate, as often as they stand in it."""
    if isinstance(node, Column):
        yield node
    for part in _parts_of(node):
        yield from leaves_of(part)


def _parts_of(node: Node) -> tuple[Node, ...]:
    match node:
        case Column() | Constant():
            return ()
        case Cast() | InList() | Like() | IsNull() | Not():
            return (node.operand,)
        case Call():
            return (node.argument,)
        case Between():
            return (node.operand, node.low, node.high)
        case Arithmetic() | Comparison() | Logical():
            return (node.left, node.right)


def _levels(node: Node, known: dict[int, int]) -> int:
    """How deep a predicate is nested. `known` has the answers by id, as parts may be shared."""
    if id(node) not in known:
        known[id(node)] = 1 + max((_levels(part, known) for part in _parts_of(node)), default=0)
    return known[id(node)]


def columns_of(node: Node) -> frozenset[str]:
    """The top-level columns that a predicate reads."""
    return frozenset(leaf.path[0] for leaf in leaves_of(node))


def parse(text: str, schema: pa.Schema) -> Node:
    """The tree of a predicate over the columns of `schema`.

    Raises:
        PredicateError: it does not parse, or compares what cannot be compared.
        SchemaError: it names a column that is not there.
    """
    return _Parser(text, schema).whole()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


class _Parser:
    """Recursive descent, one method a rule of the grammar."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self._tokens = list(self._tokenise())
        self._next = 0

    def whole(self) -> Node:
        try:
            node = self._boolean(self._or())
            levels: float = _levels(node, {})
        except RecursionError:
            levels = math.inf
        if levels > _MOST_LEVELS:
            self._fail(f"{levels} levels", f"expressions nested at most {_MOST_LEVELS} deep")
        if self._peek().kind != "end":
            self._fail(f"{self._peek().text!r} at position {self._peek().start + 1}")
        return node

    # Tokens -------------------------------------------------------------------------------------

    def _tokenise(self) -> Iterator[_Token]:
        text, position = self._text.rstrip(), 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                self._fail(f"{text[position:].lstrip()[:1]!r} at position {position + 1}")
            kind = str(match.lastgroup)
            value, start = match.group(kind), match.start(kind)
            if kind == "word" and value.upper() in _KEYWORDS:
                yield _Token("keyword", value.upper(), start)
            else:
                yield _Token(kind, value, start)
            position = match.end()
        yield _Token("end", "the end", len(text))

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _accept(self, *texts: str) -> str | None:
        token = self._peek()
        if token.kind in {"keyword", "symbol"} and token.text in texts:
            return self._advance().text
        return None

    def _require(self, text: str) -> None:
        if self._accept(text) is None:
            self._fail(f"{self._peek().text!r} at position {self._peek().start + 1}", text)

    def _fail(self, found: str, expected: str = "") -> NoReturn:
        raise PredicateError(
            "The predicate cannot be used",
            where=self._text,
            expected=expected or "a SQL boolean expression such as label = 'spoof'",
            found=found,
            fix="Columns: " + ", ".join(self._schema.names),
        )

    # Rules --------------------------------------------------------------------------------------

    def _or(self) -> Node:
        return self._chain("OR", self._and)

    def _and(self) -> Node:
        return self._chain("AND", self._not)

    def _chain(self, operator: Literal["AND", "OR"], part: Callable[[], Node]) -> Node:
        parts = [part()]
        while self._accept(operator):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        parts = [self._boolean(part) for part in parts]
        while len(parts) > 1:  # As a balanced tree: a thousand terms are ten levels.
            pairs = zip(parts[::2], parts[1::2], strict=False)
            odd = parts[len(parts) & ~1 :]
            parts = [*(Logical(operator, left, right) for left, right in pairs), *odd]
        return parts[0]

    def _not(self) -> Node:
        if self._accept("NOT"):
            return Not(self._boolean(self._not()))
        return self._test()

    def _test(self) -> Node:
        left = self._sum()
        if operator := self._accept("=", "==", "!=", "<>", "<", "<=", ">", ">="):
            operator = {"==": "=", "<>": "!="}.get(operator, operator)
            return Comparison(operator, *self._aligned(left, self._sum()))
        if self._accept("IS"):
            return self._is(left)
        negated = self._accept("NOT") is not None
        if self._accept("IN"):
            node: Node = self._in(left)
        elif self._accept("BETWEEN"):
            low = self._sum()
            self._require("AND")
            high = self._sum()
            lower = Comparison("<=", *self._aligned(low, left))
            upper = Comparison("<=", *self._aligned(left, high))
            node = (
                Between(lower.right, lower.left, upper.right)
                if lower.right == upper.left
                else Logical("AND", lower, upper)
            )
        elif self._accept("LIKE"):
            node = self._like(left)
        elif negated:
            self._fail(f"{self._peek().text!r} after NOT", "IN, BETWEEN or LIKE")
        else:
            return left
        return Not(node) if negated else node

    def _is(self, left: Node) -> Node:
        negated = self._accept("NOT") is not None
        word = self._accept("NULL", "TRUE", "FALSE")
        if word is None:
            self._fail(f"{self._peek().text!r} after IS", "NULL, TRUE or FALSE")
        if word == "NULL":
            node: Node = IsNull(left)
        else:
            left = self._boolean(left)
            holds = left if word == "TRUE" else Not(left)
            node = Logical("AND", Not(IsNull(left)), holds)
        return Not(node) if negated else node

    def _in(self, left: Node) -> Node:
        self._require("(")
        values: list[Node] = [self._sum()]
        while self._accept(","):
            values.append(self._sum())
        self._require(")")
        constants = [value for value in values if isinstance(value, Constant)]
        if len(constants) < len(values):
            self._fail("something else than a literal in the list", "IN ('a', 'b') or IN (1, 2)")
        given = [value for value in constants if value.value is not None]
        if any(isinstance(value.value, float) for value in given):
            given = [
                Constant(float(value.value), pa.float64())
                if isinstance(value.value, int)
                else value
                for value in given
            ]
        aligned = [self._aligned(left, value) for value in given]
        # The widest of the types that single comparisons would use serves them all.
        operand = next((o for o, _ in aligned if isinstance(o, Cast)), left)
        constants = [self._aligned(operand, value)[1] for value in given]  # type: ignore[misc]
        return InList(operand, tuple(constants), with_null=len(given) < len(values))

    def _like(self, left: Node) -> Node:
        pattern = self._factor()
        if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
            self._fail("no string after LIKE", "a pattern such as 'a%'")
        if not _LIKE_PATTERN.fullmatch(pattern.value):
            self._fail(pattern.value, "a pattern in which a backslash stands before %, _ or \\")
        if kind_of(left.type) != "string":
            self._fail(f"{left.type} LIKE", "a string column before LIKE")
        return Like(_plain(left), pattern.value)

    def _sum(self) -> Node:
        node = self._product()
        while operator := self._accept("+", "-"):
            node = self._arithmetic(operator, node, self._product())
        return node

    def _product(self) -> Node:
        node = self._factor()
        while operator := self._accept("*"):
            node = self._arithmetic(operator, node, self._factor())
        return node

    def _factor(self) -> Node:
        if self._accept("-"):
            node = self._factor()
            if isinstance(node, Constant) and isinstance(node.value, int | float):
                return Constant(-node.value, node.type)
            return self._arithmetic("-", Constant(0, pa.int64()), node)
        if self._accept("("):
            node = self._or()
            self._require(")")
            return node
        token = self._advance()
        match token.kind:
            case "number":
                if re.fullmatch(r"\d+", token.text):
                    if int(token.text) >= 2**63:
                        self._fail(token.text, "an integer below 2^63")
                    return Constant(int(token.text), pa.int64())
                return Constant(float(token.text), pa.float64())
            case "string":
                return Constant(token.text[1:-1].replace("''", "'"), pa.string())
            case "keyword" if token.text in {"TRUE", "FALSE"}:
                return Constant(token.text == "TRUE", pa.bool_())
            case "keyword" if token.text == "NULL":
                return Constant(None, pa.null())
            case "keyword" if token.text in {"DATE", "TIMESTAMP"}:
                literal = self._advance()
                if literal.kind != "string":
                    self._fail(f"{literal.text!r} after {token.text}", "a time in quotes")
                return self._time(literal.text[1:-1])
            case "word" if self._peek().text == "(" and self._peek().kind == "symbol":
                return self._call(token)
            case "word" | "quoted":
                return self._column(token)
            case _:
                return self._fail(
                    f"{token.text!r} at position {token.start + 1}", "a column or a literal"
                )

    def _call(self, token: _Token) -> Node:
        function = token.text.lower()
        if function not in _FUNCTIONS:
            self._fail(f"the function {token.text}", "lower, upper or length")
        self._require("(")
        argument = self._sum()
        self._require(")")
        if kind_of(argument.type) != "string":
            self._fail(f"{function}({argument.type})", "a string")
        return Call(function, _plain(argument), _FUNCTIONS[function])

    def _column(self, token: _Token) -> Node:
        path = [self._name(token, self._schema.names)]
        data_type = self._schema.field(path[0]).type
        while self._accept("."):
            if not pa.types.is_struct(data_type):
                self._fail(f"a field of {'.'.join(path)}, which is {data_type}", "a struct")
            names = [data_type.field(i).name for i in range(data_type.num_fields)]
            path.append(self._name(self._advance(), names))
            data_type = data_type.field(path[-1]).type
        return Column(tuple(path), data_type)

    def _name(self, token: _Token, known: list[str]) -> str:
        if token.kind == "quoted":
            quote = token.text[0]
            name = token.text[1:-1].replace(quote * 2, quote)
            candidates = [known_name for known_name in known if known_name == name]
        elif token.kind == "word":
            name = token.text
            exact = [known_name for known_name in known if known_name == name]
            candidates = exact or [n for n in known if n.lower() == name.lower()]
        else:
            self._fail(f"{token.text!r} at position {token.start + 1}", "a name")
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            self._fail(f"{name}, which may be {' or '.join(candidates)}", "a name in double quotes")
        raise SchemaError(
            f"The predicate names a column that is not there: {name}",
            where=self._text,
            fix=nearest(name, known),
        )

    # Types --------------------------------------------------------------------------------------

    def _time(self, text: str) -> Constant:
        try:
            value = dt.datetime.fromisoformat(text.strip())
        except ValueError:
            self._fail(f"{text!r}", "a time such as 2026-01-31 or 2026-01-31 12:00:00")
        if value.tzinfo is None:
            value = value.replace(tzinfo=dt.UTC)
        return Constant(value.astimezone(dt.UTC), _UTC_MICROSECONDS)

    def _boolean(self, node: Node) -> Node:
        if isinstance(node, Constant) and node.value is None:
            return Constant(None, pa.bool_())
        if kind_of(node.type) != "boolean":
            self._fail(f"a {kind_of(node.type)} where true or false should be")
        return _plain(node)

    def _arithmetic(self, operator: str, left: Node, right: Node) -> Node:
        for side in (left, right):
            if kind_of(side.type) not in {"number", "null"}:
                self._fail(f"{left.type} {operator} {right.type}", "numbers")
        floating = any(pa.types.is_floating(side.type) for side in (left, right))
        common = pa.float64() if floating else pa.int64()
        return Arithmetic(operator, _as(left, common), _as(right, common), common)

    def _aligned(self, left: Node, right: Node) -> tuple[Node, Node]:
        """Both sides in one type in which they can be compared."""
        left, right = _plain(left), _plain(right)
        kinds = kind_of(left.type), kind_of(right.type)
        if kinds == ("null", "null"):
            return Constant(None, _BOOLEAN), Constant(None, _BOOLEAN)
        if kinds[0] == "null" and kinds[1] != "other":
            return Constant(None, right.type), right
        if kinds[1] == "null" and kinds[0] != "other":
            return left, Constant(None, left.type)
        if kinds == ("time", "string") and isinstance(right, Constant):
            return self._aligned(left, self._time(str(right.value)))
        if kinds == ("string", "time") and isinstance(left, Constant):
            return self._aligned(self._time(str(left.value)), right)
        if kinds[0] != kinds[1] or kinds[0] == "other":
            self._fail(f"a comparison of {left.type} with {right.type}", "two sides of one kind")
        if kinds[0] == "number":
            common = _common_number(left, right)
            return _as(left, common), _as(right, common)
        if kinds[0] == "time":
            return _as(left, _UTC_MICROSECONDS), _as(right, _UTC_MICROSECONDS)
        return left, right


def _plain(node: Node) -> Node:
    """The node without dictionary encoding."""
    return _as(node, node.type.value_type) if pa.types.is_dictionary(node.type) else node


def _as(node: Node, data_type: pa.DataType) -> Node:
    if node.type == data_type:
        return node
    if isinstance(node, Constant):
        value = node.value
        if pa.types.is_floating(data_type) and isinstance(value, int):
            value = float(value)
        return Constant(value, data_type)
    return Cast(node, data_type)


def _is_int(node: Node) -> bool:
    return isinstance(node, Constant) and pa.types.is_integer(node.type)


def _common_number(left: Node, right: Node) -> pa.DataType:
    """One type for both sides; a column keeps its type where the literal fits into it."""
    for column, other in ((left, right), (right, left)):
        if _is_int(other) and pa.types.is_integer(column.type) and isinstance(other, Constant):
            width = column.type.bit_width
            signed = pa.types.is_signed_integer(column.type)
            low, high = (-(2 ** (width - 1)), 2 ** (width - 1)) if signed else (0, 2**width)
            if isinstance(other.value, int) and low <= other.value < high:
                return column.type
    if left.type == right.type and not pa.types.is_float16(left.type):
        return left.type
    floating = any(pa.types.is_floating(side.type) for side in (left, right))
    return pa.float64() if floating or _is_uint64(left) or _is_uint64(right) else pa.int64()


def _is_uint64(node: Node) -> bool:
    return bool(pa.types.is_uint64(node.type))
