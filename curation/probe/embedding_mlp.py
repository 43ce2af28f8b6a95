"""A multilayer perceptron on an embedding that a table has as a column.

What is judged is the embedding as much as the selection: the network is the plainest that is not
linear. The architecture is ours; detectors on frozen embeddings with such a head are common, for
instance Wang and Yamagishi, "Investigating self-supervised front ends for speech spoofing
countermeasures" (Odyssey 2022, arXiv 2111.07725).
"""

from __future__ import annotations

from torch import Tensor, nn

from curation.probe.latent_network import LatentNetwork

__all__ = ["EmbeddingMlp"]


class EmbeddingMlp(LatentNetwork):
    """Vectors of any size to one score: standardised, two hidden layers, dropout between.

    The size is that of the first vectors seen, or of the weights loaded. With d inputs and the
    default width of 64 there are 66 d + 4,289 parameters: 12,209 for 120 inputs.
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.latent_size = width
        self.body = nn.Sequential(
            # Embeddings come in any scale: their statistics are averaged over all steps.
            nn.LazyBatchNorm1d(momentum=None),
            nn.LazyLinear(width),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(width, width),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(width, 1)

    def embed(self, features: Tensor) -> Tensor:
        """Latent vectors (batch, width) of embeddings (batch, size)."""
        latents: Tensor = self.body(features)
        return latents

    def classify(self, latents: Tensor) -> Tensor:
        """Scores (batch,) of latent vectors (batch, width)."""
        scores: Tensor = self.classifier(latents).squeeze(1)
        return scores
