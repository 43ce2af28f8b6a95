"""Latent-space refinement: one prototype of bona fide speech, several of spoofs.

After Huang et al., "Generalizable audio deepfake detection via latent space refinement and
augmentation" (arXiv 2501.14240). We know the method from its abstract and from summaries, not from
its equations: several learned prototypes for the spoofs and one for bona fide speech, a class's
similarity being the largest cosine, a loss with an additive angular margin, and terms that keep
prototypes apart within and between the classes. The formulas and numbers below are our reading.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from curation.probe.latent_network import LatentNetwork
from datalake.errors import InputError

__all__ = ["PrototypeNetwork", "Prototypes"]


class Prototypes(nn.Module):
    """Directions of the latent space, one for bona fide speech and `num_spoof` for spoofs.

    s_b is the cosine of a vector to the bona fide prototype, s_s the largest to a spoof prototype.

    - Score: scale * (s_b - s_s), the logit of a softmax over the two.
    - Loss of a row: log(1 + exp(-scale * (cos(acos(s_own) + margin) - s_other))).
    - Apart: the mean over pairs of spoof prototypes of max(0, cosine), and the mean of the same
      between the bona fide and the spoof prototypes; both are added to the loss.
    """

    def __init__(
        self, latent_size: int, num_spoof: int, *, scale: float = 16.0, margin: float = 0.2
    ) -> None:
        super().__init__()
        self.bonafide = nn.Parameter(torch.randn(1, latent_size))
        self.spoof = nn.Parameter(torch.randn(num_spoof, latent_size))
        self.scale = scale
        self.margin = margin

    def forward(self, latents: Tensor) -> Tensor:
        """Scores (batch,) of vectors (batch, latent_size)."""
        bonafide, spoof = self._similarities(latents)
        return self.scale * (bonafide - spoof)

    def losses(self, latents: Tensor, labels: Tensor) -> Tensor:
        """The loss of each row (batch,), prototypes' own terms left out; labels: 1 bona fide."""
        bonafide, spoof = self._similarities(latents)
        is_bonafide = labels > 0.5
        own = torch.where(is_bonafide, bonafide, spoof)
        other = torch.where(is_bonafide, spoof, bonafide)
        # The square root's gradient is infinite at 1.
        angle = torch.acos(own.clamp(-1 + 1e-6, 1 - 1e-6))
        return softplus(-self.scale * (torch.cos(angle + self.margin) - other))

    def crowding(self) -> Tensor:
        """How near prototypes stand to each other, within spoofs and between the labels: ()."""
        spoof, bonafide = normalize(self.spoof), normalize(self.bonafide)
        between = (spoof @ bonafide.T).relu().mean()
        if len(spoof) == 1:
            return between
        first, second = torch.triu_indices(len(spoof), len(spoof), offset=1)
        within = (spoof[first] * spoof[second]).sum(1).relu().mean()
        return within + between

    def _similarities(self, latents: Tensor) -> tuple[Tensor, Tensor]:
        directions = normalize(latents)
        bonafide = (directions @ normalize(self.bonafide).T).squeeze(1)
        spoof = (directions @ normalize(self.spoof).T).amax(1)
        return bonafide, spoof


class PrototypeNetwork(LatentNetwork):
    """A network whose classifier is replaced by prototypes."""

    def __init__(self, body: nn.Module, num_spoof: int) -> None:
        """Raises `InputError` for a network that has no latent vectors."""
        super().__init__()
        if not isinstance(body, LatentNetwork):
            raise InputError(
                "Prototypes need a network with latent vectors",
                expected="a curation.probe.LatentNetwork",
                found=type(body).__name__,
            )
        self.latent_size = body.latent_size
        self.body = body
        self.prototypes = Prototypes(body.latent_size, num_spoof)

    def embed(self, features: Tensor) -> Tensor:
        """Latent vectors of the network's body."""
        return self.body.embed(features)

    def classify(self, latents: Tensor) -> Tensor:
        """Scores (batch,) of latent vectors."""
        scores: Tensor = self.prototypes(latents)
        return scores
