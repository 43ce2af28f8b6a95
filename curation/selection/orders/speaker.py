"""Speakers by turns: one row of each, then a second of each."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from curation.selection.orders.order import OrderOptions, PoolRows, Ranked
from datalake.errors import SchemaError, nearest

__all__ = ["SPEAKER"]


class SpeakerOrder:
    """Speaker-balanced (an extension of DOSS, OURS). A `DomainOrder`, nested.

    Within a speaker and within a turn rows come by the hash: no speaker of a domain has more than
    one row more than another that has rows left. Memory: 40 bytes a row of a domain.
    """

    uses = frozenset({"speaker"})

    def reads(self, schema: pa.Schema, options: OrderOptions) -> tuple[str, ...]:
        """The column that says who speaks."""
        if options.speaker not in schema.names:
            raise SchemaError(
                f"The order speaker needs a column that says who speaks: {options.speaker}",
                fix="Name another one (--speaker-column), or ingest from a manifest that has it. "
                + nearest(options.speaker, schema.names),
            )
        kind = schema.field(options.speaker).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind):
            raise SchemaError(
                f"The column {options.speaker} does not say who speaks",
                expected="a name or a number a row",
                found=str(kind),
                fix="Name another column (--speaker-column)",
            )
        return (options.speaker,)

    def first(self, rows: PoolRows, keep: int, options: OrderOptions) -> Ranked:
        """See `DomainOrder.first`."""
        speakers = np.asarray(rows.columns[options.speaker])
        by_speaker = np.argsort(speakers, kind="stable")
        ordered = speakers[by_speaker]
        turns = np.empty(len(speakers), np.int64)
        turns[by_speaker] = np.arange(len(speakers)) - np.searchsorted(ordered, ordered)
        return Ranked(np.argsort(turns, kind="stable")[:keep])


SPEAKER: Final = SpeakerOrder()
