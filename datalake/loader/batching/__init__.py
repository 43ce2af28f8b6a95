"""Positions of an epoch to the steps of ranks. Pure: no source is read but for what examples cost.

batching   the contract: `Batching`, `Share`, `Place`
fixed      `Fixed`: a count of examples
by_cost    `ByCost`: length buckets below a limit of seconds, frames, tokens
packed     `Packed`: packed sequences
cutter     the contract of what cuts a window of positions into groups
buckets, sequences   the two cutters
plan       a window, cut up and shared out to the steps of all ranks
windows    window after window, from any place on
taken      what is left of a window that others began
costs      what examples cost, whichever sources they are of
checks     of fields
"""

from datalake.loader.batching.batching import Batching, Place, Share, Tail
from datalake.loader.batching.by_cost import ByCost
from datalake.loader.batching.fixed import Fixed
from datalake.loader.batching.packed import Packed

__all__ = ["Batching", "ByCost", "Fixed", "Packed", "Place", "Share", "Tail"]
