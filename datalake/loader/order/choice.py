"""Orders by their names."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from datalake.errors import InputError, nearest
from datalake.loader.order.blocks import Blocks
from datalake.loader.order.exact import Exact
from datalake.loader.order.order import Order
from datalake.loader.order.sequential import Sequential

__all__ = ["ORDERS", "OrderName", "order_of"]

OrderName: TypeAlias = Literal["exact", "blocks", "sequential"]

ORDERS: Final[tuple[OrderName, ...]] = get_args(OrderName)


def order_of(
    name: OrderName,
    num_examples: int,
    *,
    block_size: int = 1,
    blocks_at_once: int = 1,
    seed: int,
    epoch: int,
) -> Order:
    """The order of one epoch.

    Args:
        name: `exact`: uniform over the whole epoch; `blocks`: in a bounded working set;
            `sequential`: as the rows stand.
        num_examples: examples an epoch.
        block_size, blocks_at_once: of `blocks`.
        seed, epoch: of the shuffle.

    Raises:
        InputError: there is no such order.
    """
    if name == "exact":
        return Exact(num_examples, seed, epoch)
    if name == "blocks":
        return Blocks(num_examples, block_size, blocks_at_once, seed, epoch)
    if name == "sequential":
        return Sequential(num_examples)
    raise InputError(f"There is no order {name!r}", fix=nearest(name, ORDERS))
