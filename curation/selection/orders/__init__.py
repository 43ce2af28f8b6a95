"""Orders: which rows of a domain a cap keeps (entry point group `datalake.orders`).

`hash` is a random sample; the others are extensions of DOSS: `quality`, `speaker`, `density`,
`k_center` and `facility_location`.
"""

from curation.selection.orders.by_hash import HASH
from curation.selection.orders.density import DENSITY, density
from curation.selection.orders.facility_location import (
    FACILITY_LOCATION,
    facility_location,
    facility_value,
)
from curation.selection.orders.k_center import K_CENTER, k_center
from curation.selection.orders.order import (
    ORDERS,
    AnyOrder,
    DomainOrder,
    Order,
    OrderOptions,
    PoolRows,
    Ranked,
    RowOrder,
)
from curation.selection.orders.quality import QUALITY
from curation.selection.orders.speaker import SPEAKER

__all__ = [
    "DENSITY",
    "FACILITY_LOCATION",
    "HASH",
    "K_CENTER",
    "ORDERS",
    "QUALITY",
    "SPEAKER",
    "AnyOrder",
    "DomainOrder",
    "Order",
    "OrderOptions",
    "PoolRows",
    "Ranked",
    "RowOrder",
    "density",
    "facility_location",
    "facility_value",
    "k_center",
]
