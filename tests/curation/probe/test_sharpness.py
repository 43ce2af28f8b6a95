"""SAM on functions whose gradients are known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from curation.probe.sharpness import ascended, gradients_at_worst, mean_sharpness

RHO = 0.5


class Quadratic(nn.Module):
    """x' A x / 2 with A = diag(1, 9)."""

    def __init__(self) -> None:
        super().__init__()
        self.point = nn.Parameter(torch.tensor([3.0, 1.0]))
        self.curves = torch.tensor([1.0, 9.0])

    def loss(self) -> Tensor:
        return (self.curves * self.point.square()).sum() / 2


def test_a_step_is_the_formula_in_two_steps() -> None:
    model = Quadratic()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    value = gradients_at_worst(model, model.loss, RHO)
    optimizer.step()
    assert value == pytest.approx((9 + 9) / 2)
    # Gradient (3, 9) of norm sqrt(90); at the worst point the gradient is A (w + rho g / |g|).
    norm = math.sqrt(90)
    worst = [3 + RHO * 3 / norm, 1 + RHO * 9 / norm]
    expected = [3 - 0.1 * worst[0], 1 - 0.1 * 9 * worst[1]]
    assert model.point.tolist() == pytest.approx(expected, rel=1e-6)


def test_parameters_come_back_to_the_bit() -> None:
    model = Quadratic()
    before = model.point.detach().clone()
    gradients_at_worst(model, model.loss, 1e-3)
    assert torch.equal(model.point, before)
    model.loss().backward()
    with ascended(model.parameters(), RHO):
        assert not torch.equal(model.point, before)
    assert torch.equal(model.point, before)


def test_a_flat_place_stays() -> None:
    model = Quadratic()
    model.point.data.zero_()
    gradients_at_worst(model, model.loss, RHO)
    assert torch.isfinite(model.point.grad).all()


def test_batch_statistics_are_gathered_once() -> None:
    torch.manual_seed(0)
    once, twice = (
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4, momentum=None))
        for _ in range(2)
    )
    twice.load_state_dict(once.state_dict())
    values = torch.randn(8, 3)
    once(values)
    gradients_at_worst(twice, lambda: twice(values).square().mean(), RHO)
    for name, value in once.state_dict().items():
        torch.testing.assert_close(twice.state_dict()[name], value, msg=name)
    assert [twice[1].momentum, twice[2].momentum] == [0.1, None]


class Line(nn.Module):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(slope))

    def forward(self, values: Tensor) -> Tensor:
        return self.slope * values


def test_the_figure_by_hand() -> None:
    """One weight: the worst within rho is rho further, against the labels."""
    model = Line(2.0).train()
    batches = [
        (torch.tensor([1.0]), torch.tensor([1.0])),
        (torch.tensor([1.0, 2.0, -1.0]), torch.tensor([0.0, 0.0, 1.0])),
    ]

    def entropy(slope: float, values: list[float], labels: list[float]) -> float:
        logits = [
            slope * each * (1 if label else -1) for each, label in zip(values, labels, strict=True)
        ]
        return sum(math.log1p(math.exp(-logit)) for logit in logits) / len(logits)

    # Bona fide at 1 wants a greater slope; the second batch wants a smaller one.
    first = entropy(2 - RHO, [1], [1]) - entropy(2, [1], [1])
    second = entropy(2 + RHO, [1, 2, -1], [0, 0, 1]) - entropy(2, [1, 2, -1], [0, 0, 1])
    assert mean_sharpness(model, batches, RHO) == pytest.approx((first + 3 * second) / 4, rel=1e-5)
    assert model.slope.item() == 2.0
    assert model.slope.grad is None
    assert model.training
