"""Select and weigh: which rows of a table to train on, and how often.

A `Selector` turns the number of rows of each domain into the number to keep; that is all a plug-in
writes (entry point group `datalake.selectors`). Which rows those are is the same for every
selector: the first of each domain in an `Order` (group `datalake.orders`), by default one that only
the seed and the row's id decide. A `Weighter` (group `datalake.weighters`) turns the same numbers
into the share of draws of each domain.
"""

from curation.order import place
from curation.selection.budgets import UNITS, Budget, Unit
from curation.selection.options import REAL_MODES, Options, RealMode, WeightOptions
from curation.selection.orders import (
    DENSITY,
    FACILITY_LOCATION,
    HASH,
    K_CENTER,
    QUALITY,
    SPEAKER,
    DomainOrder,
    Order,
    OrderOptions,
    PoolRows,
    Ranked,
    RowOrder,
)
from curation.selection.run import select
from curation.selection.selectors import DOSS, NAIVE, RANDOM, Pool, Selector
from curation.selection.water_fill import water_fill
from curation.selection.weigh import weigh
from curation.selection.weighters import (
    CLASS_BALANCED,
    DOREMI,
    DOSS_WEIGHT,
    NATURAL,
    TEMPERATURE,
    UNIFORM,
    Weighter,
)

__all__ = [
    "CLASS_BALANCED",
    "DENSITY",
    "DOREMI",
    "DOSS",
    "DOSS_WEIGHT",
    "FACILITY_LOCATION",
    "HASH",
    "K_CENTER",
    "NAIVE",
    "NATURAL",
    "QUALITY",
    "RANDOM",
    "REAL_MODES",
    "SPEAKER",
    "TEMPERATURE",
    "UNIFORM",
    "UNITS",
    "Budget",
    "DomainOrder",
    "Options",
    "Order",
    "OrderOptions",
    "Pool",
    "PoolRows",
    "Ranked",
    "RealMode",
    "RowOrder",
    "Selector",
    "Unit",
    "WeightOptions",
    "Weighter",
    "place",
    "select",
    "water_fill",
    "weigh",
]
