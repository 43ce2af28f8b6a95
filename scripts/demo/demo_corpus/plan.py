"""Which domains the demo has, and how large: two of them dwarf the rest, as in public corpora."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from demo_corpus.channel import Samples
from demo_corpus.debian import Package, PackageFolder
from demo_corpus.prompts import Prompt
from demo_corpus.recordings import SOURCES
from demo_corpus.speech import FLITE_PACKAGES, Espeak, Flite, Hibari, OpenJtalk, Piper
from demo_corpus.vocoders import CODEC2_PACKAGES, Codec2, GriffinLim, LpcVocoder, World

__all__ = ["CORPUS", "GENERATORS", "HELD_OUT", "PACKAGES", "Generator", "Plan"]


class Generator(Protocol):
    """Makes spoofs."""

    def make(self, prompt: Prompt) -> tuple[Samples, int]:
        """Samples (num_samples,) of about full scale 1 at most, and their rate in Hz."""
        ...


GENERATORS: Final[dict[str, Callable[[PackageFolder], Generator]]] = {
    "espeak_ng": lambda _: Espeak(),
    "flite_diphone": lambda packages: Flite(packages, "kal"),
    "flite_clustergen": lambda packages: Flite(packages, "slt", "rms", "awb"),
    "open_jtalk": lambda _: OpenJtalk(),
    "piper_vits": lambda _: Piper(),
    "hibari": lambda _: Hibari(),
    "griffin_lim": lambda _: GriffinLim(),
    "lpc_vocoder": lambda _: LpcVocoder(),
    "world": lambda _: World(),
    "codec2": Codec2,
}
"""How to make each generator."""


@dataclass(frozen=True)
class Plan:
    """One corpus: how many recordings of each source, how many spoofs of each domain."""

    name: str
    bonafide: dict[str, int]
    """Most recordings, by source."""
    spoof: dict[tuple[str, str], int]
    """Utterances, by (source, generator)."""


CORPUS: Final = Plan(
    "corpus",
    bonafide={"asterisk-en": 500, "asterisk-es": 500, "asterisk-fr": 500, "fillets-nl": 1400},
    spoof={
        ("fillets-nl", "espeak_ng"): 1200,
        ("asterisk-en", "espeak_ng"): 500,
        ("asterisk-en", "flite_diphone"): 120,
        ("asterisk-fr", "codec2"): 60,
        ("asterisk-es", "codec2"): 40,
        ("asterisk-fr", "lpc_vocoder"): 60,
        ("fillets-nl", "lpc_vocoder"): 40,
        ("fillets-nl", "griffin_lim"): 40,
        ("asterisk-es", "griffin_lim"): 40,
        ("asterisk-en", "piper_vits"): 40,
        ("fillets-nl", "piper_vits"): 25,
        ("asterisk-es", "espeak_ng"): 30,
        ("asterisk-fr", "flite_diphone"): 25,
        ("fillets-nl", "open_jtalk"): 25,
    },
)
"""What is trained on."""

HELD_OUT: Final = Plan(
    "heldout",
    bonafide={"asterisk-it": 250, "asterisk-ru": 250, "fillets-cs": 400},
    spoof={
        ("asterisk-it", "hibari"): 100,
        ("fillets-cs", "hibari"): 100,
        ("asterisk-it", "flite_clustergen"): 80,
        ("fillets-cs", "flite_clustergen"): 80,
        ("asterisk-it", "world"): 80,
        ("asterisk-ru", "world"): 80,
        ("fillets-cs", "world"): 80,
    },
)
"""What is tested on: other generators, other speakers, other sources."""

PACKAGES: Final[tuple[Package, ...]] = (
    *(SOURCES[name].package for plan in (CORPUS, HELD_OUT) for name in plan.bonafide),
    *FLITE_PACKAGES,
    *CODEC2_PACKAGES,
)
"""The Debian packages needed, 190 MB together."""
