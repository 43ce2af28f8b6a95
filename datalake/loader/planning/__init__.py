"""What a run will be like, before it is started: speed, bytes, requests, cache, shuffle.

columns      what is read of which table, and how
reading      what an epoch takes from the store, by order and cache
retention    how many blocks a cache keeps from one epoch to the next
calibration  what an example costs on this machine
plan         `plan`, which puts it together, and `Plan`

The formulas and their limits stand in `docs/planning.md`. No torch.
"""

from __future__ import annotations

from datalake.loader.planning.calibration import Costs, calibrate
from datalake.loader.planning.plan import Epoch, Plan, Setting, plan

__all__ = ["Costs", "Epoch", "Plan", "Setting", "calibrate", "plan"]
