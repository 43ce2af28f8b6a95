"""Select and weigh: which rows of a table to train on, and how often.

A `Selector` turns the number of rows of each domain into the number to keep; that is all a plug-in
writes (entry point group `datalake.selectors`). Which rows those are is the same for every
selector: the first of each domain in an order that only the seed and the row's id decide. A
`Weighter` (group `datalake.weighters`) turns the same numbers into the share of draws of each
domain.
"""

from curation.order import place
from curation.selection.budgets import UNITS, Budget, Unit
from curation.selection.options import REAL_MODES, Options, RealMode, WeightOptions
from curation.selection.run import select
from curation.selection.selectors import DOSS, NAIVE, RANDOM, Pool, Selector
from curation.selection.water_fill import water_fill
from curation.selection.weigh import weigh
from curation.selection.weighters import (
    CLASS_BALANCED,
    DOSS_WEIGHT,
    NATURAL,
    TEMPERATURE,
    UNIFORM,
    Weighter,
)

__all__ = [
    "CLASS_BALANCED",
    "DOSS",
    "DOSS_WEIGHT",
    "NAIVE",
    "NATURAL",
    "RANDOM",
    "REAL_MODES",
    "TEMPERATURE",
    "UNIFORM",
    "UNITS",
    "Budget",
    "Options",
    "Pool",
    "RealMode",
    "Selector",
    "Unit",
    "WeightOptions",
    "Weighter",
    "place",
    "select",
    "water_fill",
    "weigh",
]
