"""Which example stands at which position of an epoch: pure functions.

order        the protocol
exact        a uniform shuffle of the whole epoch
blocks       a shuffle that works in a few blocks at a time
sequential   as the rows stand
choice       orders by name
quality      how good a shuffle is, measured and predicted
hashing      stateless randomness
feistel      many small permutations at once
memo         the last chunks of positions
"""

from datalake.loader.order.blocks import Blocks
from datalake.loader.order.choice import ORDERS, OrderName, order_of
from datalake.loader.order.exact import Exact
from datalake.loader.order.order import Indices, Order
from datalake.loader.order.sequential import Sequential

__all__ = [
    "ORDERS",
    "Blocks",
    "Exact",
    "Indices",
    "Order",
    "OrderName",
    "Sequential",
    "order_of",
]
