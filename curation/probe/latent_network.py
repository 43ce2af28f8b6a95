"""Networks in two parts, so that training can work on what lies between them."""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["LatentNetwork"]


class LatentNetwork(nn.Module):
    """Features to a latent vector, and the vector to a score; the built-in networks are such.

    Prototypes and latent augmentation need the vectors; a network of another kind trains without.
    """

    latent_size: int

    def embed(self, features: Tensor) -> Tensor:
        """Latent vectors (batch, latent_size) of features (batch, ...)."""
        raise NotImplementedError

    def classify(self, latents: Tensor) -> Tensor:
        """Scores (batch,) of latent vectors (batch, latent_size); high is bona fide."""
        raise NotImplementedError

    def forward(self, features: Tensor) -> Tensor:
        """Scores (batch,) of features (batch, ...); high is bona fide."""
        return self.classify(self.embed(features))
