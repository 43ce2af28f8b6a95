"""The best rows first, by a column or by an expression over columns."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from curation.selection.orders.order import OrderOptions
from datalake.errors import InputError, PredicateError, SchemaError
from datalake.tables.predicate import IsNull, Node, columns_of, kind_of, parse
from datalake.tables.predicate_arrow import to_arrow

__all__ = ["QUALITY"]


class QualityOrder:
    """Quality rank (an extension of DOSS, OURS). A `RowOrder`."""

    uses = frozenset({"quality", "lowest_first"})

    def reads(self, schema: pa.Schema, options: OrderOptions) -> tuple[str, ...]:
        """The columns of the expression."""
        return tuple(sorted(columns_of(_expression(schema, options))))

    def keys(self, rows: pa.RecordBatch, options: OrderOptions) -> pa.Array:
        """The quality, its sign turned where the highest come first."""
        value = to_arrow(_expression(rows.schema, options)).cast(pa.float64(), safe=False)
        found = ds.dataset(pa.Table.from_batches([rows])).to_table({"key": value})
        keys = found["key"].combine_chunks()
        return keys if options.lowest_first else pc.negate(keys)


def _expression(schema: pa.Schema, options: OrderOptions) -> Node:
    if not options.quality:
        raise InputError(
            "The order quality needs what to rank by",
            expected="a column or an expression (--quality), such as snr_db",
        )
    try:
        # The language has predicates only: the expression is taken from one.
        node = parse(f"({options.quality}) IS NULL", schema)
    except SchemaError as error:
        raise SchemaError(
            "The quality reads a column that is not there",
            where=options.quality,
            found=error.found,
            fix=f"`curate measure TABLE` adds columns such as snr_db. {error.fix}",
        ) from error
    except PredicateError as error:
        raise _refused(options.quality, error.found, error.fix) from error
    if not isinstance(node, IsNull) or kind_of(node.operand.type) != "number":
        raise _refused(options.quality, "no number", "Columns: " + ", ".join(schema.names))
    return node.operand


def _refused(quality: str, found: str, fix: str) -> InputError:
    return InputError(
        "The quality cannot be ranked by",
        where=quality,
        expected="a column of numbers, or an expression such as snr_db - 20 * clipping_share",
        found=found,
        fix=fix,
    )


QUALITY: Final = QualityOrder()
