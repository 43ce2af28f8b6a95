"""AASIST: sizes as the paper gives them, and layers against slow twins."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from curation.probe import AASIST_PAPER, Aasist
from curation.probe.aasist import _sinc_filters
from curation.probe.graph_attention import GraphAttention, GraphPooling, HeterogeneousAttention


def size_of(network: nn.Module) -> int:
    return sum(each.numel() for each in network.parameters())


def test_sizes() -> None:
    # The public model has 297,866 parameters, two outputs where ours has one.
    assert size_of(Aasist(AASIST_PAPER)) == 297_866 - 161
    assert size_of(Aasist()) == 32_425


@pytest.mark.parametrize("num_samples", [3000, 8000, 16_001])
def test_any_length_gives_one_score_a_row(num_samples: int) -> None:
    network = Aasist().eval()
    waves = torch.randn(3, num_samples)
    assert network.embed(waves).shape == (3, 120)
    assert network(waves).shape == (3,)
    assert torch.isfinite(network(waves)).all()


def test_the_size_of_the_paper_runs() -> None:
    assert Aasist(AASIST_PAPER).eval()(torch.randn(1, 8000)).shape == (1,)


def test_a_score_does_not_depend_on_the_batch() -> None:
    network = Aasist().eval()
    waves = torch.randn(4, 4000)
    alone = torch.cat([network(wave[None]) for wave in waves])
    torch.testing.assert_close(network(waves), alone, atol=1e-5, rtol=1e-4)


def test_filters_pass_their_band() -> None:
    filters = _sinc_filters(AASIST_PAPER)[:, 0].double().numpy()
    assert filters.shape == (70, 129)
    np.testing.assert_allclose(filters, filters[:, ::-1], atol=1e-8)
    response = np.abs(np.fft.rfft(filters, 4096, axis=1))
    frequencies = np.fft.rfftfreq(4096, 1 / 16_000)
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 71) / 2595) - 1)
    for number in (30, 45, 60, 68):
        peak = frequencies[response[number].argmax()]
        assert edges[number] - 62 <= peak <= edges[number + 1] + 62
    # Bands that are wide against the window let all through in their middle.
    middle = np.searchsorted(frequencies, (edges[68] + edges[69]) / 2)
    assert response[68, middle] == pytest.approx(1, abs=0.15)


def test_attention_within_a_graph_equals_its_sums() -> None:
    torch.manual_seed(0)
    layer = GraphAttention(4, 3, temperature=2.0).eval()
    nodes = torch.randn(2, 5, 4)
    vector = layer.attention.vectors[0]
    expected = torch.empty(2, 5, 3)
    for batch in range(2):
        for i in range(5):
            logits = torch.stack(
                [
                    torch.tanh(layer.attention.project(nodes[batch, i] * nodes[batch, j])) @ vector
                    for j in range(5)
                ]
            )
            weights = (logits / 2.0).softmax(0)
            mixed = sum(weights[j] * nodes[batch, j] for j in range(5))
            expected[batch, i] = layer.update.attended(mixed) + layer.update.own(nodes[batch, i])
    fresh = expected / np.sqrt(1 + layer.normalise.eps)
    torch.testing.assert_close(layer(nodes), torch.selu(fresh), atol=1e-5, rtol=1e-5)


def test_edges_between_kinds_have_weights_of_their_own() -> None:
    torch.manual_seed(0)
    layer = HeterogeneousAttention(4, 3, temperature=1.0).eval()
    first, second, stack = torch.randn(2, 2, 4), torch.randn(2, 3, 4), torch.randn(1, 1, 4)
    before = layer(first, second, stack)
    assert [each.shape for each in before] == [(2, 2, 3), (2, 3, 3), (2, 1, 3)]
    nodes = torch.cat([layer.enter_first(first), layer.enter_second(second)], dim=1)
    weights = torch.empty(2, 5, 5)
    for i in range(5):
        for j in range(5):
            kind = {(False, False): 0, (True, True): 1}.get((i >= 2, j >= 2), 2)
            product = torch.tanh(layer.attention.project(nodes[:, i] * nodes[:, j]))
            weights[:, i, j] = product @ layer.attention.vectors[kind]
    mixed = weights.softmax(-1) @ nodes
    updated = layer.update.attended(mixed) + layer.update.own(nodes)
    expected = torch.selu(updated / np.sqrt(1 + layer.normalise.eps))
    torch.testing.assert_close(torch.cat(before[:2], dim=1), expected, atol=1e-5, rtol=1e-5)


def test_pooling_keeps_the_best_nodes_scaled_by_their_scores() -> None:
    layer = GraphPooling(1, 0.5).eval()
    nn.init.ones_(layer.project.weight)
    nn.init.zeros_(layer.project.bias)
    nodes = torch.tensor([[[1.0], [3.0], [-1.0], [2.0], [0.0]]])
    scores = torch.sigmoid(torch.tensor([3.0, 2.0]))
    torch.testing.assert_close(layer(nodes)[0, :, 0], torch.tensor([3.0, 2.0]) * scores)
    assert layer(nodes[:, :1]).shape == (1, 1, 1)
