"""The front end of the default detector. Embeddings use it too, so it stands with them."""

from __future__ import annotations

from curation.embed.lfcc import Lfcc, LfccSettings

__all__ = ["Lfcc", "LfccSettings"]
