"""Graphs whose nodes attend to each other: layers of AASIST.

Paper: Jung et al., "AASIST: audio anti-spoofing using integrated spectro-temporal graph attention
networks" (ICASSP 2022, arXiv 2110.01200), sections 2 and 3. A graph is a tensor (batch, num_nodes,
num_features); every node is joined to every other.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["GraphAttention", "GraphPooling", "HeterogeneousAttention"]


class _Attention(nn.Module):
    """Weights of node j for node i, from the product of the two nodes' features."""

    def __init__(self, inputs: int, outputs: int, num_kinds: int, temperature: float) -> None:
        super().__init__()
        self.project = nn.Linear(inputs, outputs)
        # One vector a kind of edge; the rows are the kinds.
        self.vectors = nn.Parameter(torch.empty(num_kinds, outputs))
        for vector in self.vectors.data:
            nn.init.xavier_normal_(vector[:, None])
        self.temperature = temperature

    def logits(self, nodes: Tensor, others: Tensor) -> Tensor:
        """(batch, n, d) and (batch, m, d) to (batch, num_kinds, n, m)."""
        products = nodes[:, :, None] * others[:, None]
        projected = torch.tanh(self.project(products))
        return (projected @ self.vectors.T).movedim(-1, 1) / self.temperature


class _Update(nn.Module):
    """A node's new features: from what it attends to, and from itself."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.attended = nn.Linear(inputs, outputs)
        self.own = nn.Linear(inputs, outputs)

    def forward(self, weights: Tensor, others: Tensor, nodes: Tensor) -> Tensor:
        updated: Tensor = self.attended(weights @ others) + self.own(nodes)
        return updated


class GraphAttention(nn.Module):
    """Attention within a graph of one kind of nodes (section 2.2 of the paper)."""

    def __init__(self, inputs: int, outputs: int, temperature: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.2)
        self.attention = _Attention(inputs, outputs, 1, temperature)
        self.update = _Update(inputs, outputs)
        self.normalise = nn.BatchNorm1d(outputs)

    def forward(self, nodes: Tensor) -> Tensor:
        """(batch, num_nodes, inputs) to (batch, num_nodes, outputs)."""
        nodes = self.dropout(nodes)
        weights = self.attention.logits(nodes, nodes)[:, 0].softmax(dim=-1)
        return _activated(self.normalise, self.update(weights, nodes, nodes))


class HeterogeneousAttention(nn.Module):
    """Attention among temporal and spectral nodes, and a stack node that gathers from all.

    Edges within either kind and between the kinds have weights of their own; the stack node takes
    from all nodes and gives to none (section 3.2 of the paper).
    """

    def __init__(self, inputs: int, outputs: int, temperature: float) -> None:
        super().__init__()
        self.enter_first = nn.Linear(inputs, inputs)
        self.enter_second = nn.Linear(inputs, inputs)
        self.dropout = nn.Dropout(0.2)
        # Kinds of edges: within the first, within the second, between.
        self.attention = _Attention(inputs, outputs, 3, temperature)
        self.update = _Update(inputs, outputs)
        self.stack_attention = _Attention(inputs, outputs, 1, temperature)
        self.stack_update = _Update(inputs, outputs)
        self.normalise = nn.BatchNorm1d(outputs)

    def forward(self, first: Tensor, second: Tensor, stack: Tensor) -> tuple[Tensor, ...]:
        """Updated nodes of both kinds and the stack node.

        Args:
            first: (batch, n, inputs).
            second: (batch, m, inputs).
            stack: (batch or 1, 1, inputs).

        Returns:
            (batch, n, outputs), (batch, m, outputs), (batch, 1, outputs).
        """
        num_first = first.shape[1]
        nodes = torch.cat([self.enter_first(first), self.enter_second(second)], dim=1)
        nodes = self.dropout(nodes)
        within_first, within_second, between = self.attention.logits(nodes, nodes).unbind(1)
        is_second = torch.arange(nodes.shape[1], device=nodes.device) >= num_first
        count = is_second.long()[:, None] + is_second.long()
        logits = torch.where(count == 0, within_first, between)
        logits = torch.where(count == 2, within_second, logits)
        gathered = self.stack_attention.logits(stack, nodes)[:, 0].softmax(dim=-1)
        stack = self.stack_update(gathered, nodes, stack)
        updated = self.update(logits.softmax(dim=-1), nodes, nodes)
        nodes = _activated(self.normalise, updated)
        return nodes[:, :num_first], nodes[:, num_first:], stack


class GraphPooling(nn.Module):
    """Keeps the nodes that a learned score puts first, and scales them by it."""

    def __init__(self, inputs: int, share: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.3)
        self.project = nn.Linear(inputs, 1)
        self.share = share

    def forward(self, nodes: Tensor) -> Tensor:
        """(batch, n, inputs) to (batch, max(floor(n * share), 1), inputs)."""
        scores = torch.sigmoid(self.project(self.dropout(nodes)))
        count = max(int(nodes.shape[1] * self.share), 1)
        kept = scores.topk(count, dim=1).indices
        return (nodes * scores).gather(1, kept.expand(-1, -1, nodes.shape[2]))


def _activated(normalise: nn.BatchNorm1d, nodes: Tensor) -> Tensor:
    """Normalised over batch and nodes, then SELU."""
    return torch.selu(normalise(nodes.flatten(0, 1)).view_as(nodes))
