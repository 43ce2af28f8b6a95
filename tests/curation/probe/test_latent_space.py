"""Prototypes and latent augmentation, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from curation.probe import LightCnn
from curation.probe.latent_augmentation import WAYS, augmented
from curation.probe.prototypes import PrototypeNetwork, Prototypes
from datalake.errors import InputError


def two_spoof_prototypes(scale: float = 4.0, margin: float = 0.0) -> Prototypes:
    prototypes = Prototypes(2, 2, scale=scale, margin=margin)
    prototypes.bonafide.data = torch.tensor([[2.0, 0.0]])
    prototypes.spoof.data = torch.tensor([[0.0, 5.0], [-1.0, 0.0]])
    return prototypes


def test_the_score_is_the_difference_to_the_nearest_spoof_prototype() -> None:
    latents = torch.tensor([[3.0, 0.0], [3.0, 4.0], [-2.0, 0.0]])
    # Cosines to bona fide 1, .6, -1; the larger of those to the spoofs 0, .8, 1.
    torch.testing.assert_close(two_spoof_prototypes()(latents), 4 * torch.tensor([1.0, -0.2, -2.0]))


def test_the_loss_by_hand() -> None:
    latents, labels = torch.tensor([[3.0, 4.0], [3.0, 4.0]]), torch.tensor([1.0, 0.0])
    found = two_spoof_prototypes()
    expected = [math.log1p(math.exp(4 * 0.2)), math.log1p(math.exp(-4 * 0.2))]
    assert found.losses(latents, labels).tolist() == pytest.approx(expected, rel=1e-4)
    # With a margin of .1: cos(acos .6 + .1) and cos(acos .8 + .1).
    own = [math.cos(math.acos(0.6) + 0.1), math.cos(math.acos(0.8) + 0.1)]
    expected = [
        math.log1p(math.exp(-4 * (own[0] - 0.8))),
        math.log1p(math.exp(-4 * (own[1] - 0.6))),
    ]
    found = two_spoof_prototypes(margin=0.1)
    assert found.losses(latents, labels).tolist() == pytest.approx(expected, rel=1e-4)


def test_the_loss_at_a_prototype_has_a_gradient() -> None:
    latents = torch.tensor([[1.0, 0.0]], requires_grad=True)
    two_spoof_prototypes(margin=0.2).losses(latents, torch.ones(1)).sum().backward()
    assert latents.grad is not None
    assert torch.isfinite(latents.grad).all()


def test_crowding_by_hand() -> None:
    prototypes = two_spoof_prototypes()
    assert prototypes.crowding().item() == pytest.approx(0)
    prototypes.spoof.data = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    # Between: (.6 + 0) / 2; within: .8.
    assert prototypes.crowding().item() == pytest.approx(0.3 + 0.8)
    one = Prototypes(2, 1)
    one.spoof.data = one.bonafide.data.clone()
    assert one.crowding().item() == pytest.approx(1)


def test_prototypes_need_latent_vectors() -> None:
    with pytest.raises(InputError, match="latent vectors"):
        PrototypeNetwork(nn.Linear(3, 1), 2)
    network = PrototypeNetwork(LightCnn(), 3).eval()
    features = torch.randn(4, 60, 40)
    assert network.embed(features).shape == (4, 32)
    assert network(features).shape == (4,)


SPOOFS = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 8.0]])
CENTRE = torch.tensor([2.0, 4.0])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_interpolation_goes_towards_the_centre_and_extrapolation_away() -> None:
    towards, away = (augmented(SPOOFS, rng(), way) for way in ("interpolation", "extrapolation"))
    share = ((towards - SPOOFS) / (CENTRE - SPOOFS))[[0, 0, 2], [0, 1, 0]]
    assert 0 < share[0] <= 0.5
    torch.testing.assert_close(share, share[:1].expand(3))
    torch.testing.assert_close(away - SPOOFS, SPOOFS - towards)


def test_mixup_stays_between_pairs() -> None:
    found = augmented(SPOOFS, rng(), "mixup")
    assert (found >= SPOOFS.amin(0)).all()
    assert (found <= SPOOFS.amax(0)).all()
    torch.testing.assert_close(found.mean(0), CENTRE)


def test_noise_has_the_spread_of_the_batch() -> None:
    wide = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1, 10])
    added = augmented(wide, rng(), "noise") - wide
    first, second = (added.std(0) / wide.std(0)).tolist()
    assert 0 < first <= 0.55
    assert second == pytest.approx(first, rel=0.1)


def test_an_affine_change_is_one_for_all_rows() -> None:
    found = augmented(SPOOFS, rng(), "affine")
    scale = (found[1] - found[0]) / (SPOOFS[1] - SPOOFS[0])
    torch.testing.assert_close(scale[0], scale[1])
    assert 0.8 <= scale[0] <= 1.2
    torch.testing.assert_close(found[2] - found[0], scale[0] * (SPOOFS[2] - SPOOFS[0]))


def test_ways_are_drawn_and_gradients_flow() -> None:
    assert all(torch.equal(augmented(SPOOFS, rng(7)), augmented(SPOOFS, rng(7))) for _ in range(2))
    some = [augmented(SPOOFS, rng(seed)) for seed in range(40)]
    assert len({tuple(each.flatten().tolist()) for each in some}) > 30
    for way in WAYS:
        leaf = SPOOFS.clone().requires_grad_()
        augmented(leaf, rng(), way).sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.abs().sum() > 0
    assert augmented(SPOOFS[:0], rng()).shape == (0, 2)
