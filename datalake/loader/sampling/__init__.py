"""Which example of which source stands at a position.

sampler     the protocol
spec        what a user gives, before it has an order
rows        one source: all rows, or a selection's
weighted    one source whose domains come at given rates
mixture     several sources at given rates
strides     streams merged in exact proportions
choice      from whatever a user gives to a sampler
realised    the mix that a stream really gave
origin      whether a selection belongs to a table
"""

from datalake.loader.sampling.choice import sampler_of, without_weights
from datalake.loader.sampling.mixture import Mixture
from datalake.loader.sampling.realised import Realised
from datalake.loader.sampling.rows import RowSampler, Selected, Whole
from datalake.loader.sampling.sampler import Picks, Sampler
from datalake.loader.sampling.spec import Data, Spec, WorkingSet
from datalake.loader.sampling.weighted import Weighted

__all__ = [
    "Data",
    "Mixture",
    "Picks",
    "Realised",
    "RowSampler",
    "Sampler",
    "Selected",
    "Spec",
    "Weighted",
    "Whole",
    "WorkingSet",
    "sampler_of",
    "without_weights",
]
