"""Select: which rows of a table to train on.

A `Selector` turns the number of rows of each domain into the number to keep; that is all a plug-in
writes (entry point group `datalake.selectors`). Which rows those are is the same for every
selector: the first of each domain in an order that only the seed and the row's id decide.
"""

from curation.selection.options import REAL_MODES, Options, RealMode
from curation.selection.order import place
from curation.selection.run import select
from curation.selection.selectors import DOSS, NAIVE, RANDOM, Pool, Selector
from curation.selection.water_fill import water_fill

__all__ = [
    "DOSS",
    "NAIVE",
    "RANDOM",
    "REAL_MODES",
    "Options",
    "Pool",
    "RealMode",
    "Selector",
    "place",
    "select",
    "water_fill",
]
