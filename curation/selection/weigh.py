"""Weigh: how often each row of a table is drawn."""

from __future__ import annotations

import hashlib
import logging
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from curation.manifest import remarks
from curation.selection.asked import method_of, options_used
from curation.selection.census import Census, manifest_of, refuse_nameless
from curation.selection.key_scan import KeyScan
from curation.selection.options import WeightOptions
from curation.selection.repeats import limit_repeats
from curation.selection.selectors import Pool
from curation.selection.weighters import Weighter
from curation.selection.within import within_which
from datalake.errors import InputError
from datalake.lake import SELECTION_ROWS, Selection
from datalake.tables import Table

__all__ = ["weigh"]

log = logging.getLogger(__name__)


def weigh(
    table: Table,
    *,
    table_name: str,
    method: str = "doss",
    cap: int | None = None,
    alpha: float | None = None,
    ratio: float = 1.0,
    beta: float = WeightOptions.beta,
    losses: Path | None = None,
    step_size: float = WeightOptions.step_size,
    smoothing: float = WeightOptions.smoothing,
    max_repeat: float | None = None,
    seed: int = 0,
    where: str | None = None,
    within: Selection | None = None,
    name: str = "",
) -> Selection:
    """Keep every row of a table and say how often each is drawn.

    A row's weight is the number of draws that it can expect in an epoch of as many draws as there
    are rows: their mean is 1. `datalake.loader.Weighted` streams at these rates; a loss may be
    weighted by them instead. Memory grows with the rows: about 400 bytes each.

    Args:
        table: the version to weigh.
        table_name: its name in the lake.
        method: `doss`, `temperature`, `class_balanced`, `uniform`, `natural`, `doremi`, or a
            plug-in's name.
        cap: N_c, the rows that a domain counts for at most.
        alpha: exponent of a domain's size, from 0 to 1.
        ratio: rho, bona fide draws for each spoof draw.
        beta: b of class-balanced weights.
        losses: for `doremi`: what a proxy lost on each domain, a .parquet or .csv file
            (`curation.selection.domain_losses`).
        step_size: eta of `doremi`.
        smoothing: c of `doremi`.
        max_repeat: most draws of one row expected in an epoch, 1 or more; what that cuts goes to
            the other domains. None for no limit.
        seed: seed of the ranks within domains.
        where: consider only rows for which this SQL expression holds.
        within: consider only rows of this selection, by their ids: what a deduplication kept, say.
        name: the selection's name.

    Raises:
        InputError: an option cannot be used, or rows have no domain or id.
        NotFoundError: there is no such method.
        SchemaError: the table lacks a key column.
        PredicateError: `where` cannot be evaluated.
        StoreError: the table cannot be read.
    """
    options = WeightOptions(
        cap=cap,
        alpha=alpha,
        ratio=ratio,
        beta=beta,
        losses=None if losses is None else str(losses),
        step_size=step_size,
        smoothing=smoothing,
    )
    if max_repeat is not None and not max_repeat >= 1:
        raise InputError(
            "The repeat limit is out of range",
            expected="1 or more: an epoch has as many draws as there are rows",
            found=str(max_repeat),
        )
    weighter = method_of(
        "datalake.weighters",
        method,
        Weighter,  # type: ignore[type-abstract]
        "an object with `uses` and `masses` (curation.selection.Weighter)",
    )
    used = options_used(method, weighter, options)
    with KeyScan(table, where, None if within is None else within.rows["utt_id"]) as keys:
        census = Census.take(keys, table, where, name=table_name)
        sizes = census.sizes
        wanted = weighter.masses(sizes, options)
        masses = wanted if max_repeat is None else limit_repeats(wanted, sizes, max_repeat)
        every = [Pool((domain,), size) for domain, size in sizes.items()]
        rows, kept = keys.first(every, census.groups, seed)
    refuse_nameless(rows, where=table_name or table.uri)
    num_rows = sum(sizes.values())
    weights = {domain.name: masses[domain] * num_rows / size for domain, size in sizes.items()}
    binding = {
        domain
        for domain, size in sizes.items()
        if (cap is not None and size > cap)
        or not math.isclose(masses[domain], wanted[domain], rel_tol=1e-9)
    }
    manifest = manifest_of(census.available, kept, masses, binding)
    if losses is not None:
        # A path says nothing of what was in the file.
        used["losses_sha256"] = hashlib.sha256(losses.read_bytes()).hexdigest()
    parameters = {**used, "max_repeat": max_repeat, "seed": seed, "where": where}
    if within is not None:
        parameters |= within_which(within)
    for remark in remarks(manifest, parameters):
        log.warning(remark)
    return Selection(
        name=name,
        table=table_name,
        table_version=table.version,
        rows=_weighted(rows, weights).cast(SELECTION_ROWS),
        manifest=manifest,
        method=f"weigh:{method}",
        parameters=parameters,
    )


def _weighted(rows: pa.Table, weights: dict[str, float]) -> pa.Table:
    names = pa.array(weights.keys(), pa.string())
    values = pa.array(weights.values(), pa.float64())
    places = pc.index_in(rows["domain"], value_set=names)
    return rows.set_column(rows.schema.get_field_index("weight"), "weight", values.take(places))
