"""Which generated domains surround the real pool. Two of them hold most of the spoofs.

Fixed before any result was seen. The human speech and the generators are those of the demo.
"""

from __future__ import annotations

from typing import Final

from demo_corpus.debian import Package
from demo_corpus.plan import Plan
from demo_corpus.recordings import SOURCES
from demo_corpus.speech import FLITE_PACKAGES
from demo_corpus.vocoders import CODEC2_PACKAGES

__all__ = ["GENERATED", "PACKAGES", "PIECE_S", "POOL_VOCODED", "VOCODERS"]

GENERATED: Final = Plan(
    "corpus",
    bonafide={
        "asterisk-en": 300,
        "asterisk-es": 300,
        "asterisk-fr": 300,
        "asterisk-it": 250,
        "asterisk-ru": 250,
        "fillets-nl": 500,
        "fillets-cs": 400,
    },
    spoof={
        ("fillets-nl", "espeak_ng"): 900,
        ("asterisk-en", "espeak_ng"): 500,
        ("asterisk-en", "flite_diphone"): 100,
        ("asterisk-en", "piper_vits"): 30,
        ("asterisk-es", "codec2"): 40,
        ("asterisk-es", "griffin_lim"): 40,
        ("asterisk-es", "espeak_ng"): 30,
        ("asterisk-fr", "codec2"): 60,
        ("asterisk-fr", "lpc_vocoder"): 60,
        ("asterisk-fr", "flite_diphone"): 25,
        ("asterisk-it", "hibari"): 40,
        ("asterisk-it", "flite_clustergen"): 40,
        ("asterisk-it", "world"): 30,
        ("asterisk-ru", "world"): 40,
        ("asterisk-ru", "griffin_lim"): 30,
        ("fillets-nl", "lpc_vocoder"): 40,
        ("fillets-nl", "griffin_lim"): 40,
        ("fillets-nl", "open_jtalk"): 40,
        ("fillets-nl", "piper_vits"): 25,
        ("fillets-cs", "hibari"): 60,
        ("fillets-cs", "flite_clustergen"): 40,
        ("fillets-cs", "world"): 40,
        ("fillets-cs", "lpc_vocoder"): 30,
    },
)
"""Recordings and spoofs by source and (source, generator)."""

PIECE_S: Final = 4.0
"""The pool's long bona fide clips are cut into pieces of this length."""

POOL_VOCODED: Final = {"griffin_lim": 60, "lpc_vocoder": 60, "world": 60}
"""Pieces of LibriSpeech clips that are vocoded, by generator: the source has no spoofs else."""

VOCODERS: Final = frozenset({"codec2", "griffin_lim", "lpc_vocoder", "world"})
"""Generators that keep the speaker of the recording they take apart."""

PACKAGES: Final[tuple[Package, ...]] = (
    *(SOURCES[name].package for name in GENERATED.bonafide),
    *FLITE_PACKAGES,
    *CODEC2_PACKAGES,
)
"""The Debian packages needed."""
